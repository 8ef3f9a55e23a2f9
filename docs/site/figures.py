"""Tables that a page takes from where their figures are: ``results/`` or another page. None is typed a second time.

``<!-- figures: NAME -->`` stands for a table that is computed from the records, ``<!-- table: PAGE: FIRST ROW -->``
for one that another page has, found by the beginning of its first row.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from benchmarks.elastic import table as elastic_table
from benchmarks.growing import FULL, TUNING_SEEDS, Records, Scale, chosen_rate, curve
from benchmarks.smoothing import measure as measure_smoothing
from benchmarks.smoothing import table_of as smoothing_table
from benchmarks.staged_search import COLUMNS, CPU_SECONDS, JUDGED, SHORT_STEPS
from benchmarks.whole_space import table_of as whole_space_table
from ramet.ranking.intervals import t_interval
from ramet.reports.formats import decimals
from ramet_papers import read_claims

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "results"
_MARK = re.compile(r"^<!-- (figures|table): (.+?) -->$", re.MULTILINE)


def fill(text: str) -> str:
    """A page with its tables."""
    return _MARK.sub(lambda mark: TABLES[mark[2]]() if mark[1] == "figures" else _borrowed(mark[2]), text)


def _borrowed(place: str) -> str:
    page, first = place.split(": ", 1)
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(first)]
    if len(starts) != 1:
        raise LookupError(f"{page} must have one table that begins with {first!r}, but has {len(starts)}.")
    rows = []
    for line in lines[starts[0] :]:
        if not line.startswith("|"):
            break
        rows.append(line)
    return "\n".join(rows)


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = [list(head)]
    body = [[str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (*lines, ["---"] * len(lines[0]), *body))


def _records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / name).read_text(encoding="utf-8").splitlines()]


def guards() -> str:
    """Two tasks of digits: what each guard keeps of the first beside an unguarded training that learns as much."""
    rows = []
    for row in json.loads((RESULTS / "guards.json").read_text(encoding="utf-8"))["rows"]:
        gain = f"{row['gain']:+.1f} [{row['interval'][0]:.1f}, {row['interval'][1]:.1f}]" if "gain" in row else ""
        control = f"{row['control']:.1f}" if "control" in row else ""
        figures = (f"{row['kept']:.1f}", f"{row['learned']:.1f}", control, gain, row["seeds"])
        stream = "children of Cells64" if row["stream"] == "children" else f"{row['stream']} digits"
        rows.append((stream, row["guard"], *figures))
    return _table(("stream", "guard", "kept, %", "learned, %", "control keeps, %", "gain", "seeds"), rows)


def claims() -> str:
    """How many claims of each paper hold."""
    counts: dict[str, list[bool | str | None]] = defaultdict(list)
    for claim in read_claims(RESULTS):
        counts[claim["command"].split()[2].split("/")[0]].append("former" if claim["former"] else claim["holds"])
    answers = (True, False, None, "former")
    rows = [(paper, *(held.count(answer) for answer in answers)) for paper, held in sorted(counts.items())]
    return _table(("paper", "hold", "do not hold", "open", "answered by a former rule"), rows)


def failed_claims() -> str:
    """The claims that do not hold here, with the figure that says so."""
    present = [claim for claim in read_claims(RESULTS) if not claim["former"]]
    rows = [(c["id"], c["claim"], c["ours"].replace("|", "\\|")) for c in present if c["holds"] is False]
    return _table(("", "claim", "what was measured"), rows)


def grown_language() -> str:
    """A language model: grown, stacked and trained from scratch, over the seeds that are judged."""
    arms: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in _records("language.jsonl"):
        if record["part"] == "grown" and record["seed"] < 100:
            arms[record["arm"]].append(record)
    rows = [
        (arm, f"{mean(r['test'] for r in found):.3f}", f"{mean(r['work'] for r in found) / 1e12:.3f}", len(found))
        for arm, found in arms.items()
    ]
    return _table(
        ("arm", "test bits a character", "work, 10^12 multiply-adds", "seeds"), sorted(rows, key=lambda r: r[1])
    )


def taught_language() -> str:
    """A trained language model that is taught a second text."""
    methods: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in _records("language.jsonl"):
        if record["part"] == "taught":
            for method in record["methods"]:
                methods[method["method"]].append(method)
    rows = [
        (
            f"`{name}`",
            f"{mean(m['after'] - m['before'] for m in found):.2f}",
            f"{mean(m['after'] for m in found):.2f}",
            f"{mean(m['second'] for m in found):.2f}",
            f"{mean(m['parameters'] for m in found) / 1e3:.0f} k",
            len(found),
        )
        for name, found in methods.items()
    ]
    return _table(("method", "first text forgotten, bits", "first text", "second text", "parameters", "seeds"), rows)


def backbone() -> str:
    """Ten tasks on a trained residual network: the seeds that every arm of one setting has."""
    arms: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for record in _records("backbone.jsonl"):
        if record["seed"] < 20:  # seeds from 20 on are for development
            arms[record["arm"], record["epochs"]].append(record)
    rows = [
        (
            arm,
            epochs,
            f"{100 * mean(r['test'] for r in found):.1f}",
            f"{mean(r['parameters'] for r in found):,.0f}",
            len(found),
        )
        for (arm, epochs), found in sorted(arms.items())
    ]
    return _table(("way", "epochs a task", "test accuracy, %", "parameters", "seeds"), rows)


EVERY_COPY = "warm-start:both=0"
"""The former default: every copy that serves is taken."""


def learning(*, former: bool = False) -> str:
    """Streams by methods: each beside separate networks of its size and work, and beside progressive networks.

    Either by today's default or by the former one.
    """
    found: dict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
    for record in _records("learning.jsonl"):
        if record["seed"] < 50:  # seeds from 50 on are for development
            found[record["stream"], record["arm"]][record["seed"]] = record
    rows = []
    for (stream, arm), seeds in found.items():
        is_warm = arm.startswith("warm-start")
        if arm.endswith("=control") or (is_warm and arm.startswith(EVERY_COPY) != former):
            continue
        own = list(seeds.values())
        rows.append(
            (
                stream,
                f"`{arm}`",
                f"{100 * mean(r['test'] for r in own):.1f}",
                f"{mean(r['parameters'] for r in own) / 1e3:.1f} k",
                f"{mean(sum(r['work']) for r in own) / 1e9:.1f}",
                _lead(seeds, found.get((stream, f"{arm}=control"), {})),
                _lead(seeds, found.get((stream, "progressive"), {})) if arm != "progressive" else "",
                len(own),
            )
        )
    lead = "minus separate networks of the same size and work, points"
    head = ("stream", "way", "test accuracy, %", "parameters", "work, 10^9", lead, "minus progressive, points", "seeds")
    return _table(head, rows)


def _lead(ours: dict[int, dict[str, Any]], theirs: dict[int, dict[str, Any]]) -> str:
    """The difference of the test accuracies over the seeds that both have, with a t interval."""
    pairs = [100 * (ours[seed]["test"] - theirs[seed]["test"]) for seed in sorted(ours.keys() & theirs.keys())]
    if len(pairs) < 2:
        return ""
    interval = t_interval(pairs)
    return f"{interval.value:+.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def staged() -> str:
    """What a search with 20 CPU-minutes finds in NAS-Bench-201: the share that is as good, over judged seeds."""
    lines = [line for line in _records("staged-search.jsonl") if line["seed"] in JUDGED]
    rows = []
    for arm in dict.fromkeys(line["arm"] for line in lines):
        mine = [line for line in lines if line["arm"] == arm]
        tops = {data: [100 * line[f"{data}_top"] for line in mine] for data in COLUMNS}
        found = [f"{median(values):.2f}" for values in tops.values()]
        rows.append((arm, len(mine), found[0], f"{max(tops['cifar10']):.2f}", *found[1:]))
    if not rows:
        return "None of the judged seeds has run."
    count = int(CPU_SECONDS / mean(_seconds_alone(line) for line in lines if line["arm"] == "staged"))
    # Of so many uniform draws the best lies above a share q with probability (1 - q)^count, whatever the data.
    chance = f"{100 * (1 - 0.5 ** (1 / count)):.2f}"
    rows.append((f"the *true* best of {count} drawn at random (reckoned)", "", chance, "", chance, chance))
    head = ("way", "seeds", "true top, % (CIFAR-10), median", "worst", "CIFAR-100, median", "ImageNet16-120, median")
    return _table(head, rows)


def _seconds_alone(line: dict[str, Any]) -> float:
    """What a training of two epochs takes, by the short trainings of a search: all that random search could afford."""
    (short,) = [stage for stage in line["stages"] if stage["stage"] == "short"]
    return float(short["cost"] / short["seen"] * SHORT_STEPS / line["short_steps"])


def staged_own() -> str:
    """Two spaces that no table knows: test errors of what was found and of what needs no search."""
    arms = ("staged", "largest that fits", "training-free best", "random")
    rows = []
    for line in _records("staged-own.jsonl"):
        errors = [f"{100 * mean(line[arm]['tests']):.1f}" if arm in line else "" for arm in arms]
        sizes = [f"{line[arm]['flops'] / 1e6:.2f}" for arm in arms[:2]]
        rows.append((line["space"], line["seed"], *errors, *sizes))
    errors_of = ("error of the found, %", "of the largest", "of the best untrained", "of a random one")
    head = ("space", "seed", *errors_of, "10^6 multiply-adds of the found", "of the largest")
    return _table(head, rows)


def elastic() -> str:
    """Sizes of one training beside the same sizes trained alone and pruned."""
    return elastic_table(_records("elastic.jsonl"), "fashion-mnist")


def smoothing() -> str:
    """What ranks children as one seed of each alone does, and what it costs."""
    return smoothing_table(measure_smoothing(RESULTS, RESULTS))


def whole_space() -> str:
    """How supernets of all of NAS-Bench-201 rank, one thing changed at a time."""
    return whole_space_table(_records("whole-space.jsonl"))


def growing(generation: int = 3) -> str:
    """A growth beside other ways to its size for its work: the judged seeds of every set, arms of all of its seeds.

    The generation is that of the default growth (``benchmarks.growing.GENERATION``); records of the first have none.
    """
    found: dict[tuple[str, int, int], dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    of_arms = [record for record in _records("growing.jsonl") if record.get("arm", FULL) != FULL]
    tried: dict[tuple[tuple[str, int, int], str], list[dict[str, Any]]] = defaultdict(list)
    for record in of_arms:
        if record.get("generation", 1) == generation:
            tried[(record["set"], record["size"], record["epochs"]), record["arm"]].append(record)
    for (setting, arm), records in tried.items():
        rate = chosen_rate(records)
        for record in records:
            if record["seed"] not in TUNING_SEEDS and record["rate"] == rate:
                found[setting][arm][record["seed"]] = record
    rows = []
    for (data, size, epochs), arms in found.items():
        if "grown" not in arms:
            continue
        for arm, seeds in arms.items():
            leads = [100 * (arms["grown"][s]["test"] - row["test"]) for s, row in seeds.items() if s in arms["grown"]]
            rows.append(
                (
                    data,
                    f"{size:,}",
                    epochs,
                    arm,
                    f"{100 * mean(row['test'] for row in seeds.values()):.1f}",
                    "" if arm == "grown" or not leads else t_interval(leads).text(decimals(1)),
                    f"{mean(row['flops'] for row in seeds.values()) / 1e6:.2f} M",
                    f"{mean(row['work'] for row in seeds.values()) / 1e9:.1f} G",
                    len(seeds),
                )
            )
    heads = (
        "data",
        "parameters",
        "epochs",
        "arm",
        "test accuracy, %",
        "growth's lead, points",
        "multiply-adds",
        "work",
    )
    return _table((*heads, "seeds"), rows)


def growing_curve() -> str:
    """A growth beside a plain network of ten times its size, each at its best rate, with as many epochs."""
    names, sizes = (
        list(dict.fromkeys(row[key] for row in _records("growing.jsonl") if row.get("arm") == FULL))
        for key in ("set", "size")
    )
    rows: list[str] = []
    for size in sizes:
        head, rule, *found = curve(Records(RESULTS / "growing.jsonl"), Scale(size=size), names).splitlines()
        rows = rows or [f"| parameters {head}", f"|---{rule}"]
        rows += [f"| {size:,} {row}" for row in found]
    return "\n".join(rows)


TABLES: dict[str, Callable[[], str]] = {
    "guards": guards,
    "claims": claims,
    "failed claims": failed_claims,
    "grown language": grown_language,
    "taught language": taught_language,
    "backbone": backbone,
    "learning": learning,
    "learning, every copy": lambda: learning(former=True),
    "staged": staged,
    "staged, own spaces": staged_own,
    "elastic": elastic,
    "smoothing": smoothing,
    "whole space": whole_space,
    "growing": growing,
    "growing, curve": growing_curve,
    "growing, first generation": lambda: growing(1),
    "growing, second generation": lambda: growing(2),
}


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    content[0] = fill(content[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Fill tables as pages are read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
