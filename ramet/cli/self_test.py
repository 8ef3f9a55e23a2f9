"""What `ramet doctor` tries: a training, a guard, a run directory, a worker process and a page, in a few seconds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

SEED = 0


def same_training() -> str:
    """The same training twice gives the same bits."""
    first, second = _trained(), _trained()
    if first != second:
        raise AssertionError("the same training ended with other weights the second time")
    return "the same small training twice: the same bits"


def guarded_step() -> str:
    """A guard that remembers a network lets its weights move less."""
    import torch

    from ramet.guards import WeightPlasticity

    def moved(strength: float) -> float:
        weight = torch.nn.Parameter(torch.ones(4))
        guard, optimizer = WeightPlasticity(strength=strength), torch.optim.SGD([weight], lr=0.1)
        for remembers in (True, False):
            for _ in range(4):
                weight.grad = torch.full((4,), 1.0 if remembers else -1.0)
                with guard.step({"w": weight}, 0.1):
                    optimizer.step()
            if remembers:
                guard.remember({"w": weight})
                anchor = weight.detach().clone()
        return float((weight.detach() - anchor).abs().max())

    free, held = moved(0.0), moved(1.0)
    if not held < free:
        raise AssertionError(f"a guarded weight moved by {held:g}, an unguarded one by {free:g}")
    return "a guard holds what an earlier model needs"


def run_directory() -> str:
    """A run directory is written and locked, and a checkpoint comes back as it was."""
    import torch

    from ramet.runs import Run

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        tensors = {"weight": torch.linspace(-1, 1, 7)}
        with Run.create(path, "self-test", {"seed": SEED}) as run:
            run.records.append("epoch/1", loss=0.1)
            run.checkpoints("part").save(1, tensors, {"epoch": 1})
        with Run.open(path) as run:
            found = run.checkpoints("part").load()
        if found is None or not torch.equal(found.tensors["weight"], tensors["weight"]):
            raise AssertionError("a checkpoint did not come back as it was written")
    return "a run directory is written, locked and read again"


def worker_process() -> str:
    """A training in a worker process ends with the bits of the same one here."""
    from ramet.execution import make_executor
    from ramet.execution.tasks import WorkItem

    item = WorkItem("self-test", _train_as_task)
    here, there = (next(iter(make_executor(1, engine).run([item], label="")))[1] for engine in ("inline", "processes"))
    if here != there:
        raise AssertionError("a worker process ended with other weights than this one")
    return "a worker process starts, and its training has the same bits"


def report_page() -> str:
    """A page with a chart is written."""
    from ramet.reports import Line, Page, line_chart

    page = Page("Self-test")
    page.chart(line_chart([Line("loss", [1, 2], [0.5, 0.25])]), "falls")
    with tempfile.TemporaryDirectory() as folder:
        if "<svg" not in page.write(Path(folder) / "report.html").read_text("utf-8"):
            raise AssertionError("the page has no chart")
    return "a report with a chart is written"


CHECKS: tuple[Callable[[], str], ...] = (same_training, guarded_step, run_directory, worker_process, report_page)
"""Each gives a sentence, or raises."""


def _train_as_task(context: object) -> list[float]:
    return _trained()


def _trained() -> list[float]:
    """The weights of a small network after a short training on the embedded digits."""
    import torch

    from ramet.data import load
    from ramet.training import Recipe, fit

    data = load("digits", train_size=128, eval_size=16)
    torch.manual_seed(SEED)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
    fit(network, data.train.x, data.train.y, Recipe(epochs=2, batch_size=32, learning_rate=0.05), seed=SEED)
    return [float(value) for param in network.parameters() for value in param.detach().flatten()]
