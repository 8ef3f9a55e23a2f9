"""What the next grow sequence is proposed from: effects against their twin, the knapsack against all choices."""

import itertools

import numpy as np
import pytest

from ramet.continual.study.result import pareto_front
from ramet.continual.study.space import SequenceSpace
from ramet.continual.study.thompson.proposals import Knapsack, Seen, _budget, _knapsack, propose
from ramet.continual.study.thompson.task_effects import Finished, TaskEffects

TASKS = ["a", "b", "c", "d", "e", "f"]
SPACE = SequenceSpace(delta="per-task")


class World:
    """Tasks that gain by layers what was drawn once; half of them by nothing. Each layer costs 10, whoever has it."""

    def __init__(self, seed, noise=0.0, spill=0.0):
        generator = np.random.default_rng(seed)
        self.generator, self.noise = generator, noise
        self.gains = {
            task: np.cumsum([0, *generator.uniform(0, 2, 3)]) * (place % 2) for place, task in enumerate(TASKS)
        }
        self.spills = {task: spill * generator.normal(size=4) for task in TASKS}

    def learn(self, parameters):
        order = sorted(TASKS, key=lambda task: (parameters.get(f"order/{task}", 0.0), task))
        counts = {task: min(3, int(parameters[f"delta/{task}"] * 4)) for task in order[1:]}
        return Seen(
            parameters,
            {task: tuple(range(3 - count, 3)) for task, count in counts.items()},
            {task: self._gain(task, counts) for task in TASKS},
            {task: 10 * counts.get(task, 3) + 1 for task in TASKS},
        )

    def _gain(self, task, counts):
        others = sum(self.spills[other][count] for other, count in counts.items() if other != task)
        noise = self.noise * self.generator.normal()
        return float(self.gains[task][counts.get(task, 0)] + others / (len(TASKS) - 1) + noise)


def random_trials(world, count, seed):
    generator = np.random.default_rng(seed)
    return [world.learn(propose(SPACE, TASKS, [], generator)) for _ in range(count)]


def finished(seen):
    return [Finished(trial.layers, trial.gains, trial.rest) for trial in seen]


def predicted(effects, trial):
    values = dict(zip(effects.choices, effects.mean[1:], strict=False))
    return effects.mean[0] + sum(values[choice] for choice in trial.layers.items())


@pytest.mark.parametrize("seed", range(3))
def test_a_knapsack_is_as_good_as_all_choices(seed):
    generator = np.random.default_rng(seed)
    items = {name: range(int(generator.integers(1, 5))) for name in "pqrst"}
    values = {name: {option: float(generator.normal()) for option in options} for name, options in items.items()}
    costs = {name: {option: float(generator.integers(1, 40)) for option in options} for name, options in items.items()}
    knapsack = Knapsack(values, costs)
    unit = knapsack.budgets[1] - knapsack.budgets[0]
    for budget in generator.uniform(knapsack.budgets[0], knapsack.budgets[-1] * 1.1, 20):
        chosen = knapsack.best(budget)
        spent = sum(costs[name][option] for name, option in chosen.items())
        worth = sum(values[name][option] for name, option in chosen.items())
        assert spent <= budget + 1e-9 and list(chosen) == list(items)

        def best_within(limit):
            combinations = (dict(zip(items, options, strict=True)) for options in itertools.product(*items.values()))
            return max(
                sum(values[name][option] for name, option in one.items())
                for one in combinations
                if sum(costs[name][option] for name, option in one.items()) <= limit
            )

        # What rounding can cost is a thousandth of the whole range for each item.
        assert best_within(max(knapsack.budgets[0], budget - (len(items) + 1) * unit)) - 1e-9 <= worth
        assert worth <= best_within(budget) + 1e-9


def test_a_budget_below_the_least_gets_the_cheapest():
    knapsack = Knapsack({"a": {"x": 5.0, "y": 1.0}}, {"a": {"x": 30.0, "y": 10.0}})
    assert knapsack.best(3.0) == {"a": "y"} and knapsack.best(29.0) == {"a": "y"} and knapsack.best(30.0) == {"a": "x"}
    assert Knapsack({"a": {"x": 5.0}}, {"a": {"x": 30.0}}).best(0.0) == {"a": "x"}


