"""The parts of a staged search: what is decided from what was measured, each against a plain twin."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch

from ramet.errors import ConfigError, DiskError, RunError
from ramet.searching import SearchPlan
from ramet.searching.baselines import find_largest
from ramet.searching.staged import tasks as staged_tasks
from ramet.searching.staged.agreement import Agreement, agreement, best_first, blend, first_of_each, standardised
from ramet.searching.staged.budget import NUM_SHORT, SHORT_SHARE, SearchBudget
from ramet.searching.staged.options import STAGES, StagedOptions
from ramet.searching.staged.pool import changed_pool, distinct, first_pool
from ramet.searching.staged.tasks import scoring_space, share_weights, train_rung
from ramet.spaces import Cells64, Darts, NasBench201


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_cells_of_one_live_part_are_those_that_compute_the_same() -> None:
    """Operations as functions of numbers, zero at zero and the same on all edges: equal texts, equal values."""
    space = NasBench201()
    archs = np.array(list(itertools.product(range(5), repeat=6)))
    x = np.array([0.3, -0.7, 1.1])
    functions = [np.zeros_like, lambda v: v, lambda v: np.tanh(0.9 * v), lambda v: np.sin(1.7 * v), lambda v: v**3]
    groups, texts = defaultdict(set), {}
    for arch in map(tuple, archs.tolist()):
        nodes = [x]
        for end, first in ((1, 0), (2, 1), (3, 3)):
            nodes.append(sum(functions[arch[first + start]](nodes[start]) for start in range(end)))
        groups[tuple(np.round(nodes[3], 9))].add(arch)
        texts[arch] = space.function_of(arch)
    assert len(groups) == len(set(texts.values())) == 4930
    assert all(len({texts[arch] for arch in group}) == 1 for group in groups.values())


def test_a_pool_has_one_of_each_function_and_keeps_limits() -> None:
    space = NasBench201()
    pool = first_pool(space, 20_000, lambda arch: True, generator())
    assert len(pool) == 4930 == len({space.function_of(arch) for arch in pool})
    assert pool[0] != distinct(space, space)[0], "the order is random: time may run out before all are scored"
    few = first_pool(space, 20_000, lambda arch: 3 not in arch, generator())
    assert all(3 not in arch for arch in few) and 0 < len(few) < 4930
    drawn = first_pool(space, 50, lambda arch: True, generator())
    assert len(drawn) == 50 == len({space.function_of(arch) for arch in drawn})
    fresh = changed_pool(space, pool[:3], pool[:3], 10, lambda arch: True, generator())
    assert len(fresh) == 10
    assert all(min(sum(a != b for a, b in zip(arch, best, strict=True)) for best in pool[:3]) == 1 for arch in fresh)
    with pytest.raises(ConfigError, match="must leave at least one architecture"):
        first_pool(space, 20_000, lambda arch: False, generator())


def test_derived_cells_of_darts_have_no_none() -> None:
    space = Darts(channels=4, num_cells=3, num_nodes=2)
    for _ in range(20):
        arch = space.sample(torch.Generator().manual_seed(_))
        derived = space.derived(arch)
        assert "none" not in space.name(derived)
        assert space.derived(derived) == derived
        if "none" not in space.name(arch):
            assert derived == arch
    none = space.parse(
        "Genotype(normal=[('none', 0), ('none', 1), ('none', 0), ('none', 2)], normal_concat=range(2, 4), "
        "reduce=[('none', 0), ('none', 1), ('none', 0), ('none', 1)], reduce_concat=range(2, 4))"
    )
    assert space.name(space.derived(none)) == space.name(none).replace("none", "skip_connect")


def test_the_largest_that_fits_is_that_of_all() -> None:
    space = Cells64()
    sizes = {arch: 3 * arch[0] + 2 * arch[1] + 5 * arch[2] for arch in space}
    for limit in (0, 7, 13, 30):
        found = find_largest(space, sizes.__getitem__, lambda arch: sizes[arch] <= limit, (0, 0, 0))  # noqa: B023
        assert sizes[found] <= limit
        if limit == 30:
            assert found == (3, 3, 3)


def test_agreement_mixes_what_was_believed_before() -> None:
    measured = agreement("shared", [3.0, 2.0, 1.0, 0.0], [30.0, 20.0, 10.0, 0.0])
    assert (measured.measured, measured.count) == (1.0, 4)
    assert measured.believed == pytest.approx((4 * 1.0 + 8 * 0.3) / 12)
    assert Agreement("shared", -1.0, 100).believed == 0.0, "a stage that is wrong is not followed backwards"
    assert agreement("scores", [1.0, 2.0], [1.0, 2.0]).measured is None
    assert agreement("scores", [1.0, 1.0, 1.0], [1.0, 2.0, 3.0]).measured is None
    assert Agreement("short", None, 0).believed == 0.5


def test_orders_are_mixed_by_weight() -> None:
    signals = {"scores": [4.0, 3.0, 2.0, 1.0], "shared": [1.0, 2.0, 3.0, 4.0]}
    assert best_first(blend(signals, {"scores": 0.1, "shared": 0.2})) == [3, 2, 1, 0]
    assert best_first(blend(signals, {"scores": 0.2, "shared": 0.1})) == [0, 1, 2, 3]
    assert blend(signals, {"scores": 0.0, "shared": 0.0}).tolist() == [-2.5] * 4
    assert first_of_each([[0, 1, 2], [3, 1, 0]], taken=[], count=4) == [0, 3, 1, 2]
    assert standardised([0.0, 1.0, 2.0, 1e9]).max() == 3.0
    assert standardised([5.0, 5.0]).tolist() == [0.0, 0.0]


def test_what_is_not_paid_is_bounded_by_what_is() -> None:
    """With evaluations scores cost nothing, so that a small budget must not score thousands for minutes."""
    sizes = {number: StagedOptions(evaluations=number).pool_size for number in (1, 10, 40, 150, 1000)}
    assert sizes == {1: 1000, 10: 1000, 40: 4000, 150: 15_000, 1000: 20_000}
    assert StagedOptions().pool_size == 4000 and StagedOptions(evaluations=40, pool=7).pool_size == 7
    assert StagedOptions(minutes=0.1).pool_size == StagedOptions(cost="1T").pool_size == 20_000


def test_the_length_of_a_short_training_follows_from_the_budget() -> None:
    minutes = SearchBudget(StagedOptions(minutes=10), 2, 125, lambda arch: 0.0)
    minutes.learn_speed(0.1, (0,))
    assert minutes.amount == 1200 and minutes.short_steps == round(SHORT_SHARE * 1200 / NUM_SHORT / 0.1) == 100
    minutes.charge("short", {"seconds": 30.0, "steps": 5})
    assert minutes.left == 1170 and minutes.price(10, (0,)) == pytest.approx(1.0)
    minutes.observe_speed([{"seconds": 30.0, "steps": 100}])
    assert minutes.price(10, (0,)) == pytest.approx(3.0)
    hours = SearchBudget(StagedOptions(minutes=600), 2, 125, lambda arch: 0.0)
    hours.learn_speed(0.1, (0,))
    assert hours.short_steps == 4 * 125, "no short training has more than four epochs"

    counted = SearchBudget(StagedOptions(evaluations=30), 2, 125, lambda arch: 0.0)
    counted.learn_speed(0.0, (0,))
    assert counted.amount == 30 and counted.short_steps == 250 and counted.price(500, (0,)) == 2.0
    given = SearchBudget(StagedOptions(evaluations=30, short_epochs=0.5), 2, 20, lambda arch: 0.0)
    given.learn_speed(0.0, (0,))
    assert given.short_steps == 10, "what is asked for is done"
    counted.charge("scores", {"seconds": 99.0, "steps": 5})
    counted.charge("short", {"seconds": 99.0, "steps": 250}, (0,))
    assert counted.left == 29.0

    for options in (StagedOptions(evaluations=30), StagedOptions(minutes=600)):
        few = SearchBudget(options, 2, 14, lambda arch: 0.0)
        few.learn_speed(0.1, (0,))
        assert few.short_steps == 100, "of few data two or four epochs say little"

    work = SearchBudget(StagedOptions(cost="1G"), 2, 125, lambda arch: 1e5 * (1 + arch[0]))
    work.learn_speed(0.0, (1,))
    assert work.short_steps == round(SHORT_SHARE * 1e9 / NUM_SHORT / 2e5)
    work.charge("short", {"seconds": 99.0, "steps": 10}, (4,))
    assert work.spent == {"short": 5e6}


def test_a_loss_without_end_is_a_result_and_a_disk_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Setup:
        """A setup of which only what is asked for before a training is there."""

        def new_supernet(self, *given: object) -> None:
            return None

        def checkpoints(self, name: str) -> None:
            return None

    def failing(error: Exception) -> None:
        def train(*given: object) -> float:
            raise error

        monkeypatch.setattr(staged_tasks, "_train", train)

    setup: Any = Setup()
    failing(RunError("the loss must stay finite, but is nan."))
    assert share_weights(setup, archs=[(0,), (1,)], seed=0, num_steps=3)["losses"] == [None, None]
    assert train_rung(setup, arch=(0,), seed=0, lengths=[3])["loss"] is None
    failing(DiskError("cannot write x: No space left on device."))
    with pytest.raises(DiskError, match="No space"):
        share_weights(setup, archs=[(0,), (1,)], seed=0, num_steps=3)
    with pytest.raises(DiskError, match="No space"):
        train_rung(setup, arch=(0,), seed=0, lengths=[3])


def test_untrained_networks_are_scored_with_few_cells() -> None:
    assert scoring_space(NasBench201(channels=8, cells_per_stage=5)).describe()["cells_per_stage"] == 1
    assert scoring_space(NasBench201(channels=8, cells_per_stage=5)).describe()["channels"] == 8
    small = NasBench201(channels=8, cells_per_stage=1)
    assert scoring_space(small) is small


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minutes": 1.0, "evaluations": 3}, "one budget: minutes, evaluations or cost"),
        ({"minutes": 0.0}, "minutes must be positive and finite, but got 0.0"),
        ({"cost": "much"}, "an amount reads like"),
        ({"stages": "scores+luck"}, "stages are some of"),
        ({"stages": "scores+scores"}, "each once"),
        ({"stages": "finalists"}, "to choose by"),
        ({"stages": "scores+predictor"}, "need the stage short"),
        ({"listed": 1}, "at least 2, but got 4000 and 1"),
        ({"short_epochs": 0.0}, "short_epochs must be positive"),
    ],
)
def test_bad_options_are_one_line(options: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        StagedOptions(**options)


def test_a_budget_makes_a_search_staged() -> None:
    assert not SearchPlan(strategy="enas").is_staged
    assert SearchPlan(strategy="staged").is_staged and SearchPlan(staged=StagedOptions(minutes=3)).is_staged
    with pytest.raises(ConfigError, match="takes no guard"):
        SearchPlan(strategy="staged", guard="plasticity").check(Cells64())
    assert StagedOptions().has(*STAGES) and not StagedOptions(stages="scores+short").has("shared", "predictor")
