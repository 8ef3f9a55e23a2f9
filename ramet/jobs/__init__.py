"""The jobs, five verbs and a tour: what each is asked, how it is built and done, what it gives, its page; one runner.

A job is a frozen dataclass, its fields are the options of its command, its JSON is a run's ``config.json``. The modules
that hold the jobs are light, so that ``ramet COMMAND --help`` does not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.jobs.job import Job

__getattr__ = lazy_front(__name__)

JOBS = {
    "rank": "ramet.jobs.rank.job:RankJob",
    "search": "ramet.jobs.search.job:SearchJob",
    "grow": "ramet.jobs.grow.job:GrowJob",
    "learn": "ramet.jobs.learn.job:LearnJob",
    "study": "ramet.jobs.study.job:StudyJob",
    "scores": "ramet.jobs.scores.job:ScoresJob",
    "tour": "ramet.jobs.tour.job:TourJob",
}
"""The jobs by the kind that ``config.json`` names: a new job is a line here and a folder."""

SUMMARIES = {
    "rank": "Say how far a supernet's ranking of its children can be trusted, and what would make it better.",
    "search": "Find the best architecture of a space, and train it alone.",
    "grow": "Grow a network where it helps most, until it is large or good enough.",
    "learn": "Learn a stream of tasks one after the other, in one network, and say what was forgotten and what it "
    "cost.",
    "study": "Search how a stream of tasks is learned best: how much each task grows, where it is bound, in which "
    "order.",
    "tour": "Show what ramet is for: one story in five parts on the embedded digits, a sentence and a picture each.",
}
"""What each does, as its class says it: `ramet --help` does not wait for the classes."""


def job_class(kind: str) -> type[Job[Any]]:
    """The class of a job, by its kind."""
    from ramet.registry import resolve_reference

    found: type[Job[Any]] = resolve_reference(JOBS[kind], trusted=True)
    return found


__all__ = ["JOBS", "SUMMARIES", "Job", "job_class"]
