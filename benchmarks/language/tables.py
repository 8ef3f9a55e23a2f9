"""The tables of docs/language.md, from the records."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from benchmarks.language.growing import ORDER
from benchmarks.language.records import Record, Records
from benchmarks.language.scale import TUNING_SEED


def text(records: Records) -> str:
    """All tables as Markdown."""
    parts = {"Grown": grown(records), "Searched": searched(records), "Taught": taught(records)}
    return "\n".join(f"## {name}\n\n{table}\n" for name, table in parts.items() if table)


def spread(values: Sequence[float], digits: int = 3) -> str:
    """The mean, and the deviation over seeds if there are several."""
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}"


def grown(records: Records) -> str:
    """Bits a character and work of every arm, over the judged seeds."""
    rows = []
    for arm in ORDER:
        found = judged(records, part="grown", arm=arm)
        if found:
            row = [arm, f"{found[0]['rate']:g}", spread([r["test"] for r in found])]
            row += [f"{mean(r['work'] for r in found) / 1e12:.3f}", str(found[0]["steps"]), str(len(found))]
            rows.append([*row, f"{mean(r['parameters'] for r in found) / 1000:.0f}k"])
    return table(["arm", "learning rate", "test bits", "work, 10^12", "steps", "seeds", "parameters"], rows)


def searched(records: Records) -> str:
    """What was found, beside chance and the largest."""
    arms = {"search": ["search"], "largest that fits": ["largest that fits"]}
    arms["chance"] = sorted({r["arm"] for r in records.matching(part="searched") if r["arm"].startswith("chance")})
    rows = []
    for name, members in arms.items():
        found = [record for arm in members for record in judged(records, part="searched", arm=arm)]
        if found:
            values = [record["test"] for record in found]
            size = f"{mean(record['parameters'] for record in found) / 1000:.0f}k"
            rows.append([name, spread(values), f"{min(values):.3f}", size, str(len(found))])
    return table(["arm", "test bits", "best", "parameters", "networks"], rows)


def taught(records: Records) -> str:
    """Both texts before and after the second was learned."""
    found = judged(records, part="taught")
    if not found:
        return ""
    rows = []
    for method in [entry["method"] for entry in found[0]["methods"]]:
        entries = [e for record in found for e in record["methods"] if e["method"] == method]
        kept = all(entry["before"] == entry["after"] for entry in entries)
        columns = [spread([entry[name] for entry in entries]) for name in ("before", "after", "second")]
        size = f"{mean(entry['parameters'] for entry in entries) / 1000:.0f}k"
        rows.append([method, *columns, "yes" if kept else "no", size, str(len(entries))])
    untaught = spread([record["trained"]["second"] for record in found])
    head = ["method", "first text, before", "first text, after", "second text", "first kept", "parameters", "seeds"]
    return f"{table(head, rows)}\n\nBefore it was taught, the network had {untaught} bits on the second text."


def judged(records: Records, **wanted: Any) -> list[Record]:
    """Those of the judged seeds."""
    return [record for record in records.matching(**wanted) if record["seed"] != TUNING_SEED]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table; nothing without rows."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else ""
