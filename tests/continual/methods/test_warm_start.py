"""Warm starts: who is taken for a relative, what a task that fits nothing gets, and how target and budget bind."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from ramet.continual import Stream, Task, learn, make_method
from ramet.continual.methods.feature_fit import feature_fit
from ramet.continual.networks.resizing import factor_for, network_size, resized
from ramet.continual.networks.skeletons import mlp
from ramet.data import DataSet, Split
from ramet.errors import ConfigError
from ramet.reports.formats import percent
from ramet.training import Settings, accuracy

SKELETON = mlp(24, 16, in_channels=1, image_size=(4, 4))
RECIPE = Settings(epochs=20, batch_size=8, learning_rate=0.1, final_learning_rate=0.0, weight_decay=3e-4)


def parities(order, name, count=160):
    """Is an even number of the first three pixels of an order positive? A linear fit to pixels can't say."""
    generator = torch.Generator().manual_seed(sum(order))

    def split(size):
        x = torch.randn(size, 1, 4, 4, generator=generator)
        bits = x.flatten(1)[:, list(order[:2])] > 0
        return Split(x, (bits.sum(1) % 2).long())

    return Task(name, DataSet(name, split(4 * count), split(count), split(count), 2))


def stranger(count=160):
    """Is the sum of the last pixels positive? What looks at the first two alone can't say, and untrained layers can."""
    generator = torch.Generator().manual_seed(5)

    def split(size):
        x = torch.randn(size, 1, 4, 4, generator=generator)
        x[:, :, :2] = 0
        return Split(x, (x.flatten(1).sum(1) > 0).long())

    return Task("stranger", DataSet("stranger", split(4 * count), split(count), split(count), 2))


@pytest.fixture(scope="module")
def learned():
    stream = Stream("s", [parities((0, 1), "one"), parities((0, 1, 7), "twin"), stranger()])
    return stream, learn(stream, method="warm-start:both=0", network=SKELETON, settings=RECIPE)


def test_a_twin_begins_as_a_copy_and_a_stranger_anew(learned):
    _, found = learned
    notes = [row["notes"] for row in found.rows]
    assert [each["relative"] for each in notes] == [None, "one", None]
    assert notes[1]["features"]["one"] > notes[1]["untrained"] + 0.2
    told = found.network.explain()
    assert "began as a copy of 'one'" in told[1] and "no earlier network serves it as well" in told[2]


def test_a_task_that_fits_nothing_is_learned_as_alone_bit_for_bit(learned):
    stream, found = learned
    alone = learn(stream, method="individual", network=SKELETON, settings=RECIPE)
    ours, theirs = (one.task("stranger").state_dict() for one in (found, alone))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def similar(*places):
    return Stream("s", [parities((0, 1, place), f"with {place}", 60) for place in (2, *places)])


def test_a_task_that_is_learned_both_ways_keeps_the_better_network_bit_for_bit():
    """The twin: as a copy alone, and alone, each is a run of its own."""
    stream = similar(7)
    for recipe in (RECIPE, replace(RECIPE, epochs=1)):
        ways = [
            learn(stream, method=m, network=SKELETON, settings=recipe)
            for m in ("warm-start:both=0,margin=10", "individual")
        ]
        found = learn(stream, method="warm-start:both=1,margin=10", network=SKELETON, settings=recipe)
        values = [way.rows[1]["validation"][1] for way in ways]
        notes = found.rows[1]["notes"]
        assert notes["lead"] == values[0] - values[1]
        is_copy = notes["lead"] >= 0
        better = ways[0 if is_copy else 1].task("with 7").state_dict()
        assert all(torch.equal(value, better[name]) for name, value in found.task("with 7").state_dict().items())
        assert notes["relative"] == ("with 2" if is_copy else None)
        told = found.network.explain()[1]
        assert percent(values[0]) in told and percent(values[1]) in told and "both ways" in told
        # Each way has its training; the copy's features are judged and its head is fitted besides.
        assert found.rows[1]["work"] > ways[0].rows[1]["work"] + 0.9 * ways[1].rows[1]["work"]


@pytest.mark.parametrize(("leads", "begins_as_a_copy"), [((0.1, -0.2), False), ((0.2, -0.1), True), ((0.0, 0.0), True)])
def test_later_tasks_begin_in_the_way_that_was_ahead_in_sum(leads, begins_as_a_copy):
    stream = similar(7)
    method = make_method("warm-start:both=2")
    method.start(SKELETON, RECIPE, seed=0)
    method.learn(stream[0].data())
    method._leads = list(leads)
    notes = method.learn(stream[1].data())
    other = "warm-start:both=0" if begins_as_a_copy else "individual"
    same = learn(stream, method=other, network=SKELETON, settings=RECIPE).task("with 7").state_dict()
    assert all(torch.equal(value, same[name]) for name, value in method.network("with 7").state_dict().items())
    assert notes["lead"] is None and notes["relative"] == ("with 2" if begins_as_a_copy else None)
    assert method._leads == list(leads)
    assert ("ahead where tasks were learned both ways" in method.explain()[-1]) is not begins_as_a_copy


