"""What can be done with a run directory, by its kind: a new job adds a line to ``KINDS``.

The functions import what they need when they are called, so that ``ramet --help`` does not wait for torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramet.cli.grow import report_grow, resume_growth, show_grow
from ramet.cli.learn import report_learn, resume_learn, show_learn
from ramet.cli.rank import report_rank, resume_rank, show_rank
from ramet.cli.search import report_search, resume_search, show_search
from ramet.errors import ConfigError

Result = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What the commands do with a run.

    Attributes:
        report: writes the run's report.html anew.
        show: prints a result, given the run directory and whether it is to be JSON.
        resume: goes on with a run, given its directory and the options of `ramet resume`; none if it was started from
            Python, where it is to be called again instead.
    """

    report: Callable[[Path], object]
    show: Callable[[Result, Path, bool], None]
    resume: Callable[..., Result] | None = None


KINDS: dict[str, Kind] = {
    "rank": Kind(report_rank, show_rank, resume_rank),
    "rank-from-python": Kind(report_rank, show_rank),
    "grow": Kind(report_grow, show_grow, resume_growth),
    "search": Kind(report_search, show_search, resume_search),
    "learn": Kind(report_learn, show_learn, resume_learn),
}
"""The kinds of run that there are, as ``config.json`` names them."""


def kind_of(directory: Path, purpose: str) -> Kind:
    """The kind of a run that is to be resumed or reported.

    Raises:
        ConfigError: there is no run, or it is of a kind that this cannot be done with.
    """
    from ramet.runs import read_config

    name = read_config(directory)["kind"]
    able = [key for key, kind in KINDS.items() if purpose != "resume" or kind.resume is not None]
    if name not in able:
        raise ConfigError(f"a run to {purpose} must be one of: {', '.join(able)}; but {directory} is of kind {name!r}.")
    return KINDS[name]