def test_the_design_is_the_formula():
    """Each gain term by term, for any weights; nothing that a task does to itself counts as done to others."""
    seen = finished(random_trials(World(0), 5, 3))
    effects = TaskEffects([*seen, Finished(seen[0].layers, seen[0].gains, "another order")], TASKS)
    kinds = sorted({layers for _, layers in effects.choices})
    weights = np.random.default_rng(0).normal(size=effects.design.shape[1])
    names = [*TASKS, *kinds, *(("own", *c) for c in effects.choices), *(("others", *c) for c in effects.choices)]
    weight = dict(zip([*names, *(("rest", rest) for rest in effects.rests)], weights, strict=True))
    expected = []
    for trial in [*seen, Finished(seen[0].layers, seen[0].gains, "another order")]:
        for task in TASKS:
            gain = weight[task] + weight["rest", trial.rest] / len(TASKS)
            if task in trial.layers:
                gain += weight[trial.layers[task]] + weight["own", task, trial.layers[task]]
            for other, layers in trial.layers.items():
                gain += weight["others", other, layers] / (len(TASKS) - 1) if other != task else 0.0
            expected.append(gain)
    np.testing.assert_allclose(effects.design @ weights, expected)


def test_budgets_are_those_at_which_more_is_promised_than_was_found():
    seen = random_trials(World(5), 12, 0)
    belief = TaskEffects(finished(seen), TASKS).draw(np.random.default_rng(0))
    knapsack = _knapsack(belief, seen, "a")
    offset = float(np.median([trial.gain for trial in seen])) - float(np.median(knapsack.worth))
    for seed in range(50):
        budget = _budget(knapsack, offset, seen, np.random.default_rng(seed))
        found = max((trial.gain for trial in seen if trial.size <= budget), default=-np.inf)
        assert knapsack.worth[np.flatnonzero(knapsack.budgets == budget)[0]] + offset > found


def test_the_task_that_comes_first_is_not_paid_for():
    seen = random_trials(World(5), 12, 0)
    belief = TaskEffects(finished(seen), TASKS).draw(np.random.default_rng(0))
    assert list(_knapsack(belief, seen, "c").best(np.inf)) == ["b", "d", "e", "f"]  # the first of all trials is a


