"""Options of commands, made from the dataclasses that hold them: an option is added where its value is kept.

A field of a job is an option of its command; the fields of a dataclass within it too. The name, the default and the
type are the field's, the help is its line in the docstring of the dataclass.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import docstring_parser
from cyclopts import Group, Parameter, Token

from ramet.fields import HIDDEN, field_types

if TYPE_CHECKING:
    from ramet.execution import Executor
    from ramet.jobs import Job
    from ramet.runs.loggers import RunLogger


def _whole_number(kind: Any, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"it must be a whole number, but got {text!r}.") from None


WHOLE = Parameter(converter=_whole_number)
"""For options that are whole numbers: 1.5 is refused, where the library would round it."""
FLAG = Parameter(negative=())

SUBJECT = Group("What it is about", sort_key=1)
PLAN = Group("What is done", sort_key=2)
TRAINING = Group("How networks are trained", sort_key=3)
RUN = Group("The run", sort_key=4)
GROUPS = dict.fromkeys(("space", "sizes", "network", "start", "stream", "data", "data_options"), SUBJECT) | {
    "recipe": TRAINING,
    "seed": RUN,
    "device": RUN,
}
"""Under which heading the help of a job shows the options of its fields; all others are what is done."""


@Parameter(name="*", group=RUN)
@dataclass(frozen=True, kw_only=True)
class Common:
    """Where and how a run is done; none of it has an influence on the result.

    Args:
        out: the run directory; by default a new one under runs/.
        overwrite: replace the run directory if it is there already.
        json: print the result as one JSON object on standard output.
        checkpoint_every: seconds after which a training saves itself; how much of it a kill may cost.
        workers: how many trainings run at the same time, one thread each.
        engine: where trainings run: in this process, in processes of this machine, or on a Ray cluster (needs the extra
            ray); by default in this process with one worker, in processes with more. Results do not depend on it.
        ray_address: an existing Ray cluster, HOST:PORT, ray://HOST:PORT or auto; by default one is started on this
            machine and ends with the command.
        cpus_per_training: what a training asks Ray for; by default 1.
        gpus_per_training: the same of GPUs; by default 0.
        tensorboard: the same as --log tensorboard.
        log: also tell the numbers of the run to tensorboard, mlflow or wandb (offline), several joined by commas, each
            of which needs the extra of its name; or to FILE.py:Class of your own (`ramet list logger`).
        trust: run code that files name (FILE.py:name in a run's config.json, a stream or a saved network); without it
            they are refused, and the message says what would run. Code that you name yourself runs in any case.
    """

    out: Path | None = None
    overwrite: Annotated[bool, FLAG] = False
    json: Annotated[bool, FLAG] = False
    checkpoint_every: float = 30.0
    workers: Annotated[int, WHOLE] = 1
    engine: Annotated[Literal["inline", "processes", "ray"] | None, Parameter(name="--executor")] = None
    ray_address: str | None = None
    cpus_per_training: float | None = None
    gpus_per_training: float | None = None
    tensorboard: Annotated[bool, FLAG] = False
    log: str | None = None
    trust: Annotated[bool, FLAG] = False

    def loggers(self) -> list[RunLogger]:
        """What is told the numbers of the run; a missing library is refused here, before anything is written."""
        from ramet.runs.loggers import make_loggers

        named = [*(["tensorboard"] if self.tensorboard else []), *([self.log] if self.log else [])]
        return make_loggers(",".join(named))

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


def command_of(job_class: type[Job[Any]], run: Callable[[Job[Any], Common], None]) -> Callable[..., None]:
    """The command of a job, which ``run`` does: a function whose keywords are the job's options and the common ones."""
    options = list(_options(job_class))

    def command(common: Common | None = None, recipe: str | None = None, **values: Any) -> None:
        run(_assembled(job_class, {**_recipe_values(recipe), **values}), common or Common())

    if any(field.name == "recipe" for field in fields(job_class)):
        options.append(inspect.Parameter("recipe", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=RECIPE))
    common = inspect.Parameter("common", inspect.Parameter.KEYWORD_ONLY, default=Common(), annotation=Common)
    command.__signature__ = inspect.Signature([*options, common])  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in [*options, common]}
    command.__doc__ = inspect.cleandoc(job_class.help())
    command.__name__ = job_class.kind
    return command


RECIPE = Annotated[
    str | None,
    Parameter(
        group=TRAINING,
        help="darts, adamw, ... (`ramet list recipe`), or FILE.py:function that gives a Recipe or some of its fields: "
        "what it sets is the default of the options for training.",
    ),
]


def _recipe_values(text: str | None) -> dict[str, Any]:
    """What a recipe by name sets."""
    if text is None:
        return {}
    from ramet.training.recipes import recipe_options

    return recipe_options(text)


def _options(kind: type, group: Group | None = None) -> list[inspect.Parameter]:
    """The options of a dataclass, those of dataclasses within it in their places, and all under one heading."""
    found = []
    for field, held in _offered(kind):
        heading = group or GROUPS.get(field.name, PLAN)
        if is_dataclass(held) and isinstance(held, type):
            found += _options(held, heading)
        else:
            found.append(_option(kind, field, held, heading))
    return found


def _offered(kind: type) -> list[tuple[Field[Any], Any]]:
    """The fields of a dataclass that the command line offers, each with its type there."""
    hints = field_types(kind)
    offered = [field for field in fields(kind) if field.metadata.get("option") != HIDDEN]
    return [(field, field.metadata.get("kind") or hints[field.name]) for field in offered]


def _option(owner: type, field: Field[Any], kind: Any, group: Group) -> inspect.Parameter:
    name = field.metadata.get("option")
    words: dict[str, Any] = {"help": _help(owner, field.name), "group": group}
    if name:
        words["name"] = f"--{name}"
    if kind is bool or str(kind).startswith("tuple"):
        words["negative"] = ()
    if kind is int or kind == int | None:
        words["converter"] = _whole_number
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    if default is None:
        kind = kind | None  # where pydantic is imported, the defaults are held against their types
    annotation = Annotated[kind, Parameter(**words)]
    return inspect.Parameter(_keyword(field), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _help(owner: type, name: str) -> str:
    """A field's line in the docstring of its dataclass, or of one that it was inherited from."""
    return next((lines[name] for base in owner.__mro__ if name in (lines := _help_lines(base))), "")


@cache
def _help_lines(owner: type) -> dict[str, str]:
    """The lines of a docstring's arguments, which is read once and not for each field."""
    entries = docstring_parser.parse(owner.__dict__.get("__doc__") or "").params
    return {entry.arg_name: " ".join((entry.description or "").split()) for entry in entries}


def _assembled(kind: type, values: dict[str, Any]) -> Any:
    """The dataclass of the options' values."""
    given = {}
    for field, held in _offered(kind):
        if is_dataclass(held) and isinstance(held, type):
            given[field.name] = _assembled(held, values)
        elif _keyword(field) in values:
            given[field.name] = values[_keyword(field)]
    return kind(**given)


def _keyword(field: Field[Any]) -> str:
    """An option as a keyword; two dataclasses of a job may have fields of the same name, but not options."""
    return str(field.metadata.get("option") or field.name).replace("-", "_")


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
