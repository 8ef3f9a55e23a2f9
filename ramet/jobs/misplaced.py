"""Where an option belongs that was given to a verb from Python: on the command line all of them stand side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from ramet.errors import hint_at
from ramet.fields import HIDDEN


def where_it_belongs(job: Any, name: str) -> str:
    """One line about an option that is none of a job's data: how it is written, or what was meant.

    >>> from ramet.jobs.rank.job import RankJob
    >>> where_it_belongs(RankJob(), "guard")
    'guard is an option of the plan, plan=Plan(guard=...), and not of the data.'
    """
    written = dict(_options(job))
    if name in written:
        kind, example = written[name]
        return f"{name} is an option of the {kind}, {example}, and not of the data."
    known = [field.name for field in fields(job.data_options)]
    hint = hint_at(name, (*known, *written))
    return f"options by name must be options of the data, {', '.join(known)}, but got {name!r}{hint}"


def _options(job: Any) -> Iterator[tuple[str, tuple[str, str]]]:
    """For each option of a plan or a recipe, by its names here and on the command line, how it is written."""
    for kind in ("recipe", "plan"):
        part = getattr(job, kind)
        maker = "Recipe" if kind == "recipe" else type(part).__name__
        yield from _written(part, kind, f"{kind}={maker}(%s)")


def _written(part: Any, kind: str, around: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for field in fields(part):
        value, alias = getattr(part, field.name), field.metadata.get("option")
        if is_dataclass(value):
            yield from _written(value, kind, around % f"{field.name}={type(value).__name__}(%s)")
        else:
            for name in {field.name, *([alias.replace("-", "_")] if alias not in (None, HIDDEN) else [])}:
                yield name, (kind, around % f"{field.name}=...")
