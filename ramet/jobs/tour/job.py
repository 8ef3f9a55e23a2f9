"""`ramet tour`: what the tour is asked, and how it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ramet.jobs.job import Job, Session
from ramet.runs.encoding import Json

if TYPE_CHECKING:
    from ramet.data import DataSet
    from ramet.spaces import Space


@dataclass(frozen=True)
class TourSetup:
    """The digits, and the space of the first two parts."""

    data: DataSet
    space: Space


@dataclass(frozen=True, kw_only=True)
class TourJob(Job[TourSetup]):
    """Show what ramet is for: one story in five parts on the embedded digits, a sentence and a picture each.

    1. A supernet is judged: does it rank 64 networks as they rank when each is trained alone? (`ramet rank`)
    2. The best of them is found in stages, beside the largest and a random choice. (`ramet search`)
    3. A network is grown, beside a plain one of the same size and the same work. (`ramet grow`)
    4. Five tasks are learned one after the other, by growing and by naive training. (`ramet learn`)
    5. A guard keeps an old task in a plain loop of 20 lines. (`ramet.guards`)

    It needs minutes on two cores, no network and no data. It leaves a run directory with report.html, one page to open
    and to forward, and in parts/ the run of each part with a report of its own. Every sentence is made from the figures
    that were measured: another seed may come out otherwise, and its page then says so.

    For example:

    - `ramet tour --workers 2`
    - the whole way in seconds, too short for a verdict: `ramet tour --quick`
    - with other chances: `ramet tour --seed 1 --out runs/tour-1`

    Args:
        quick: do a small part of the work: it shows the way, and is too short for a verdict.
    """

    kind = "tour"
    gives = "ramet.jobs.tour.result:TourResult"
    sources = ()

    quick: bool = False

    def code(self) -> list[str]:
        """None: the tour's own."""
        return []

    def anchored(self) -> Self:
        """As it is: it names no file."""
        return self

    def build(self, *, trust: bool = False) -> TourSetup:
        """The digits and the space."""
        from ramet.data import load, on_device
        from ramet.jobs.tour.parts import SPACE
        from ramet.spaces import ModuleSpace

        data = on_device(load("digits", seed=self.seed), self.device)
        return TourSetup(data, ModuleSpace(SPACE, in_channels=data.in_channels, num_classes=data.num_classes))

    def setting(self, setup: TourSetup) -> Json:
        """The data and the space by content."""
        return {"data": setup.data.fingerprint(), "space": setup.space.describe()}

    def work(self, setup: TourSetup, session: Session) -> Json:
        """The five parts, one after the other; each says its sentence when it is done."""
        from ramet.jobs.tour.story import tell

        return tell(self, setup, session)
