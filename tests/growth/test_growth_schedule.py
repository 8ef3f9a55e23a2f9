"""What a schedule runs over: each round of a growth, or all of it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from ramet.errors import ConfigError
from ramet.growth import Budget, GrowRecipe, grow
from ramet.runs import Checkpoints

RECIPE = GrowRecipe(epochs=2, batch_size=16, learning_rate=0.1, final_learning_rate=0.0, warmup=0.25, weight_decay=0.0)
WHOLE = replace(RECIPE, schedule_over="growth")


def data(num=48):
    x = torch.randn(num, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] * x[:, 1] > 0).long()
    return x, y, x[:16], y[:16]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


class Noting(torch.optim.SGD):
    """Notes the learning rate of every step."""

    def __init__(self, params):
        super().__init__(params, lr=0.1)
        self.rates = []

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


def rates_of(recipe, budget="neurons=6, step=1", **options):
    made = []

    def optimizer(net):
        made.append(Noting(net.parameters()))
        return made[-1]

    _, history = grow(network(), data(), budget, "net2net", settings=recipe, optimizer=optimizer, **options)
    return made[0].rates, history


def test_a_schedule_runs_over_all_of_a_growth():
    rates, history = rates_of(WHOLE)
    assert len(history.steps) == 4 and len(rates) == 4 * 6  # 3 neurons become 6; 2 epochs of 3 mini-batches a round
    assert rates == [WHOLE.learning_rate_at(number, 24) for number in range(24)]
    assert history.steps[-1].budget_size == 6


def test_by_default_each_round_has_its_own():
    rates, _ = rates_of(RECIPE)
    assert rates == [RECIPE.learning_rate_at(number, 6) for number in range(6)] * 4


def test_schedules_that_count_epochs_count_those_of_all_rounds():
    recipe = replace(WHOLE, schedule="exponential:factor=0.5", warmup=0.0)
    rates, _ = rates_of(recipe, max_steps=1)
    assert rates == [0.1 * 0.5 ** (number // 3) for number in range(12)]  # 3 mini-batches an epoch, 4 epochs in all


def test_the_largest_number_of_steps_shortens_it():
    rates, history = rates_of(WHOLE, max_steps=1)
    assert rates == [WHOLE.learning_rate_at(number, 12) for number in range(12)]
    assert history.stopped == "the number of steps is reached"


def test_growth_ends_with_its_schedule():
    # Of 22 parameters, steps of 10 lead to 40 in two; a neuron has 7, so that two steps lead to 36 and room is left.
    rates, history = rates_of(WHOLE, "params=43, step=10")
    assert Budget("params", 43, step=10).num_steps(23) == 2
    assert [step.budget_size for step in history.steps] == [23, 30, 37]
    assert history.stopped == "the schedule has ended" and len(rates) == 3 * 6
    assert rates[-1] == WHOLE.learning_rate_at(17, 18)


def test_an_interruption_changes_nothing(tmp_path):
    class EndedError(Exception):
        pass

    class Some(Checkpoints):
        left = 5

        def save(self, *arguments, **options):
            super().save(*arguments, **options)
            self.left -= 1
            if not self.left:
                raise EndedError

    options = {"settings": WHOLE, "seconds_between_checkpoints": 0.0}
    expected, _ = grow(network(), data(), "neurons=6, step=1", "net2net", **options)
    with pytest.raises(EndedError):
        grow(network(), data(), "neurons=6, step=1", "net2net", checkpoints=Some(tmp_path), **options)
    again, history = grow(
        network(), data(), "neurons=6, step=1", "net2net", checkpoints=Checkpoints(tmp_path), **options
    )
    assert len(history.steps) == 4
    for name, value in expected.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_another_word_is_refused():
    with pytest.raises(ConfigError, match="schedule_over must be round or growth, but got 'epoch'"):
        GrowRecipe(schedule_over="epoch")
