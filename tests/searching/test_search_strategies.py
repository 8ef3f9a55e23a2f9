"""Strategies: the conformance suite, REINFORCE by hand, evolution's ageing, budgets and the Pareto front."""

from __future__ import annotations

import math
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.bench_strategies import beats_random, read_objective
from ramet.errors import ConfigError
from ramet.searching.costs import ArchCosts, Budgeted, pareto_front, parse_limits
from ramet.searching.strategies import STRATEGIES, EnasController, Evolution, Nao, RandomSearch, make_strategy
from ramet.spaces import Cells64, NasBench201
from ramet.spaces.extremes import find_cheapest
from ramet.testing.strategies import SPACE, STRATEGY_CHECKS, Digits, check_it_learns, reward_of, run

MAKERS = {
    "random": lambda space, seed: RandomSearch(space, seed=seed),
    "evolution": lambda space, seed: Evolution(space, seed=seed, population_size=15, tournament_size=5),
    "enas": lambda space, seed: EnasController(space, seed=seed, hidden_size=16, learning_rate=0.02),
    "nao": lambda space, seed: Nao(
        space, seed=seed, num_seeds=20, epochs=10, train_every=40, hidden_size=16, embedding_size=8, num_starts=10
    ),
    "budgeted": lambda space, seed: Budgeted(
        Evolution(space, seed=seed, population_size=15, tournament_size=5),
        lambda name, arch: 1.0 + sum(arch),
        {"params": 10.0},
    ),
}


