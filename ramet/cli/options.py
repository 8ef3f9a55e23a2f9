"""The options that every command takes, and what they mean for a run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token

from ramet.registry.references import anchored as anchored

if TYPE_CHECKING:
    from ramet.execution import Executor


def _whole_number(kind: Any, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"it must be a whole number, but got {text!r}.") from None


WHOLE = Parameter(converter=_whole_number)
"""For options that are whole numbers: 1.5 is refused, where the library would round it."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of every command.

    Args:
        seed: the seed that all randomness of the run follows from.
        out: the run directory; by default a new one under runs/.
        overwrite: replace the run directory if it is there already.
        json: print the result as one JSON object on standard output.
        device: where tensors are, for example cpu or cuda.
        workers: how many trainings run at the same time, one thread each.
        engine: where trainings run: in this process, in processes of this machine, or on a Ray cluster (needs the extra
            ray); by default in this process with one worker, in processes with more. Results do not depend on it.
        ray_address: an existing Ray cluster, HOST:PORT, ray://HOST:PORT or auto; by default one is started on this
            machine and ends with the command.
        cpus_per_training: what a training asks Ray for; by default 1.
        gpus_per_training: the same of GPUs; by default 0.
        tensorboard: also write the numbers of the run as TensorBoard scalars (needs the extra tensorboard).
    """

    seed: Annotated[int, WHOLE] = 0
    out: Path | None = None
    overwrite: Annotated[bool, Parameter(negative=())] = False
    json: Annotated[bool, Parameter(negative=())] = False
    device: str = "cpu"
    workers: Annotated[int, WHOLE] = 1
    engine: Annotated[Literal["inline", "processes", "ray"] | None, Parameter(name="--executor")] = None
    ray_address: str | None = None
    cpus_per_training: float | None = None
    gpus_per_training: float | None = None
    tensorboard: Annotated[bool, Parameter(negative=())] = False

    def folder(self, kind: str) -> Path:
        """Where a new run goes."""
        if self.out is None:
            return Path("runs") / f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}"
        return self.out

    def executor(self) -> Executor:
        """Where independent trainings run."""
        from ramet.execution import make_executor

        return make_executor(
            self.workers,
            self.engine,
            ray_address=self.ray_address,
            cpus=self.cpus_per_training,
            gpus=self.gpus_per_training,
        )

    def start(
        self,
        kind: str,
        run: Callable[..., dict[str, Any]],
        job: object,
        seconds_between_checkpoints: float,
        **more: Any,
    ) -> tuple[dict[str, Any], Path]:
        """Start a new run of a job.

        Args:
            kind: names the run directory if the user did not.
            run: takes the job, the directory, an executor and the options below.
            job: what is asked.
            seconds_between_checkpoints: how much work of a training a kill may cost.
            more: further options of ``run``.

        Returns:
            The result, and the run directory.
        """
        out = self.folder(kind)
        options: dict[str, Any] = {"overwrite": self.overwrite, "tensorboard": self.tensorboard}
        options |= {"seconds_between_checkpoints": seconds_between_checkpoints, **more}
        return run(job, out, self.executor(), **options), out


def given(**options: Any) -> dict[str, Any]:
    """The options that have a value."""
    return {name: value for name, value in options.items() if value is not None}


def print_json(result: dict[str, Any]) -> None:
    """One JSON object on standard output; figures that are not defined are null."""
    sys.stdout.write(json.dumps(without_nan(result), allow_nan=False) + "\n")


def without_nan(value: Any) -> Any:
    """The value with null in place of NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
