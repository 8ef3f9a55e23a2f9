"""``python -m benchmarks.language [grown searched taught]``: figures to results/language.jsonl, tables to the terminal.

It needs ``ptb`` in the folder that ``RAMET_DATA`` names, and goes on where it was interrupted: each arm and seed is a
line. ``--tables`` writes the tables of what is there, as docs/language.md has them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.language import growing, searching, tables, teaching
from benchmarks.language.records import Records
from benchmarks.language.scale import TINY, Scale

PARTS = ("grown", "searched", "taught")
RECORDS = Path(__file__).parents[2] / "results" / "language.jsonl"


def run(parts: list[str], scale: Scale, records: Records, out: Path) -> None:
    """Measure what is missing."""
    if "grown" in parts:
        growing.compare(scale, records)
    if "searched" in parts:
        searching.compare(scale, records, out)
    if "taught" in parts:
        teaching.compare(scale, records, out)


def main(arguments: list[str] | None = None) -> None:
    """Read the words of the command line, and do it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts; all by default")
    parser.add_argument("--records", type=Path, default=RECORDS, help="where figures are kept")
    parser.add_argument("--out", type=Path, help="where runs are kept; by default a folder that is thrown away")
    parser.add_argument("--tiny", action="store_true", help="seconds instead of minutes; the figures mean nothing")
    parser.add_argument("--tables", action="store_true", help="only write the tables of what is there")
    given = parser.parse_args(arguments)
    records = Records(given.records)
    if not given.tables:
        with tempfile.TemporaryDirectory() as folder:
            run(given.parts or list(PARTS), TINY if given.tiny else Scale(), records, given.out or Path(folder))
    print(tables.text(records))


if __name__ == "__main__":
    main()