def checks():
    """NAO trains its networks anew again and again: whether it learns is seen with the slow tests, too."""
    for name, check in product(MAKERS, STRATEGY_CHECKS):
        is_slow = (name, check) == ("nao", check_it_learns)
        yield pytest.param(name, check, id=f"{name}-{check.__name__}", marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize(("name", "check"), checks())
def test_conformance(name, check):
    if (name, check) == ("random", check_it_learns):
        with pytest.raises(AssertionError):
            check(MAKERS[name])
        return
    check(MAKERS[name])


def test_a_policy_is_a_distribution():
    """Probabilities over all architectures sum to one, and samples follow them."""
    strategy = EnasController(Digits([2, 3, 2]), seed=3, hidden_size=8, tanh_constant=2.5, temperature=0.5)
    archs = list(strategy.space)
    _, log_probabilities = strategy.policy(len(archs), given=archs)
    probabilities = log_probabilities.detach().exp()
    assert float(probabilities.sum()) == pytest.approx(1.0, abs=1e-5)
    drawn = strategy.propose(20000)
    shares = torch.tensor([drawn.count(arch) / len(drawn) for arch in archs])
    assert float((shares - probabilities).abs().max()) < 0.015


def test_reinforce_is_the_formula():
    """One step of the controller against the gradient written out, the baseline kept by hand."""
    strategy = EnasController(SPACE, seed=0, hidden_size=8, entropy_weight=0.1, baseline_decay=0.9)
    twin = EnasController(SPACE, seed=0, hidden_size=8)
    for controller in (strategy, twin):
        controller.policy.double()  # Adam blows up the rounding of gradients that are nearly zero
    archs, rewards = [(0, 0, 1, 1, 2), (2, 0, 3, 0, 4)], [0.25, 0.875]  # which single precision has too
    baseline = None
    optimizer = torch.optim.Adam(twin.policy.parameters(), lr=3.5e-3)
    for _ in range(3):
        strategy.observe(archs, rewards)
        optimizer.zero_grad()
        logs = [twin.policy(1, given=[arch])[1][0] for arch in archs]
        total = [reward - 0.1 * float(log.detach()) for reward, log in zip(rewards, logs, strict=True)]
        mean = sum(total) / 2
        baseline = mean if baseline is None else 0.9 * baseline + 0.1 * mean
        loss = -sum((value - baseline) * log for value, log in zip(total, logs, strict=True)) / 2
        loss.backward()
        optimizer.step()
    for ours, theirs in zip(strategy.policy.parameters(), twin.policy.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    assert strategy.report()["baseline"] == pytest.approx(baseline, rel=1e-12)


def test_the_oldest_dies_however_good():
    strategy = Evolution(SPACE, population_size=2, tournament_size=50)
    best, worse = (2, 0, 3, 1, 4), (0, 0, 0, 0, 0)
    strategy.propose(2)
    strategy.observe([best, worse], [9.0, 1.0])
    assert all(sum(a != b for a, b in zip(arch, best, strict=True)) == 1 for arch in strategy.propose(20))
    strategy.observe([worse], [1.0])
    assert all(sum(a != b for a, b in zip(arch, worse, strict=True)) == 1 for arch in strategy.propose(20))


@pytest.mark.slow
def test_nao_writes_down_what_it_read():
    """After a training, decoding the embedding of what was observed gives it back, and the predictor ranks it.

    Rounding decides what is proposed in the end, so the gain is that of several seeds: 0.05 to 0.22 each.
    """
    gains = []
    for seed in range(3):
        strategy = Nao(SPACE, seed=seed, num_seeds=60, epochs=150, hidden_size=32, embedding_size=16, dropout=0.0)
        archs = strategy.propose(60)
        strategy.observe(archs, [reward_of(arch) for arch in archs])
        new = strategy.propose(10)
        assert len(set(new)) == 10 and not set(new) & set(archs)
        known = list(dict.fromkeys(archs))
        with torch.no_grad():
            outputs = strategy.model.encode(torch.tensor(known))
            right = (strategy.model.decode(outputs) == torch.tensor(known)).float().mean()
            predicted = strategy.model.predict(outputs).numpy()
        assert right > 0.9
        assert np.corrcoef(predicted, [reward_of(arch) for arch in known])[0, 1] > 0.9
        gains.append(np.mean([reward_of(arch) for arch in new]) - np.mean([reward_of(arch) for arch in archs]))
    assert np.mean(gains) > 0


def test_every_proposal_is_within_the_budget():
    space = Cells64(channels=2, num_cells=1)
    costs = ArchCosts(space, (3, 8, 8), 4)
    sizes = {arch: costs("params", arch) for arch in space}
    limit = sorted(sizes.values())[20]
    for name in STRATEGIES:
        options = {"num_seeds": 4, "epochs": 2} if name == "nao" else {}
        strategy = Budgeted(make_strategy(name, space, **options), costs, {"params": limit})
        for _ in range(4):
            archs = strategy.propose(5)
            assert all(sizes[arch] <= limit for arch in archs)
            strategy.observe(archs, [0.5] * 5)
        assert all(sizes[arch] <= limit for arch in strategy.derive(3))
    assert sizes[find_cheapest(space, lambda arch: costs("params", arch))] == min(sizes.values())
    assert costs("flops", space[0]) > 0 and costs("latency", space[0]) > 0


def test_an_impossible_budget_is_one_line():
    space = Cells64(channels=2, num_cells=1)
    costs = ArchCosts(space, (3, 8, 8), 4)
    with pytest.raises(
        ConfigError, match=r"^a budget must leave at least one .* params [0-9.e+]+ and the limit is 10\.$"
    ):
        Budgeted(RandomSearch(space), costs, {"params": 10})


@pytest.mark.parametrize("text", ["", "params", "params=", "params=-1", "weight=3", "params=3x", "latency=nan"])
def test_a_bad_budget_is_one_line(text):
    with pytest.raises(ConfigError, match="a budget reads"):
        parse_limits(text)


def test_limits_have_units():
    assert parse_limits("params=1.5M, flops=2G,latency=250us") == {"params": 1.5e6, "flops": 2e9, "latency": 2.5e-4}


def test_the_front_is_what_nothing_beats():
    """Against the definition, on every small case."""
    for values in product(range(3), repeat=6):
        costs, rewards = values[:3], values[3:]
        front = pareto_front(costs, rewards)
        for place in range(3):
            beaten = any(
                costs[other] <= costs[place]
                and rewards[other] >= rewards[place]
                and ((costs[other], rewards[other]) != (costs[place], rewards[place]) or other < place)
                for other in range(3)
                if other != place
            )
            assert (place in front) == (not beaten), (costs, rewards, front)
        assert [costs[place] for place in front] == sorted(costs[place] for place in front)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (
            lambda: make_strategy("best", SPACE),
            "a strategy is one of random, evolution, enas, nao, or FILE.py:Name, but got 'best'",
        ),
        (lambda: make_strategy("enas", SPACE, wings=2), "options of enas are hidden_size"),
        (lambda: Evolution(SPACE, population_size=0), "at least 1 member"),
        (lambda: EnasController(SPACE, temperature=0), "must be positive"),
        (lambda: Nao(SPACE, trade_off=1.0), "trade_off in"),
    ],
)
def test_bad_options_are_one_line(action, words):
    with pytest.raises(ConfigError, match=words) as raised:
        action()
    assert "\n" not in str(raised.value)


def test_rewards_improve_from_the_seeds_alone():
    """A search is a function of its seed: two of the same end alike, bit for bit."""
    ends = [run(MAKERS["nao"](SPACE, 5), 10) for _ in range(2)]
    assert ends[0] == ends[1]
    assert math.isfinite(sum(map(reward_of, ends[0])))


@pytest.mark.realdata
@pytest.mark.slow
def test_strategies_beat_random_search_on_the_table():
    folder = os.environ.get("RAMET_DATA")
    if not folder or not (Path(folder) / "nas" / "nasbench201.npz").is_file():
        pytest.skip("RAMET_DATA does not point at a folder with nas/nasbench201.npz")
    objective = read_objective(Path(folder) / "nas" / "nasbench201.npz", NasBench201())
    result = beats_random(objective, num_seeds=10, num_queries=500)
    for name in ("evolution", "enas", "nao"):
        assert result[name]["mean"] > result["random"]["mean"], result
