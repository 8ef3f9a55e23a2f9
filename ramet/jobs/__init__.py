"""The five jobs: what each is asked, how it is built and done, what it gives, and its page; one runner for all.

A job is a frozen dataclass, its fields are the options of its command, its JSON is a run's ``config.json``. The modules
that hold the jobs are light, so that ``ramet COMMAND --help`` does not wait for torch.
"""

from __future__ import annotations

from typing import Any

from ramet.jobs.job import Job
from ramet.registry import resolve_reference

JOBS = {
    "rank": "ramet.jobs.rank.job:RankJob",
    "search": "ramet.jobs.search.job:SearchJob",
    "grow": "ramet.jobs.grow.job:GrowJob",
    "learn": "ramet.jobs.learn.job:LearnJob",
    "study": "ramet.jobs.study.job:StudyJob",
}
"""The jobs by the kind that ``config.json`` names: a new job is a line here and a folder."""


def job_class(kind: str) -> type[Job[Any]]:
    """The class of a job, by its kind."""
    found: type[Job[Any]] = resolve_reference(JOBS[kind], trusted=True)
    return found


__all__ = ["JOBS", "Job", "job_class"]