def test_the_posterior_is_that_of_one_big_normal():
    """The slow twin: all weights and observations as one normal vector, conditioned by its covariance."""
    world = World(0, noise=0.3, spill=0.5)
    seen = random_trials(world, 7, 1)
    effects = TaskEffects(finished(seen), TASKS)
    design, variances, noise = effects.design, effects.variances, effects.noise
    targets = np.array([trial.gains[task] for trial in seen for task in TASKS])
    prior = np.diag(variances)
    between = prior @ design.T
    gain = between @ np.linalg.inv(design @ between + noise * np.eye(len(targets)))
    mean, covariance = gain @ targets, prior - gain @ between.T
    np.testing.assert_allclose(effects.mean, effects.sums @ mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(effects.covariance, effects.sums @ covariance @ effects.sums.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spill", [0.0, 2.0])
def test_effects_foretell_sequences_that_were_not_tried(spill):
    world = World(1, noise=0.2, spill=spill)
    effects = TaskEffects(finished(random_trials(world, 60, 0)), TASKS)
    world.noise = 0.0  # judged by what is true
    fresh = [trial for trial in random_trials(world, 60, 9) if set(trial.layers.items()) <= set(effects.choices)]
    truth = np.array([trial.gain for trial in fresh])
    foretold = np.array([predicted(effects, trial) for trial in fresh])
    assert len(fresh) > 30 and np.std(truth - foretold) < 0.25 * np.std(truth)


def test_what_is_only_noise_has_no_effect():
    world = World(2, noise=1.0)
    world.gains = {task: np.zeros(4) for task in TASKS}
    effects = TaskEffects(finished(random_trials(world, 40, 0)), TASKS)
    assert np.abs(effects.mean[1:]).max() < 0.5  # a mean of ten observations strays as far as 0.9 by itself
    drawn = [effects.draw(np.random.default_rng(seed)).base for seed in range(200)]
    assert np.mean(drawn) == pytest.approx(effects.mean[0], abs=4 * np.std(drawn) / np.sqrt(200))


def test_the_order_that_is_better_is_found_out():
    generator = np.random.default_rng(0)
    world = World(3, noise=0.1)
    seen = []
    for trial in random_trials(world, 30, 0):
        rest = "good" if generator.random() < 0.5 else "bad"
        gains = {task: gain + (1.0 if rest == "good" else 0.0) for task, gain in trial.gains.items()}
        seen.append(Finished(trial.layers, gains, rest))
    belief = TaskEffects(seen, TASKS).draw(generator)
    assert belief.rest["good"] - belief.rest["bad"] == pytest.approx(6.0, abs=1.0)  # one point for each of six tasks


@pytest.mark.parametrize("space", [SPACE, SequenceSpace(delta="per-task", binding="free", order="free")])
def test_proposals_are_of_the_space_and_follow_from_the_generator(space):
    world = World(4, noise=0.1)
    generator = np.random.default_rng(0)
    seen = [world.learn(start) for start in space.starts(TASKS)]
    for number in range(12):
        proposal = propose(space, TASKS, seen, np.random.default_rng(number))
        assert proposal == propose(space, TASKS, seen, np.random.default_rng(number))
        assert set(proposal) == set(propose(space, TASKS, [], generator))
        deltas = [value for name, value in proposal.items() if name.startswith("delta/")]
        assert all(0 <= delta <= 1 and delta / 0.05 == pytest.approx(round(delta / 0.05)) for delta in deltas)
        seen.append(world.learn(proposal))
    tried = [(tuple(sorted(trial.layers.items())), trial.rest) for trial in seen]
    assert len(set(tried)) >= len(tried) - 2  # two of the first give the same layers; a new coefficient may, too


def two_tasks(order):
    space = SequenceSpace(delta="per-task", order=order)
    seen = [
        Seen(start, {"b": (0,) if start["delta/b"] else ()}, {"a": 0.0, "b": start["delta/b"]}, {"a": 20, "b": 10})
        for start in space.starts(["a", "b"])
    ]
    return [propose(space, ["a", "b"], seen, np.random.default_rng(seed)) for seed in range(20)]


def test_what_can_be_foreseen_is_not_tried():
    """A coefficient of 0 gave no layer and one of 0.25 did: only between them is anything to learn."""
    assert sum(0 < proposal["delta/b"] < 0.25 for proposal in two_tasks("fixed")) >= 18


def test_a_task_that_always_came_first_may_come_second():
    """Nothing is known of its layers then."""
    proposals = two_tasks("free")
    seconds = [proposal for proposal in proposals if proposal["order/b"] < proposal["order/a"]]
    assert seconds and all(set(proposal) == set(proposals[0]) for proposal in proposals)


@pytest.mark.parametrize("order", ["fixed", "free"])
def test_proposals_beat_chance(order):
    """Forty sequences each, of tasks of which half need no layers: the volume that the front dominates."""
    space = SequenceSpace(delta="per-task", order=order)
    volumes = {"chance": [], "thompson": []}
    for seed in range(4):
        for name in volumes:
            world, generator = World(seed, noise=0.3), np.random.default_rng(seed)
            seen = [world.learn(start) for start in space.starts(TASKS)]
            while len(seen) < 40:
                seen.append(world.learn(propose(space, TASKS, seen if name == "thompson" else [], generator)))
            world.noise = 0.0  # judged by what is true
            volumes[name].append(volume([world.learn(trial.parameters) for trial in seen]))
    gained = np.array(volumes["thompson"]) / np.array(volumes["chance"])
    assert gained.min() > 1 and gained.mean() > 1.05


def volume(seen, most=200):
    points = [(trial.gain, float(trial.size)) for trial in seen]
    front = sorted({points[place] for place in pareto_front(points)}, key=lambda point: point[1])
    ends = [size for _, size in front[1:]] + [most]
    return sum(gain * (end - size) for (gain, size), end in zip(front, ends, strict=True))


def test_with_a_base_the_first_task_is_proposed_for_like_the_others():
    """It founds nothing: its coefficients are those that gave it layers, but for those that are left to chance."""
    generator = np.random.default_rng(0)

    def learn(deltas):
        layers = {task: (0,) if delta > 0.5 else () for task, delta in zip(TASKS, deltas, strict=True)}
        gains = {task: float(generator.normal()) for task in TASKS}
        parameters = {f"delta/{task}": float(delta) for task, delta in zip(TASKS, deltas, strict=True)}
        return Seen(parameters, layers, gains, {task: 1 + 10 * len(own) for task, own in layers.items()})

    seen = [learn(generator.choice([0.1, 0.9], len(TASKS))) for _ in range(8)]
    proposed = [propose(SPACE, TASKS, seen, generator, "base") for _ in range(30)]
    assert all(set(one) == {f"delta/{task}" for task in TASKS} for one in proposed)
    for task in ("a", "b"):
        assert np.mean([one[f"delta/{task}"] in (0.1, 0.9) for one in proposed]) > 0.6, task
    assert "delta/a" not in propose(SPACE, TASKS, [], generator)
