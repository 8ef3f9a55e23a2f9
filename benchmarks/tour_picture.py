"""The picture of the README: what is left of an old task in a plain loop, from the records of a tour.

``ramet tour --out runs/tour`` and then ``python -m benchmarks.tour_picture runs/tour docs/tour.svg``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ramet.jobs.tour.report import guarded_chart
from ramet.jobs.tour.result import TourResult
from ramet.reports import picture


def main(run: str, file: str) -> None:
    """Write the chart of the tour's last part as a file of its own."""
    Path(file).write_text(picture(guarded_chart(TourResult.load(run).guarded)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
