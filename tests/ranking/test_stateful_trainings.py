"""Ways to train that learn from their steps: their formulas against slow twins and cases worked by hand, and rank."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.cli import main
from ramet.costs import count_parameters
from ramet.data import load
from ramet.errors import ConfigError, DataError
from ramet.ranking import Plan
from ramet.ranking.instance import fine_tune, load_network, train_instance
from ramet.ranking.plan import variation_overrides
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.trainings import (
    ByPathTraining,
    DrivenTraining,
    GradientNormTraining,
    LandmarkTraining,
    ShrinkingTraining,
    TrainingSize,
    make_training,
    rank_last,
)
from ramet.ranking.trainings.gradient_norms import importance_weights, sampling_distribution
from ramet.ranking.trainings.shrinking import worst_options
from ramet.ranking.ways import training_figures
from ramet.ranking.ways_in_words import training_sentences
from ramet.runs import read_records
from ramet.seeding import derive_seed, seeded_globally
from ramet.spaces import Arch, Cells64, space_of
from ramet.spaces.own.module_space import Choice
from ramet.testing.trainings import TRAINING_CHECKS
from ramet.training import Batches, Recipe, accuracy

SPACE = Cells64(channels=2, num_cells=1, operations=["max_pool_3x3", "sep_conv_3x3"])
THREE = Cells64(channels=2, num_cells=1, operations=["max_pool_3x3", "sep_conv_3x3", "dil_conv_3x3"])
ARGUMENTS: dict[str, Any] = {
    "name": "one", "trained": None, "scored": list(range(8)), "order": "shuffled", "num_shared_cells": None,
    "weights_seed": 1, "order_seed": 2, "batches_seed": 3, "last_epochs": 2, "last_steps": 2,
}  # fmt: skip
TINY = ["--space", 'cells64:operations=["max_pool_3x3","sep_conv_3x3"]', "--channels", "2", "--cells", "1"]
TINY += ["--train-size", "60", "--eval-size", "40", "--epochs", "6", "--batch-size", "20", "--last-steps", "2"]
TINY += ["--instances", "1", "--fine-tune-steps", "0", "--json"]


def scene() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    with seeded_globally(0, "trainings"):
        network = SPACE.supernet(1, 3)
        return network, torch.randn(6, 1, 8, 8), torch.randint(3, (6,))


# -- shrinking ---------------------------------------------------------------------------------------------------------


def test_the_worst_options_go_but_never_the_last_of_a_decision() -> None:
    places, excess = [0, 0, 1, 1, 1], torch.tensor([0.3, 0.2, 0.1, 0.5, 0.4])
    assert worst_options(excess, places, [True] * 5, 2) == [3, 4]
    # Both of decision 0 would go by their losses; one stays.
    assert worst_options(torch.tensor([0.9, 0.8, 0.1, 0.2, 0.0]), places, [True] * 5, 3) == [0, 3, 2]
    assert worst_options(excess, places, [False, True, True, False, False], 2) == [], "two decisions, one option each"


def test_options_are_judged_against_their_own_epoch() -> None:
    """Losses fall from 10 to 1: an option that had its turns early is not the worse for it."""
    way = ShrinkingTraining(SPACE, epochs=[2], share=0.3)
    way.begin(TrainingSize(num_steps=12, steps_per_epoch=4, num_samples=8, learning_rate=0.1))
    # Epoch 1: three steps with option 0 everywhere (loss 10), one with option 1 (loss 12). Epoch 2: the other way
    # round (loss 1 with option 0, 1 with option 1 of decision 0), so that plain means would drop option 0.
    children: Sequence[tuple[Arch, float]] = [((0, 0, 0), 10.0)] * 3 + [((1, 0, 0), 12.0)]
    children = [*children, ((0, 0, 0), 1.0), *[((1, 0, 0), 1.2)] * 3]
    by_hand: dict[int, list[float]] = {0: [], 1: []}
    for losses in (children[:4], children[4:]):
        mean = sum(loss for _, loss in losses) / 4
        for arch, loss in losses:
            by_hand[arch[0]].append(loss - mean)
    assert np.mean([loss for arch, loss in children if arch[0] == 0]) > np.mean(
        [loss for arch, loss in children if arch[0] == 1]
    ), "the plain means say the opposite"
    assert np.mean(by_hand[0]) < 0 < np.mean(by_hand[1])
    for step, (arch, loss) in enumerate(children):
        assert way.dropped_after((1, 0, 0)) is None
        way.after_step(step, [arch], loss, {})
    # Options 1 of decisions 1 and 2 were never trained: these two of six go first, and with three of them the worse one
    # of decision 0.
    assert [entry["epoch"] for entry in way.report()["dropped"]] == [2, 2]
    assert way.dropped_after((0, 1, 0)) == 2 and way.dropped_after((0, 0, 0)) is None
    again = ShrinkingTraining(SPACE, epochs=[2], share=0.5)
    again.begin(TrainingSize(num_steps=12, steps_per_epoch=4, num_samples=8, learning_rate=0.1))
    for step, (arch, loss) in enumerate(children):
        again.after_step(step, [arch], loss, {})
    assert again.dropped_after((1, 0, 0)) == 2 and again.dropped_after((0, 0, 0)) is None
    assert again.archs(8, (1, 1, 0)) == [(0, 0, 0)], "what is left takes the place of what was dropped"


def test_dropped_children_rank_last_those_dropped_first_behind() -> None:
    scores, dropped = [0.5, 0.9, 0.6, 0.8, 0.7], [None, 4, None, 2, 2]
    moved = rank_last(scores, dropped)
    assert np.argsort(np.negative(moved)).tolist() == [2, 0, 1, 3, 4]
    assert moved[0] == 0.5 and moved[2] == 0.6 and moved[3] - moved[4] == pytest.approx(0.1)
    assert rank_last(scores, [None] * 5) == scores
    assert rank_last([0.5, 0.1], [None, 3]) == [0.5, 0.1], "what is behind already stays"


def test_a_shrunk_training_has_its_drops_in_its_scores_and_its_report(tmp_path: Path) -> None:
    data = load("digits", train_size=60, eval_size=40)
    setup = SupernetSetup(SPACE, data, Recipe(epochs=6, batch_size=20, learning_rate=0.05), folder=tmp_path)
    found = train_instance(setup, **ARGUMENTS, training="shrinking:epochs=[2],share=0.4")
    dropped = {entry["option"] for entry in found["training"]["dropped"]}
    assert len(dropped) == 2 and all(entry["epoch"] == 2 for entry in found["training"]["dropped"])
    names = SPACE.option_names
    gone = [
        any(f"{names[place][0]}={names[place][1][option]}" in dropped for place, option in enumerate(arch))
        for arch in SPACE
    ]
    for row in (*found["epochs"], *found["steps"], found["reestimated"], found["by_loss"]):
        kept = [score for score, is_gone in zip(row, gone, strict=True) if not is_gone]
        assert max(score for score, is_gone in zip(row, gone, strict=True) if is_gone) < min(kept)
    assert not any(gone[index] for index in found["trained"]), "after the drop none of them is trained"


# -- landmarks ---------------------------------------------------------------------------------------------------------


def test_the_hinge_is_on_pairs_in_the_wrong_order(tmp_path: Path) -> None:
    network, x, y = scene()
    network.eval()  # batch norm would see each child's batch in turn
    (tmp_path / "known.csv").write_text(
        "\n".join(
            ["arch,acc", *(f"{SPACE.name(SPACE[index])},{score}" for index, score in ((0, 0.9), (3, 0.5), (6, 0.7)))]
        )
    )
    way = LandmarkTraining(SPACE, seed=4, table=str(tmp_path / "known.csv"), num_pairs=2, coefficient=3.0, warm_up=0.5)
    way.begin(TrainingSize(num_steps=20, steps_per_epoch=5, num_samples=6, learning_rate=0.1))
    assert way.archs(9, SPACE[5]) == [SPACE[5]], "the warm-up has the child alone"
    drawn = set()
    with torch.no_grad():
        losses = {arch: float(cross_entropy(network(x, arch), y)) for arch in SPACE}
    wrong = 0.0
    truth = {SPACE[0]: 0.9, SPACE[3]: 0.5, SPACE[6]: 0.7}
    for step in range(10, 20):
        archs = way.archs(step, SPACE[5])
        assert len(archs) == way.children_per_step == 5
        pairs = [tuple(archs[1:3]), tuple(archs[3:5])]
        assert all(truth[better] > truth[worse] for better, worse in pairs)
        drawn |= set(pairs)
        hinge = sum(max(0.0, losses[better] - losses[worse]) for better, worse in pairs)
        found = way.loss(network, x, y, archs, cross_entropy).item()
        assert found == pytest.approx(losses[SPACE[5]] + 3.0 * hinge, rel=1e-5)
        wrong += hinge
    assert wrong > 0, "some pair must be in the wrong order, or nothing is tested"
    assert len(drawn) == 3, "every pair has its turn"
    assert set(way.told()) == set(truth)
    assert way.mean_children_per_step == 3.0


def test_without_a_table_landmarks_are_ordered_by_size_and_that_is_said() -> None:
    network, _, _ = scene()
    way = LandmarkTraining(SPACE, seed=0, num_landmarks=5)
    assert len(way.landmarks) == 5 and way.told() == ()
    for better, worse in way.pairs:
        assert count_parameters(network.child(better)) > count_parameters(network.child(worse))  # type: ignore[operator]
    assert "parameters" in str(way.report()["ordered_by"])


def test_landmarks_without_an_order_are_refused(tmp_path: Path) -> None:
    (tmp_path / "flat.csv").write_text(f"arch,acc\n{SPACE.name(SPACE[0])},0.5\n{SPACE.name(SPACE[1])},0.5\n")
    with pytest.raises(ConfigError, match="must have an order"):
        LandmarkTraining(SPACE, table=str(tmp_path / "flat.csv"))
    with pytest.raises(DataError, match="must be a file"):
        Plan(training=f"landmarks:table={tmp_path / 'none.csv'}").check(SPACE, Recipe())
    alike = space_of(nn.Sequential(Choice([nn.ReLU(), nn.Tanh()], name="act"), nn.Flatten(), nn.Linear(64, 10)))
    with pytest.raises(ConfigError, match="all have as many parameters; give a table"):
        Plan(training="landmarks").check(alike, Recipe())
    with pytest.raises(ConfigError, match="num_landmarks must be at least 2"):
        LandmarkTraining(SPACE, num_landmarks=1)


def test_a_ranking_is_judged_by_the_children_that_it_was_not_told_of() -> None:
    truth = np.arange(8.0)
    scores = np.array([[0.0, 1, 2, 3, 7, 6, 5, 4]])  # right where it was told, the wrong way round elsewhere
    figures = training_figures([{"landmarks": 4, "ordered_by": "x.csv"}], [0, 1, 2, 3], scores, truth, seed=0)
    assert figures is not None and figures["untold_tau"]["value"] == -1.0
    sentences = " ".join(training_sentences("training=landmarks", figures, 8))
    assert "told the order of 4 of the 8 children; among the other 4 the correlation is -1.00" in sentences
    assert training_figures([{}], [], scores, truth, seed=0) is None


# -- PA&DA -------------------------------------------------------------------------------------------------------------


def test_the_distribution_by_norms_has_the_least_variance() -> None:
    """Against others: the estimate is unbiased with every distribution, and varies least with this one."""
    generator = torch.Generator().manual_seed(0)
    gradients = torch.randn(7, 5, generator=generator, dtype=torch.double) * torch.arange(1, 8)[:, None]
    norms = gradients.norm(dim=1)

    def variance(probabilities: torch.Tensor) -> float:
        weights = importance_weights(probabilities, torch.arange(7))
        drawn = weights[:, None] * gradients
        mean = (probabilities[:, None] * drawn).sum(dim=0)
        torch.testing.assert_close(mean, gradients.mean(dim=0))
        return float((probabilities * (drawn - mean).square().sum(dim=1)).sum())

    least = variance(sampling_distribution(norms, 1.0))
    for _ in range(200):
        other = torch.rand(7, generator=generator, dtype=torch.double) + 0.01
        assert least <= variance(other / other.sum()) * (1 + 1e-12)
    assert least < variance(sampling_distribution(norms, 0.5)) < variance(sampling_distribution(norms, 0.0))


def test_unknown_norms_count_as_the_mean() -> None:
    found = sampling_distribution(torch.tensor([1.0, math.nan, 3.0]), 1.0)
    torch.testing.assert_close(found, torch.tensor([1 / 6, 2 / 6, 3 / 6]))
    assert sampling_distribution(torch.tensor([math.nan, math.nan]), 1.0).tolist() == [0.5, 0.5]
    assert sampling_distribution(torch.zeros(2), 1.0).tolist() == [0.5, 0.5]


def test_gradients_are_those_of_the_weighted_loss_and_norms_those_of_samples() -> None:
    network, x, y = scene()
    network.eval()
    way = GradientNormTraining(SPACE, seed=0, path_share=1.0, data_share=1.0)
    way.begin(TrainingSize(num_steps=4, steps_per_epoch=2, num_samples=6, learning_rate=0.1))
    state = way.state_dict()
    state["path_norms"].copy_(torch.tensor([[1.0, 3.0], [2.0, 2.0], [1.0, 1.0]]))
    state["data_norms"].copy_(torch.arange(1.0, 7.0))
    way.load_state_dict({**state, "epochs_done": 1})
    rows = way.rows(2, torch.arange(6))
    arch = (1, 0, 1)
    value = way.loss(network, x[rows], y[rows], [arch], cross_entropy)
    value.backward()
    found = {name: param.grad.clone() for name, param in network.named_parameters() if param.grad is not None}
    # The slow twin: each sample's loss by itself, times 1 / (n p) of the sample and of each option.
    network.zero_grad()
    path_weight = 1 / (2 * 0.75) * 1 / (2 * 0.5) * 1 / (2 * 0.5)
    probabilities = [(row + 1) / 21 for row in rows.tolist()]
    losses = [cross_entropy(network(x[row : row + 1], arch), y[row : row + 1]) for row in rows.tolist()]
    twin = sum(path_weight / (6 * p) * loss for p, loss in zip(probabilities, losses, strict=True)) / 6
    torch.autograd.backward(twin)
    expected = {name: param.grad for name, param in network.named_parameters() if param.grad is not None}
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(value, torch.stack(losses).mean(), msg="the loss that is shown is plain")
    # Norms of samples: of the gradient of each one's loss by its logits, without any weight.
    params = dict(network.named_parameters())
    total = math.sqrt(sum(float(gradient.square().sum()) for gradient in found.values()))
    for name, param in params.items():
        param.grad = found.get(name)
    way.after_step(2, [arch], 0.0, params)
    way.after_step(3, [(0, 0, 0)], 0.0, {})
    after = way.state_dict()
    for row in set(rows.tolist()):
        logits = network(x[row : row + 1], arch).detach().requires_grad_()
        cross_entropy(logits, y[row : row + 1]).backward()
        assert logits.grad is not None
        assert float(after["data_norms"][row]) == pytest.approx(float(logits.grad.norm()), rel=1e-4)
    assert float(after["path_norms"][0, 1]) == pytest.approx(total / path_weight, rel=1e-5)
    assert after["epochs_done"] == 2


def test_the_first_epoch_is_the_plans_and_the_share_grows() -> None:
    way = GradientNormTraining(SPACE, seed=0, path_share=0.6, data_share=0.0)
    way.begin(TrainingSize(num_steps=6, steps_per_epoch=2, num_samples=4, learning_rate=0.1))
    rows = torch.tensor([2, 0])
    assert way.archs(0, SPACE[3]) == [SPACE[3]] and way.rows(0, rows) is rows
    param = nn.Parameter(torch.zeros(1))
    for step, (arch, norm) in enumerate([((0, 0, 0), 1.0), ((1, 1, 1), 3.0)]):
        param.grad = torch.tensor([norm])
        way.after_step(step, [arch], 0.0, {"w": param})
    # Three epochs: after the first of them half of the full share, 0.3 * [1, 3] / 4 + 0.7 / 2.
    torch.testing.assert_close(way._options(0), torch.tensor([0.425, 0.575], dtype=torch.double))
    drawn = [way.archs(step, SPACE[0])[0][0] for step in range(2, 1002)]
    assert abs(np.mean(drawn) - 0.575) < 4 * math.sqrt(0.575 * 0.425 / 1000)


# -- momentum and learning rate by path --------------------------------------------------------------------------------


def test_each_kind_of_children_has_a_momentum_of_its_own() -> None:
    """Against a twin with one optimizer for each kind: on one weight that all share."""
    way = ByPathTraining(SPACE, rate_spread=0.0, decision=1)
    way.begin(TrainingSize(num_steps=9, steps_per_epoch=9, num_samples=4, learning_rate=0.1))
    param = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([param], lr=0.1, momentum=0.9)
    value, momenta = torch.zeros(2), {0: torch.zeros(2), 1: torch.zeros(2)}
    generator = torch.Generator().manual_seed(1)
    for step, option in enumerate([0, 1, 1, 0, 1, 0, 0, 1, 0]):
        arch = (step % 2, option, 0)
        way.before_step(step, [arch], optimizer)
        param.grad = torch.randn(2, generator=generator)
        momenta[option] = 0.9 * momenta[option] + param.grad
        value = value - 0.1 * momenta[option]
        optimizer.step()
    torch.testing.assert_close(param.detach(), value)


def test_large_children_keep_a_higher_rate() -> None:
    network, _, _ = scene()
    sizes = {arch: count_parameters(network.child(arch)) for arch in SPACE}  # type: ignore[operator]
    way = ByPathTraining(SPACE, rate_spread=0.5)
    way.begin(TrainingSize(num_steps=10, steps_per_epoch=10, num_samples=4, learning_rate=0.2))
    largest, smallest = max(sizes, key=lambda a: sizes[a]), min(sizes, key=lambda a: sizes[a])
    assert way.exponent(largest) == pytest.approx(0.5) and way.exponent(smallest) == pytest.approx(1.5)
    assert way.rate(5, 0.05, [largest]) == pytest.approx(0.2 * 0.25**0.5)
    assert way.rate(5, 0.05, [smallest]) == pytest.approx(0.2 * 0.25**1.5)
    assert way.rate(0, 0.2, [largest]) == way.rate(0, 0.2, [smallest]) == pytest.approx(0.2), "all begin alike"
    assert way.rate(9, 0.0, [largest]) == 0.0


def test_another_optimizer_has_no_such_momentum() -> None:
    with pytest.raises(ConfigError, match="that of the optimizer sgd"):
        Plan(training="by-path").check(SPACE, Recipe(optimizer="adamw"))
    Plan(training="by-path:decision=-1").check(SPACE, Recipe(optimizer="adamw"))
    with pytest.raises(ConfigError, match="decision must be between 0 and 2"):
        ByPathTraining(SPACE, decision=3)


# -- the seam, and rank ------------------------------------------------------------------------------------------------


def test_the_suite_sees_a_state_that_is_not_saved() -> None:
    class Leaky(ShrinkingTraining):
        def load_state_dict(self, state: dict[str, Any]) -> None:
            super().load_state_dict({**state, "dropped": []})

    check = next(check for check in TRAINING_CHECKS if check.__name__ == "check_a_killed_training_goes_on")
    with pytest.raises(AssertionError):
        check(lambda space, seed: Leaky(space, seed=seed, epochs=[1], share=0.3))


def test_children_of_a_step_stay_the_same_until_it_is_over() -> None:
    """What a step learns must not change which children it is said to have had."""
    way = ShrinkingTraining(SPACE, epochs=[1], share=0.9)
    driven = DrivenTraining(way, lambda step: SPACE[7], TrainingSize(4, 1, 4, 0.1))
    before = driven.archs(0)
    driven.after_step(0, 1.0, {})
    assert way.dropped_after(SPACE[7]) is None and driven.archs(0) == before


@pytest.mark.parametrize("training", ["shrinking:epochs=[1,2],share=0.4", "pada", "by-path", "landmarks"])
def test_a_killed_instance_ends_with_the_same_bits(training: str, tmp_path: Path, monkeypatch: Any) -> None:
    data = load("digits", train_size=60, eval_size=40)
    recipe = Recipe(epochs=4, batch_size=20, learning_rate=0.05)

    def setup(name: str) -> SupernetSetup:
        return SupernetSetup(SPACE, data, recipe, folder=tmp_path / name, seconds_between_checkpoints=0)

    whole = train_instance(setup("whole"), **ARGUMENTS, training=training)
    way = type(make_training(training, SPACE))
    calls, plain = [0], way.after_step

    def die_at_the_eighth(self: Any, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == 8:
            raise KeyboardInterrupt
        plain(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(way, "after_step", die_at_the_eighth)
        with pytest.raises(KeyboardInterrupt):
            train_instance(setup("killed"), **ARGUMENTS, training=training)
    assert train_instance(setup("killed"), **ARGUMENTS, training=training) == whole


def test_rank_compares_them_all_at_the_same_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{SPACE.name(arch)},0.{place}" for place, arch in enumerate(SPACE)]
    (tmp_path / "truth.csv").write_text("\n".join(["arch,acc", *lines]))
    (tmp_path / "known.csv").write_text("\n".join(["arch,acc", *lines[:3]]))
    ways = ["pada", "by-path", "shrinking", f"landmarks:table={tmp_path / 'known.csv'},warm_up=0"]
    also = [word for way in ways for word in ("--also", f"training={way}")]
    main(["rank", *TINY, "--truth", str(tmp_path / "truth.csv"), *also, "--out", str(tmp_path / "run")])
    result = json.loads(capsys.readouterr().out)
    rows = {row["variation"]: row for row in result["variations"]}
    assert list(rows) == [f"training={way}" for way in ways]
    records = {record["key"]: record for record in read_records(tmp_path / "run")}
    epochs = [len(records[f"training={way}/instance-0/group-0"]["loss"]) for way in ways]
    assert epochs == [6, 6, 6, 2], "three children a step, a third of the epochs"
    assert rows["training=shrinking"]["training"]["reports"][0]["dropped"]
    assert rows[f"training={ways[3]}"]["training"]["told"] == 3
    words = " ".join(result["recommendation"])
    assert "training=shrinking dropped options, and children that have one rank last" in words
    assert "told the order of 3 of the 8 children; among the other 5" in words
    assert result["recommendation"][-1].startswith("Use ")
    assert (tmp_path / "run" / "report.html").exists()


def test_rank_trains_by_one_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([
        "rank", *TINY, "--truth", "none", "--training", "shrinking:epochs=[2]", "--out", str(tmp_path / "run"),
    ])  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    assert result["training"]["reports"][0]["dropped"][0]["epoch"] == 2
    assert "The training dropped options" in " ".join(result["recommendation"])


def test_fine_tuning_at_a_rate_of_0_moves_nothing_but_batch_norm(tmp_path: Path) -> None:
    """The control of Figure 4: the twin runs the same mini-batches through the network in training mode."""
    data = load("digits", train_size=60, eval_size=40)
    setup = SupernetSetup(SPACE, data, Recipe(epochs=2, batch_size=20, learning_rate=0.05), folder=tmp_path)
    train_instance(setup, **ARGUMENTS)
    found = fine_tune(setup, instance=ARGUMENTS, indices=[5], seed=4, score_after=[0, 3], learning_rate=0.0)
    network = load_network(setup, ARGUMENTS)
    before = accuracy(network, data.validation.x, data.validation.y, SPACE[5])
    batches = Batches(len(data.train.y), 20, derive_seed(4, "fine-tuning"))
    network.train()
    with torch.no_grad():
        for step in range(3):
            network(data.train.x[batches[step]], SPACE[5])
    assert found == [[before, accuracy(network, data.validation.x, data.validation.y, SPACE[5])]]
    Plan(fine_tune_learning_rate=0.0).check(SPACE, Recipe())
    assert Plan(fine_tune_learning_rate=0.0).fine_tuning_rate(Recipe()) == 0.0


def test_settings_are_varied_together() -> None:
    assert variation_overrides("momentum=0+learning-rate=1e+00+bn-momentum=0.2") == (
        {"momentum": 0.0, "learning_rate": 1.0},
        0.2,
    )
    for text in ("momentum=0+momentum=0.5", "momentum=0+training=fair", "momentum=0+speed=1"):
        with pytest.raises(ConfigError, match="also must"):
            Plan(also=(text,))
