"""The tour from its first part to its last: what its records hold is not done again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ramet.fields import from_json, to_json
from ramet.jobs.job import Session
from ramet.jobs.tour import sentences
from ramet.jobs.tour.figures import FoundFigures, GrownFigures, GuardedFigures, JudgedFigures, LearnedFigures
from ramet.jobs.tour.parts import TourParts
from ramet.jobs.tour.sentences import Told
from ramet.jobs.tour.sizes import QUICK, WHOLE
from ramet.progress import progress
from ramet.runs.encoding import Json, plain

if TYPE_CHECKING:
    from ramet.jobs.tour.job import TourJob, TourSetup

SHARES = {"judged": 0.5, "found": 0.1, "grown": 0.2, "learned": 0.15, "guarded": 0.05}
"""What each part takes of the whole, roughly; only the bar looks at it."""


def tell(job: TourJob, setup: TourSetup, session: Session) -> Json:
    """All parts; gives the result as JSON values."""
    sizes = QUICK if job.quick else WHOLE
    parts = TourParts(sizes, job.seed, job.device, setup.space.num_archs, session)
    judged = cache(parts.judged)  # of a tour that goes on, only the second part asks for it
    told: Json = {"seed": job.seed, "quick": job.quick}
    with progress("the tour", total=sum(SHARES.values())) as bar:

        def part(name: str, kind: type[Any], measure: Callable[[], Any], say: Callable[[Any], Told]) -> None:
            records = session.run.records
            bar.label = f"the tour, part {list(SHARES).index(name) + 1} of {len(SHARES)}"
            if name not in records:
                records.append(name, figures=plain(to_json(measure())))
            told[name] = records[name]["figures"]
            bar.advance(SHARES[name])
            line = say(from_json(kind, told[name], name)).words
            session.notify("part", {"line": f"{list(SHARES).index(name) + 1}. {line}"})

        part("judged", JudgedFigures, lambda: judged()[0], sentences.judged)
        part("found", FoundFigures, lambda: parts.found(judged()[1]), sentences.found)
        part("grown", GrownFigures, parts.grown, sentences.grown)
        part("learned", LearnedFigures, parts.learned, sentences.learned)
        part("guarded", GuardedFigures, parts.guarded, sentences.guarded)
    return told
