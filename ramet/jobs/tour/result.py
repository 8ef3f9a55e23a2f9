"""What the tour gives: the figures of its five parts, and a sentence for each."""

from __future__ import annotations

from dataclasses import dataclass

from ramet.jobs.result import Result
from ramet.jobs.tour import sentences
from ramet.jobs.tour.figures import FoundFigures, GrownFigures, GuardedFigures, JudgedFigures, LearnedFigures
from ramet.jobs.tour.sentences import Told
from ramet.reports.tables import Headline

QUICK_WORDS = "A quick tour shows the way and is too short for a verdict."


@dataclass(frozen=True, kw_only=True)
class TourResult(Result):
    """The five parts of the tour; what is said of each follows from its figures.

    Attributes:
        quick: whether it was too short for a verdict.
    """

    seed: int
    judged: JudgedFigures
    found: FoundFigures
    grown: GrownFigures
    learned: LearnedFigures
    guarded: GuardedFigures
    quick: bool = False

    @property
    def told(self) -> dict[str, Told]:
        """The outcome and the sentence of each part, by its title."""
        return {
            "A supernet judged": sentences.judged(self.judged),
            "The best child found": sentences.found(self.found),
            "A network grown": sentences.grown(self.grown),
            "Five tasks, nothing forgotten?": sentences.learned(self.learned),
            "A guard in a plain loop": sentences.guarded(self.guarded),
        }

    def headline(self) -> Headline:
        """How many of the parts came out well."""
        good = sum(told.tone == "good" for told in self.told.values())
        return Headline("parts that came out well", good, f"{good} of {len(self.told)}", "", "highest")

    def words(self) -> list[str]:
        """The five sentences, and where the report is."""
        lines = [f"{number}. {told.words}" for number, told in enumerate(self.told.values(), start=1)]
        lines += ["", QUICK_WORDS] if self.quick else []
        return lines if self.report is None else [*lines, "", f"Report: {self.report}"]