def test_of_a_metric_that_is_better_when_lower_the_lower_network_is_kept():
    recipe = replace(RECIPE, metric="loss", epochs=1)
    found = learn(similar(7), method="warm-start:margin=10", network=SKELETON, settings=recipe)
    ways = [
        learn(similar(7), method=m, network=SKELETON, settings=recipe)
        for m in ("warm-start:both=0,margin=10", "individual")
    ]
    values = [way.rows[1]["validation"][1] for way in ways]
    assert found.rows[1]["notes"]["lead"] == values[1] - values[0]
    assert found.rows[1]["validation"][1] == min(values)


def test_so_many_tasks_are_learned_both_ways_and_no_more():
    quick = replace(RECIPE, epochs=1)
    found = learn(similar(7, 8, 9, 10), method="warm-start:margin=10,both=2", network=SKELETON, settings=quick)
    leads = [row["notes"]["lead"] for row in found.rows]
    assert [lead is not None for lead in leads] == [False, True, True, False, False]
    assert found.network.method.state()["leads"] == leads[1:3]


def test_features_are_judged_whatever_their_scale_and_width():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 5, generator=generator)
    y = (x[:, 0] > 0).long()
    fits = []
    for scale, width in ((1.0, 5), (1e-4, 5), (1.0, 200)):
        body = nn.Linear(5, width, bias=False)
        with torch.no_grad():
            body.weight.copy_(scale * torch.eye(width, 5) if width == 5 else torch.randn(width, 5, generator=generator))
        fits.append(feature_fit(body, (x[:50], y[:50]), (x[50:], y[50:]), 2))
    assert fits[0] == fits[1]
    assert fits[0].score > 0.8 and abs(fits[2].score - fits[0].score) < 3 * fits[0].error
    constant = feature_fit(nn.Linear(5, 3).requires_grad_(False), (x[:50] * 0, y[:50]), (x[50:] * 0, y[50:]), 2)
    assert constant.score <= max((y[50:] == label).double().mean().item() for label in (0, 1))
    numbers = feature_fit(nn.Identity(), (x[:50], x[:50, :1]), (x[50:], x[50:, :1]), 1)
    assert numbers.score > 0.99


def test_with_a_target_that_is_reached_a_task_gets_a_head_alone():
    stream = Stream("s", [parities((0, 1), "one"), parities((0, 1, 7), "twin"), parities((9, 12), "stranger")])
    found = learn(stream, method="warm-start:target=0.8", network=SKELETON, settings=RECIPE)
    assert [row["notes"]["shares_all"] for row in found.rows] == [False, True, False]
    sizes = [row["parameters"] for row in found.rows]
    assert sizes[1] - sizes[0] == 16 * 2 + 2 and sizes[2] - sizes[1] == network_size(SKELETON, 2)
    assert accuracy(found.task("twin"), stream[1].dataset.validation.x, stream[1].dataset.validation.y) >= 0.8


@pytest.mark.parametrize("budget", [900, 1400, 10_000])
def test_a_budget_holds_and_is_shared_out(budget):
    stream = Stream("s", [parities((0, 1), "one", 40), parities((2, 3), "two", 40), parities((9, 12), "three", 40)])
    quick = Settings(epochs=1, batch_size=16, learning_rate=0.05)
    found = learn(stream, method=f"warm-start:budget={budget}", network=SKELETON, settings=quick)
    sizes = [row["parameters"] for row in found.rows]
    added = [after - before for before, after in zip([0, *sizes], sizes, strict=False)]
    assert sizes[-1] <= budget
    assert max(added) <= network_size(SKELETON, 2)
    assert max(added) - min(added) <= 0.1 * max(added)  # one neuron more or less
    assert sizes[-1] >= min(budget, 3 * network_size(SKELETON, 2)) * 0.85


def test_a_budget_below_a_neuron_a_layer_is_refused():
    with pytest.raises(ConfigError, match="leave each of 1 tasks a neuron a layer"):
        learn(Stream("s", [parities((0, 1), "one", 20)]), method="warm-start:budget=10", network=SKELETON)


def test_widths_are_found_for_sizes():
    for wanted in (200, 700, 5000):
        above = resized(SKELETON, factor_for(SKELETON, [2, 3], wanted))
        below = resized(SKELETON, factor_for(SKELETON, [2, 3], wanted, at_most=True))
        low, high = (sum(network_size(each, classes) for classes in (2, 3)) for each in (below, above))
        assert low <= wanted <= high


@pytest.mark.parametrize(
    "words", ["margin=nan", "num_samples=1", "budget=-3", "width=0", "head_weights=half", "both=-1"]
)
def test_options_out_of_range_are_refused(words):
    with pytest.raises(ConfigError):
        make_method(f"warm-start:{words}")


def test_separate_networks_spend_the_work_that_they_are_given():
    stream = Stream("s", [parities((0, 1), "one", 40), parities((2, 3), "two", 40)])
    plain = learn(stream, method="individual", network=SKELETON, settings=RECIPE)
    works = [2.0 * row["work"] for row in plain.rows]
    method = make_method("separate", width=0.5, work=works)
    found = learn(stream, method=method, network=SKELETON, settings=RECIPE)
    for row, work in zip(found.rows, works, strict=True):
        each = row["work"] / row["notes"]["epochs"]
        assert abs(row["work"] - work) <= each / 2 + 1
        assert row["notes"]["epochs"] > 2 * RECIPE.epochs
    assert found.rows[-1]["parameters"] == 2 * network_size(resized(SKELETON, 0.5), 2)
