"""What a growth is compared with: as large, for as much work, and trained as one network is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import ramet
from ramet.costs import count_parameters
from ramet.data import load
from ramet.errors import ConfigError
from ramet.growth import Ends, GrowPlan, GrowRecipe, find_coupling, load_network
from ramet.growth.arms import Arms, prune, scale
from ramet.growth.networks import vgg
from ramet.growth.work import step_work
from ramet.runs import Checkpoints
from ramet.training import accuracy

X = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(64) % 4
RECIPE = GrowRecipe(batch_size=16, learning_rate=0.05)


def start() -> nn.Module:
    torch.manual_seed(0)
    return vgg(1, 8, 4, width=3, depth=3)


def grown() -> nn.Module:
    torch.manual_seed(1)
    return vgg(1, 8, 4, width=(5, 12, 6))


def arms(work: float, checkpoints=lambda name: None, seconds: float = 30.0) -> Arms:
    return Arms(
        start=start, grown=grown(), x=X, y=Y, settings=RECIPE, work=work, seed=0,
        checkpoints=checkpoints, seconds_between_checkpoints=seconds,
    )  # fmt: skip


WORK = 20.5 * step_work(grown(), X, 16)


@pytest.mark.parametrize("arm", ["plain", "scratch", "pruned", "start"])
def test_an_arm_has_the_size_and_the_work(arm: str) -> None:
    trained = arms(WORK)(arm)
    wanted = count_parameters(start() if arm == "start" else grown())
    # Whole units: no more than one of the widest group lies between what can be had and what is asked for.
    assert abs(count_parameters(trained.network) - wanted) <= 9 * 2 * 12 + 3 * 12
    a_step = step_work(trained.network, X, 16)
    largest = a_step if arm != "pruned" else 3 * a_step
    assert WORK - largest < trained.work <= WORK and trained.num_steps >= 10
    again = arms(WORK)(arm)
    for name, value in trained.network.state_dict().items():
        assert torch.equal(value, again.network.state_dict()[name])


def test_scratch_has_the_grown_shape_and_nothing_else() -> None:
    trained = arms(WORK)("scratch").network
    shapes = [value.shape for value in trained.state_dict().values()]
    assert shapes == [value.shape for value in grown().state_dict().values()]
    assert not torch.equal(trained[0].weight, grown()[0].weight)


def test_plain_keeps_the_shares_of_the_start() -> None:
    network = start()
    before = [group.size for group in find_coupling(network, X[:4]).groups.values()]
    scale(network, X[:4], 16 * count_parameters(start()))
    after = [group.size for group in find_coupling(network, X[:4]).groups.values()]
    shares = [new / old for new, old in zip(after, before, strict=True)]
    assert max(shares) - min(shares) <= 1 / min(before), "as near as whole units are"
    assert network(X).shape == (64, 4)


def test_pruning_takes_what_matters_least() -> None:
    network = grown().eval()
    with torch.no_grad():
        network[3].weight[:, 2] = 0.0  # nothing reads the third unit
        network[3].weight[:, 4] = 0.0
    expected = network(X)
    size = count_parameters(network)
    lost = 9 + 2 + 9 * 12  # of each: its filter, its norm's two numbers, and what reads it
    least = {name: 3 for name in find_coupling(network, X[:4]).groups}
    prune(network, X, Y, nn.functional.cross_entropy, params=size - 2 * lost, least=least)
    assert count_parameters(network) == size - 2 * lost and network[0].out_channels == 3
    assert torch.allclose(network(X), expected, atol=1e-5)


@pytest.mark.parametrize("arm", ["plain", "pruned"])
def test_an_interrupted_arm_ends_with_the_same_bits(arm: str, tmp_path: Path) -> None:
    class EndedError(Exception):
        pass

    class Some(Checkpoints):
        left = 4

        def save(self, *arguments, **options) -> None:
            super().save(*arguments, **options)
            Some.left -= 1
            if Some.left == 0:
                raise EndedError

    expected = arms(WORK)(arm).network.state_dict()
    for _ in range(2):
        Some.left = 4 if Some.left == 4 else 14
        with pytest.raises(EndedError):
            arms(WORK, lambda name: Some(tmp_path / name), 0.0)(arm)
    found = arms(WORK, lambda name: Checkpoints(tmp_path / name), 0.0)(arm).network.state_dict()
    assert all(torch.equal(value, found[name]) for name, value in expected.items())


def test_a_job_hands_over_the_better_network(tmp_path: Path) -> None:
    plan = GrowPlan(
        methods=("net2net",), budget="neurons=6, step=3", against="plain,scratch,pruned,start", ends=Ends(max_steps=1)
    )
    result = ramet.grow(
        "mlp:width=3,depth=1", "digits", plan=plan, recipe=GrowRecipe(epochs=2, batch_size=20), out=tmp_path / "run",
        train_size=60, eval_size=30,
    )  # fmt: skip
    assert list(result.against) == ["plain", "scratch", "pruned", "start"] and result.num_validation == 30
    method = result.methods["net2net"]
    assert method.work == sum(step.growing_work + step.training_work for step in method.steps) + method.work_in_vain > 0
    test = load("digits", train_size=60, eval_size=30).test
    for name, figures in result.against.items():
        assert figures.params == (method.params if name != "start" else method.steps[0].sizes.params)
        a_step = 3 * 20 * figures.flops
        assert method.work - 3 * a_step < figures.work <= method.work
        loaded = load_network(result.networks[name])
        assert count_parameters(loaded) == figures.params and accuracy(loaded, test.x, test.y) == figures.test
    scores = {"net2net": method.validation, **{name: each.validation for name, each in result.against.items()}}
    assert scores[result.taken] == max(scores.values())
    assert f"networks/{result.taken} (take this one)" in result.summary() and "Take networks/" in result.summary()
    assert result.report is not None and "Take networks/" in result.report.read_text()


def test_a_name_that_is_no_arm_is_refused() -> None:
    with pytest.raises(ConfigError, match="a growth is compared with plain, scratch, pruned, start or none"):
        GrowPlan(against="smaller")
    with pytest.raises(ConfigError, match="named once each"):
        GrowPlan(against="plain,plain")
    assert GrowPlan(against="none").against == ()
