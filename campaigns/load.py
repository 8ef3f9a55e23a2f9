"""Large inputs: time and memory against size, and reports that stay small; more than n log n counts as lost."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from campaigns.drivers import own_folder, preload
from campaigns.findings import Finding, Wants
from campaigns.measuring import Cost, cost_of, exponent, n_log_n
from campaigns.opening import seconds_to_open

SLACK = 0.15
"""Beyond n log n: a clock is no rule, and caches get smaller beside what they hold."""
LEAST_GROWTH = 0.25
"""What grows by less from the smallest size to the largest has no power to speak of."""
LARGEST_REPORT = 5e6
LONGEST_OPENING = 2.0

_M_MMAP_THRESHOLD = -3
"""Of the C library's ``mallopt``."""

Work = Callable[[int, Path], dict[str, Any] | None]


def run(wants: Wants, *, is_long: bool = False, seed: int = 0) -> Iterator[Finding]:
    """Each kind of input at four sizes, each twice the one before."""
    preload()
    top = {
        "records": (records, 200_000),
        "tasks of a stream": (tasks, 200 if is_long else 80),
        "trials of a study": (trials, 1000 if is_long else 48),
        "children of a space, with a table": (children, 10_000 if is_long else 1600),
        "parameters of a grown network": (parameters, 100_000_000 if is_long else 16_000_000),
    }
    with own_folder() as place:
        for number, (name, (work, largest)) in enumerate(top.items()):
            sizes = [largest // 8, largest // 4, largest // 2, largest]
            if wants(f"load: {name}"):
                yield measured(name, work, sizes, place / str(number))


def measured(name: str, work: Work, sizes: Sequence[int], place: Path) -> Finding:
    """One kind of input at some sizes."""
    try:
        costs = [cost_of(lambda size=size: work(size, place / str(size)), place / f"{size}-cost") for size in sizes]  # type: ignore[misc]
    except RuntimeError as error:
        return Finding(what=f"load: {name}", tried=len(sizes), lost=[str(error)])
    lost, details = [], []
    for what, values in _curves(costs).items():
        power, most = exponent(sizes, values), n_log_n(sizes) + SLACK
        shown = ", ".join(f"{value:,.1f}" for value in values)
        details.append(f"{what}: {shown} (n^{power:.2f})")
        if power > most and values[-1] - values[0] > LEAST_GROWTH * values[0]:
            lost.append(f"{what} grows by the power {power:.2f}, and {most:.2f} is allowed: {shown}")
    report = place / str(sizes[-1]) / "report.html"
    if report.exists():
        size, seconds = report.stat().st_size, seconds_to_open(report)
        opened = "no browser here" if seconds is None else f"opens in {seconds:.1f} CPU s"
        details.append(f"report {size / 1e6:.2f} MB, {opened}")
        if size > LARGEST_REPORT or (seconds or 0.0) > LONGEST_OPENING:
            lost.append(details[-1])
    what = f"load: {name}, {', '.join(f'{size:,}' for size in sizes)}"
    return Finding(what=what, tried=len(sizes), lost=lost, detail="; ".join(details))


def _curves(costs: Sequence[Cost]) -> dict[str, list[float]]:
    """What is looked at: the process' own seconds and memory, or what the work has measured of itself."""
    own = {name: [cost.figures[name] for cost in costs] for name in costs[-1].figures}
    return {**(own or {"CPU s": [cost.seconds for cost in costs]}), "MB": [cost.megabytes for cost in costs]}


def children(count: int, out: Path) -> None:
    """Rank so many children of NAS-Bench-201's space, whose truth is a table."""
    from ramet.spaces import NasBench201

    out.parent.mkdir(parents=True, exist_ok=True)
    table, space = out.with_suffix(".csv"), NasBench201(channels=2, cells_per_stage=1)
    lines = [f"{space.name(arch)},{hash(tuple(arch)) % 1000}" for arch in space]
    table.write_text("arch,score\n" + "\n".join(lines) + "\n")
    options = "--space nasbench201 --channels 2 --cells 1 --train-size 40 --eval-size 10 --batch-size 20 --epochs 1"
    options += " --instances 2 --fine-tune-steps 0 --last-steps 1 --last-epochs 1"
    _ramet(["rank", *options.split(), "--children", str(count), "--truth", f"table:{table}"], out)


def records(count: int, out: Path) -> dict[str, Any]:
    """Append so many records, open the run again, and read them."""
    from ramet.runs import Run, read_records

    figures = {}
    start = time.process_time()
    with Run.create(out, "model", {}) as run:
        for number in range(count):
            run.records.append(f"record/{number}", loss=number / 7, name="a record of some length")
    figures["CPU s to append"], start = time.process_time() - start, time.process_time()
    with Run.open(out) as run:
        assert len(run.records) == count
    figures["CPU s to open"], start = time.process_time() - start, time.process_time()
    assert len(read_records(out)) == count
    figures["CPU s to read"] = time.process_time() - start
    return figures


def tasks(count: int, out: Path) -> dict[str, Any]:
    """Learn so many tasks; what is neither training nor measuring is overhead, and must be linear in the tasks.

    A method that forgets is measured on all tasks so far after each: n squared times. Running a task's network on its
    images is what is called measuring here, and nothing else.
    """
    from ramet.continual import loop

    spent = [0.0]

    def timed(real: Callable[..., Any]) -> Callable[..., Any]:
        def measuring(*given: Any) -> Any:
            start = time.process_time()
            try:
                return real(*given)
            finally:
                spent[0] += time.process_time() - start

        return measuring

    loop.measure = timed(loop.measure)
    # What a task took is noted in seconds of a clock; on a busy machine only those of the processor can be compared.
    loop.time = SimpleNamespace(monotonic=time.process_time, perf_counter=time.process_time)
    start = time.process_time()
    options = (
        f"--stream permuted-digits:{count} --train-size 30 --eval-size 10 --network mlp:8 --epochs 1 --method naive"
    )
    _ramet(["learn", *options.split()], out)
    from ramet.runs import read_records

    rows = [row for record in read_records(out) for row in record.get("rows", [])]
    training = sum(row["seconds"] for row in rows)
    total = time.process_time() - start
    print(f"{count} tasks: {total:.1f} CPU s, {training:.1f} training, {spent[0]:.1f} measuring", flush=True)
    return {"CPU s beside training and measuring": total - training - spent[0]}


def trials(count: int, out: Path) -> None:
    """Search with so many trials."""
    options = f"--stream split-digits:2 --train-size 20 --eval-size 20 --network mlp:4 --epochs 1 --trials {count}"
    _ramet(["study", *options.split(), "--method", "bind-and-grow:num_samples=4", "--networks", "none"], out)


def parameters(count: int, out: Path) -> None:
    """Grow a network of so many parameters by a fifth: two square layers, trained, saved, exported."""
    _allocate_alike()
    width = int((count / 2) ** 0.5)
    code = out.with_name(f"network_{count}.py")
    code.parent.mkdir(parents=True, exist_ok=True)
    code.write_text(
        "from torch import nn\n\n\ndef network(num_classes):\n"
        f"    layers = [nn.Flatten(), nn.Linear(64, {width}), nn.ReLU(), nn.Linear({width}, {width}), nn.ReLU()]\n"
        f"    return nn.Sequential(*layers, nn.Linear({width}, {width}), nn.ReLU(), nn.Linear({width}, num_classes))\n"
    )
    # A budget of more than twice the network would let it begin wider, and be many times as large as is said here.
    options = f"--network {code}:network --budget params={int(1.25 * count)},step=0.2 --max-steps 1 --method net2net"
    options += " --against none"
    _ramet(["grow", *options.split(), "--train-size", "40", "--eval-size", "20", "--epochs", "1"], out)


def _allocate_alike() -> None:
    """Let every large tensor come from the system and go back to it, whatever its size.

    The C library takes tensors of up to 32 MB from its heap, where pages are there already, and larger ones from the
    system, which clears each page: twice the time from one size to the next, by a step that is no power of the size.
    """
    with contextlib.suppress(OSError, AttributeError):  # other systems have no such call
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 << 10)


def _ramet(arguments: list[str], out: Path) -> None:
    from ramet.cli import main

    os.environ["HOME"] = str(out.parent)
    main([*arguments, "--executor", "inline", "--out", str(out)])
