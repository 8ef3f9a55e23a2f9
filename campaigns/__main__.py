"""``python -m campaigns [NAME ...]``: one table of what was tried and what was lost; exit code 1 if anything was."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
from pathlib import Path

from campaigns.findings import Finding, Report, as_table
from campaigns.page import PAGE, write_page

NAMES = ("kills", "faults", "protocol", "fuzzing", "guided", "load", "database", "cluster")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m campaigns", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(NAMES)}; all by default")
    parser.add_argument("--long", action="store_true", help="more of everything: hours instead of minutes")
    parser.add_argument("--seed", type=int, default=0, help="what is drawn at random follows from it")
    parser.add_argument("--markdown", nargs="?", type=Path, const=PAGE, help="write the table into docs/reliability.md")
    parser.add_argument("--only", default="", help="only lines in which this text occurs; the page keeps the others")
    given = parser.parse_args()

    def wants(line: str) -> bool:
        return given.only in line or line in given.only

    for name in given.names:
        if name not in NAMES:
            parser.error(f"a campaign is one of {', '.join(NAMES)}, but got {name!r}.")
    # Whoever ends it meets the same clearing up as an error: processes, folders and namespaces go.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    everything: list[Finding] = []
    for name in given.names or NAMES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        started = time.monotonic()
        findings: list[Finding] = []
        for finding in importlib.import_module(f"campaigns.{name}").run(wants, is_long=given.long, seed=given.seed):
            findings.append(finding)
            print("  " + ", ".join(finding.cells()), file=sys.stderr, flush=True)
            for sentence in finding.lost:
                print(f"    LOST: {sentence}", file=sys.stderr, flush=True)
            seconds = time.monotonic() - started
            report = Report(
                name=name, findings=findings, seconds=seconds, is_long=given.long, seed=given.seed, only=given.only
            )
            if given.markdown is not None:
                write_page(given.markdown, [report])  # after each line, so that whoever has to stop it keeps the others
        everything += findings
        print(f"  {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(as_table([finding.cells() for finding in everything]))
    return 1 if any(finding.lost for finding in everything) else 0


if __name__ == "__main__":  # worker processes import this file again
    sys.exit(main())
