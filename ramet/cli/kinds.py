"""What can be done with a run directory, by its kind: a new job adds a line to ``KINDS``.

What a kind needs is named, and imported when it is called, so that ``ramet --help`` does not wait for torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.cli.grow import show_grow, show_step
from ramet.cli.learn import show_learn
from ramet.cli.rank import show_rank
from ramet.cli.search import show_search
from ramet.cli.study import show_study
from ramet.errors import ConfigError
from ramet.execution.launch import is_launched

if TYPE_CHECKING:
    from ramet.execution import Executor
    from ramet.execution.ranks import Ranks

Result = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What the commands do with a run.

    Args:
        show: prints a result, given the run directory and whether it is to be JSON.
        writer: ``module:function`` that writes the run's report.html anew.
        resumer: ``module:function`` that goes on with a run; none if it was started from Python, where it is to be
            called again instead.
        options: what else the resumer takes.
        has_ranks: whether it can run on the ranks of torchrun.
    """

    show: Callable[[Result, Path, bool], None]
    writer: str
    resumer: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    has_ranks: bool = False

    def write_report(self, directory: Path) -> None:
        """Write report.html anew."""
        _imported(self.writer)(directory)

    def resume(
        self, directory: Path, executor: Executor, ranks: Ranks, *, tensorboard: bool, checkpoint_every: float
    ) -> Result:
        """Go on with a run; gives its result."""
        assert self.resumer is not None
        options = {**self.options, "ranks": ranks} if self.has_ranks else self.options
        result: Result = _imported(self.resumer)(
            directory,
            executor,
            tensorboard=tensorboard,
            seconds_between_checkpoints=checkpoint_every,
            **options,
        )
        return result


KINDS: dict[str, Kind] = {
    "rank": Kind(show_rank, "ramet.reports.rank:write_rank_report", "ramet.ranking.job:resume"),
    "rank-from-python": Kind(show_rank, "ramet.reports.rank:write_rank_report"),
    "grow": Kind(
        show_grow, "ramet.reports.grow:write_grow_report", "ramet.growth.job:resume_grow", {"on_step": show_step}
    ),
    "search": Kind(
        show_search, "ramet.reports.search:write_search_report", "ramet.searching.job:resume", has_ranks=True
    ),
    "learn": Kind(show_learn, "ramet.reports.learn:write_learn_report", "ramet.continual.job:resume"),
    "study": Kind(show_study, "ramet.reports.study:write_study_report", "ramet.continual.study.job:resume"),
}
"""The kinds of run that there are, as ``config.json`` names them."""


def kind_of(directory: Path, purpose: str) -> Kind:
    """The kind of a run that is to be resumed or reported.

    Raises:
        ConfigError: there is no run, or it is of a kind that this cannot be done with.
    """
    from ramet.runs import read_config

    name = read_config(directory)["kind"]
    able = [key for key, kind in KINDS.items() if purpose != "resume" or kind.resumer is not None]
    if name not in able:
        raise ConfigError(f"a run to {purpose} must be one of: {', '.join(able)}; but {directory} is of kind {name!r}.")
    if purpose == "resume" and is_launched() and not KINDS[name].has_ranks:
        raise ConfigError(f"torchrun is for searches, but {directory} is of kind {name!r}; resume it without.")
    return KINDS[name]


def _imported(reference: str) -> Callable[..., Any]:
    module, _, name = reference.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function
