"""What one rank does in test_ranks.py, started as ``python -m torch.distributed.run ... ranks_driver.py WHAT FOLDER``.

Without torchrun the same functions run in the test's own process: the twin that the ranks have to equal.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ramet.data import load, load_text
from ramet.errors import ConfigError, LostRankError, RametError
from ramet.execution.ranks import Ranks, joined
from ramet.guards import KroneckerPlasticity, OrthogonalProjection
from ramet.ranking.setup import SupernetSetup
from ramet.runs import state_to_bytes
from ramet.searching import RelaxedSearch, Search, SearchPlan
from ramet.spaces import Cells64, Choice, ModuleSpace, Recurrent
from ramet.training import Settings

PLAN = SearchPlan(
    epochs=2,
    warmup_epochs=1,
    models_per_epoch=3,
    batches_per_model=2,
    strategy_steps=2,
    archs_per_step=3,
    reward_samples=9,
    error_samples=11,
    num_candidates=3,
)
SETTINGS = Settings(
    epochs=1, batch_size=9, learning_rate=0.05, clip_norm=5.0
)  # 40 samples: odd parts, a last batch of 4
SMALL_LAST = replace(SETTINGS, batch_size=19)  # a last batch of 2, fewer than three ranks
OTHER_GUARDS = {
    "all inputs": lambda: OrthogonalProjection(0.5),
    "few directions": lambda: OrthogonalProjection(0.5, inputs="mean", rank=3),
    "kronecker": KroneckerPlasticity,
}
"""Guards that the command line does not name."""

CASES = {
    "none": {},
    "plasticity": {"guard": "plasticity"},
    "projection": {"guard": "projection"},
    "elastic": {"guard": "elastic"},
    "words": {"guard": "plasticity+projection"},
}
MORE_CASES = CASES | {
    "all inputs": {"guard": "projection"},
    "few directions": {"guard": "projection"},
    "kronecker": {"guard": "projection"},
    "running": {"batch_norm": "running", "strategy": "evolution:population_size=2"},
    "reestimated": {"batch_norm": "reestimated", "sharing": "groups:2:random"},
    "darts": {"strategy": "darts"},
    "darts 2": {"strategy": "darts:order=2"},
    "bits": {},
    "largest logit": {"batch_norm": "reestimated"},
}
OTHER_METRICS = {"bits": "bits", "largest logit": lambda outputs, targets: outputs.abs().max()}
"""Metrics with sums over samples, and without."""


def make_words(folder: Path) -> None:
    """A small text."""
    for name, repeats in (("train", 30), ("valid", 12), ("test", 12)):
        (folder / f"{name}.txt").write_text("a cat sat on a mat\nthe dog sat on the log\n" * repeats)


def make_bench(case: str, folder: Path, settings: Settings = SETTINGS) -> SupernetSetup:
    """The setup of a case: digits and batch norms, or words and neither batch norms nor dropout."""
    if case == "words":
        still = {"input_dropout": 0.0, "output_dropout": 0.0, "word_dropout": 0.0}
        words = load_text(folder, window=5, train_size=40, eval_size=17)
        return SupernetSetup(Recurrent(hidden_size=6, num_nodes=3, **still), words, settings)
    settings = replace(settings, metric=OTHER_METRICS.get(case))
    return SupernetSetup(Cells64(channels=2, num_cells=1), load("digits", train_size=40, eval_size=17), settings)


@contextmanager
def computing_in(dtype: str) -> Iterator[None]:
    """A block in which whatever is made, networks and strategies and guards, is of this precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def take_doubles(network: nn.Module) -> None:
    """Let a network of double precision take images, which stay as they are until they come in."""
    # A walk over many children calls the stages, and never the network itself.
    chains = [
        getattr(module, name) for module in network.modules() for name in ("stages", "trunk") if hasattr(module, name)
    ]
    for module in (network, getattr(network, "supernet", network), *(chain[0] for chain in chains)):
        module.register_forward_pre_hook(lambda _, args: (as_double(args[0]), *args[1:]))


