"""What a schedule runs over: each round of a growth, all of it, or its work."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from ramet.costs import count_parameters
from ramet.errors import ConfigError
from ramet.growth import Budget, GrowRecipe, grow, make_method
from ramet.growth.arms import scale
from ramet.growth.growing import Growing
from ramet.growth.networks import vgg
from ramet.runs import Checkpoints

RECIPE = GrowRecipe(
    epochs=2, batch_size=16, learning_rate=0.1, final_learning_rate=0.0, warmup=0.25, weight_decay=0.0,
    schedule_over="round",
)  # fmt: skip
WHOLE = replace(RECIPE, schedule_over="growth")
WORK = replace(RECIPE, schedule_over="work", epochs=20, warmup=0.0, begin=0.0, before=0.25)


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


def test_each_round_may_have_its_own():
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


def test_by_work_a_growth_costs_one_training_of_its_final_size():
    """Of 3, 6 and 12 neurons a step costs 18, 36 and 72 products; 60 steps of 12 neurons are foreseen."""
    rates, history = rates_of(WORK, "params=86, step=110%", max_steps=None)
    sizes = [step.budget_size for step in history.steps]
    assert sizes[-1] == 86 and history.stopped == "the budget is reached"
    a_step = [3 * 16 * step.sizes["flops"] for step in history.steps]
    lengths = [round(step.training_work / each) for step, each in zip(history.steps, a_step, strict=True)]
    assert sum(lengths) == len(rates) and lengths[0] == lengths[1] < lengths[2]
    early = sum(step.training_work for step in history.steps[:-1])
    # 60 steps at the final size, whose work is foreseen from parameters: 86 / 23 of the start's.
    whole = 60 * a_step[0] * 86 / 23
    assert whole - a_step[-1] < history.work <= whole
    assert early == pytest.approx(0.25 * whole, rel=0.2)  # whole steps, and sizes that are near what was foreseen
    assert rates[0] == 0.1 and rates == sorted(rates, reverse=True), "one schedule"
    assert rates[-1] < 0.1 * 0.02, "which ends with the last round"


def test_by_work_what_cannot_grow_any_more_is_trained_to_the_end():
    _, history = rates_of(WORK, "params=86, step=110%", max_steps=1)
    assert len(history.steps) == 2 and history.stopped == "the number of steps is reached"
    _, history = rates_of(WORK, "params=86, step=110%", patience=1, min_gain=2.0)
    assert history.stopped == "growth no longer pays" and not history.steps[-1].grew
    assert history.steps[-1].training_work > history.steps[0].training_work


def test_a_finish_from_scratch_forgets_what_was_grown():
    kept, _ = grow(network(), data(), "neurons=6, step=3", "net2net", settings=WORK)
    drawn, history = grow(
        network(), data(), "neurons=6, step=3", "net2net", settings=replace(WORK, finish="scratch", learning_rate=1e-9)
    )
    fresh = network()
    assert drawn[0].weight.shape == kept[0].weight.shape and history.stopped == "the budget is reached"
    assert not torch.allclose(drawn[0].weight[:3], fresh[0].weight, atol=1e-3)


def test_by_work_a_growth_begins_with_a_share_of_its_budget():
    still = {"settings": replace(WORK, begin=0.5, learning_rate=1e-12, final_learning_rate=0.0), "max_steps": 1}
    wide, history = grow(network(), data(), "neurons=12, step=200%", "even", **still)
    first = history.steps[0]
    assert first.widened["0"].units == 3 and first.widened["0"].new == 3 and first.budget_size == 6
    assert history.steps[1].widened["0"].new == 6 and history.steps[1].budget_size == 12
    x = data()[0]
    assert torch.allclose(wide(x), network()(x), atol=1e-6), "nothing has changed yet"
    assert bool((wide[0].weight[3:].norm(dim=1) > 0.01).all()) and bool((wide[2].weight[:, 3:].abs() < 1e-6).all())
    # A budget in parameters is met as nearly as units allow: one has 4 + 1 weights and 2 that read it.
    _, history = grow(network(), data(), "params=100", "even", **still)
    assert abs(history.steps[0].sizes["params"] - 50) <= 7 / 2


@pytest.mark.parametrize("params", [700, 900, 1400, 2000])
def test_grown_evenly_in_two_steps_a_network_has_the_shape_of_a_plain_one(params):
    x, y = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4
    torch.manual_seed(0)
    start = vgg(1, 8, 4, width=(3, 3, 5))
    settings = replace(WORK, begin=0.5, epochs=1, batch_size=4)
    grown, history = grow(start, (x, y, x, y), f"params={params}, step=200%", "even", settings=settings)
    assert history.steps[0].grew and history.steps[1].grew and count_parameters(grown) <= params
    scale(start, x[:4], count_parameters(grown))
    shapes = [[tuple(weight.shape) for weight in each.parameters()] for each in (grown, start)]
    assert shapes[0] == shapes[1], "rounded twice, it would have other proportions"


@pytest.mark.parametrize("is_trained", [True, False])
def test_wider_from_the_start_weights_are_kept_if_they_are_trained_and_drawn_anew_if_not(is_trained):
    net, (x, y, *rest) = network(), data()
    growing = Growing(
        network=net, data=(x, y, *rest), budget=Budget.parse("neurons=12, step=200%"), method=make_method("even"),
        settings=replace(WORK, begin=0.5), seed=0, is_trained=is_trained,
    )  # fmt: skip
    growing.start()
    assert net[0].out_features == 6
    assert torch.allclose(net(x), network()(x), atol=1e-6) == is_trained
    assert bool((net[2].weight[:, 3:] == 0).all()) == is_trained, "drawn weights leave no unit unheard"


@pytest.mark.parametrize("ends", [{"target": 0.99}, {"patience": 1}, {"max_steps": 0}, {}])
def test_what_is_large_enough_or_looks_for_its_size_begins_as_it_is(ends):
    budget = "neurons=12, step=200%" if ends else "neurons=5, step=200%"
    _, history = grow(network(), data(), budget, "even", settings=replace(WORK, begin=0.5), **ends)
    assert not history.steps[0].grew and history.steps[0].budget_size == 3


INTERRUPTED = [
    WHOLE,
    replace(WORK, begin=0.8),
    replace(WORK, finish="scratch"),
    replace(WORK, average="tail:0.5"),
]


@pytest.mark.parametrize("whole", INTERRUPTED)
def test_an_interruption_changes_nothing(tmp_path, whole):
    class EndedError(Exception):
        pass

    class Some(Checkpoints):
        left = 5

        def save(self, *arguments, **options):
            super().save(*arguments, **options)
            self.left -= 1
            if not self.left:
                raise EndedError

    options = {"settings": whole, "seconds_between_checkpoints": 0.0}
    expected, _ = grow(network(), data(), "neurons=6, step=1", "net2net", **options)
    with pytest.raises(EndedError):
        grow(network(), data(), "neurons=6, step=1", "net2net", checkpoints=Some(tmp_path), **options)
    again, history = grow(
        network(), data(), "neurons=6, step=1", "net2net", checkpoints=Checkpoints(tmp_path), **options
    )
    assert history.stopped == "the budget is reached"
    for name, value in expected.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_another_word_is_refused():
    with pytest.raises(ConfigError, match="begin must be a share of the budget"):
        GrowRecipe(begin=1.0)
    with pytest.raises(ConfigError, match="before must be a share of the work"):
        GrowRecipe(before=1.0)
    with pytest.raises(ConfigError, match="finish must be continue or scratch, but got 'anew'"):
        GrowRecipe(finish="anew")
    with pytest.raises(ConfigError, match="finish is for a growth by work"):
        GrowRecipe(finish="scratch", schedule_over="round")
    with pytest.raises(ConfigError, match="schedule_over must be round, growth or work, but got 'epoch'"):
        GrowRecipe(schedule_over="epoch")
