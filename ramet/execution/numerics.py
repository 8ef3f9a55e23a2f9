"""The settings of a process that change the last bits of a result, made the same wherever a task runs."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ramet.errors import ConfigError
from ramet.seeding import derive_seed, seeded_globally


@dataclass(frozen=True)
class Numerics:
    """The caller's settings of torch, taken along to the workers.

    A user who asks for deterministic algorithms or flushes denormals does so in the driver; a worker that did not
    would give other bits than the same task inline.
    """

    default_dtype: torch.dtype
    deterministic: bool
    deterministic_warn_only: bool
    flush_denormal: bool
    mkldnn: bool
    matmul_precision: str | None  # None: the caller uses torch's newer settings, which exclude this one.

    @classmethod
    def of_this_process(cls) -> Numerics:
        """The settings as they are now."""
        denormal = torch.tensor(1e-310, dtype=torch.float64)  # torch can set the flag, but not tell it.
        return cls(
            default_dtype=torch.get_default_dtype(),
            deterministic=torch.are_deterministic_algorithms_enabled(),
            deterministic_warn_only=torch.is_deterministic_algorithms_warn_only_enabled(),
            flush_denormal=(denormal * 2).item() == 0.0,
            mkldnn=bool(torch.backends.mkldnn.enabled),
            matmul_precision=_matmul_precision(),
        )

    def apply(self) -> None:
        """Give this process the same settings."""
        torch.set_default_dtype(self.default_dtype)
        torch.use_deterministic_algorithms(self.deterministic, warn_only=self.deterministic_warn_only)
        torch.set_flush_denormal(self.flush_denormal)
        torch.backends.mkldnn.enabled = self.mkldnn  # type: ignore[assignment]
        if self.matmul_precision is not None and self.matmul_precision != _matmul_precision():
            torch.set_float32_matmul_precision(self.matmul_precision)


def _matmul_precision() -> str | None:
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return None


@contextlib.contextmanager
def settled(key: str, threads: int) -> Iterator[None]:
    """Run a block as every executor runs the task of a key, and put everything back afterwards.

    Sums are split by the number of threads, so that number is part of the result. Modules and dropout draw from the
    global generators, so these start from the key of the task.
    """
    seed = derive_seed(0, "task", key)
    threads_before = torch.get_num_threads()
    python_before = random.getstate()
    numpy_before = np.random.get_state()
    try:
        if threads_before != threads:
            torch.set_num_threads(threads)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        with seeded_globally(0, "task", key), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        np.random.set_state(numpy_before)
        random.setstate(python_before)
        if threads_before != threads:
            torch.set_num_threads(threads_before)


def check_number(of_what: str, number: int) -> int:
    """A number of workers, attempts or threads, or a ``ConfigError`` if it is not a positive integer."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ConfigError(f"the number of {of_what} must be at least 1, but got {number!r}.")
    return number