def as_double(x: Tensor) -> Tensor:
    """Images in double precision; words as they are."""
    return x.double() if x.is_floating_point() else x


def search_case(case: str, folder: Path, ranks: Ranks, dtype: str, settings: Settings = SETTINGS) -> bytes:
    """All that a search ends with, as bytes: weights, statistics, momenta, guard, strategy, records, scores."""
    records: dict = {}
    plan = replace(PLAN, **MORE_CASES[case])
    kind = RelaxedSearch if plan.is_relaxed else Search
    record = lambda key, **fields: records.__setitem__(key, fields)  # noqa: E731
    with computing_in(dtype):
        loop = kind(make_bench(case, folder, settings), plan, record=record, ranks=ranks)
        if dtype == "float64":
            take_doubles(loop.network)
        if case in OTHER_GUARDS:
            loop.guard = OTHER_GUARDS[case]()
        archs = loop.run().derive(3)
        scores = [[score.error, score.reward] for score in loop.score(archs)]
        return state_to_bytes({"state": loop._saver.state(), "records": records, "archs": archs, "scores": scores})


def make_linear(in_channels: int, num_classes: int) -> nn.Module:
    """A linear classifier of the digits; of its two options a search of one step trains one."""
    return nn.Sequential(nn.Flatten(), Choice([nn.Linear(64 * in_channels, num_classes) for _ in range(2)]))


def first_step(ranks: Ranks) -> Search:
    """A search in single precision that ends after its first step, whose gradient the momentum then is."""
    settings = replace(SETTINGS, weight_decay=0.0, clip_norm=None)
    setup = SupernetSetup(ModuleSpace(make_linear), load("digits", train_size=40, eval_size=17), settings)
    plan = replace(PLAN, epochs=1, warmup_epochs=0, models_per_epoch=1, batches_per_model=1)
    loop = Search(setup, plan, ranks=ranks)
    loop.run()
    return loop


def momenta_of(loop: Search) -> dict[str, Tensor]:
    """The momentum of each parameter that was trained, by its name."""
    state = loop._optimizer.state
    return {name: state[param]["momentum_buffer"] for name, param in loop.network.named_parameters() if state[param]}


def equal(folder: Path, dtype: str, cases: list[str]) -> None:
    """Run the cases on all ranks; in single precision also the first step of one."""
    with joined() as ranks:
        settings = SETTINGS if ranks.size == 2 else SMALL_LAST
        for case in cases:
            found = search_case(case, folder, ranks, dtype, settings)
            (folder / f"{case}-{ranks.rank}.bin").write_bytes(found)
        if dtype == "float32":
            (folder / f"step-{ranks.rank}.bin").write_bytes(state_to_bytes(momenta_of(first_step(ranks))))


def agree(folder: Path) -> None:
    """What one rank refuses, all refuse; what differs is noticed."""

    def refuse() -> None:
        if ranks.rank == 1:
            raise ConfigError("no room.")

    with joined() as ranks:
        said = [ranks.tell(f"from {ranks.rank}".encode(), source=1).decode()]
        for attempt in (lambda: ranks.agree(refuse), lambda: ranks.check_same(ranks.rank, "ranks are alike")):
            try:
                attempt()
            except RametError as error:
                said.append(f"{error.exit_code} {error}")
        (folder / f"said-{ranks.rank}").write_text("\n".join(said))


def hang(folder: Path) -> None:
    """The last rank stops answering."""
    # The ranks have this timeout to find each other, too: they begin when all have come through their imports.
    (folder / f"here-{os.environ['RANK']}").touch()
    while len(list(folder.glob("here-*"))) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)
    with joined(timeout_seconds=20.0) as ranks:
        ranks.sum_([torch.ones(1)])
        if ranks.rank == ranks.size - 1:
            time.sleep(3600)
        ranks.sum_([torch.ones(1)])


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, place = sys.argv[1], Path(sys.argv[2])
    if what == "equal":
        equal(place, sys.argv[3], sys.argv[4].split(","))
    elif what == "agree":
        agree(place)
    else:
        try:
            hang(place)
        except LostRankError as error:
            sys.exit(f"ramet: {error}")
