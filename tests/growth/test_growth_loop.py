"""The loop: budgets, ends, what it hands back, and that an interruption changes nothing."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import r2_score
from torch import nn

from ramet.errors import ConfigError, DataError, RunError
from ramet.growth import Budget, History, grow
from ramet.growth.base import Edit, Growth
from ramet.growth.methods.net2net import Net2Net
from ramet.runs import Checkpoints
from ramet.seeding import derive_seed
from ramet.training import Settings, fit
from ramet.training.outputs import SoftmaxWarning

FAST = Settings(epochs=1, batch_size=16, learning_rate=0.05)
FIREFLY = {"num_new": 3, "layer_width": 3, "num_steps": 2, "num_score_batches": 1}


def data(num=48):
    x = torch.randn(num, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] * x[:, 1] > 0).long()
    return x, y, x[:16], y[:16]


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Dropout(0.1), nn.Linear(3, 2))


def test_a_network_grows_to_its_budget():
    net = network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    grown, history = grow(net, data(), "neurons=6, step=2", settings=FAST, method_options=FIREFLY)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items()), (
        "the original is untouched"
    )
    assert (grown[0].out_features, grown[1].num_features, grown[4].in_features) == (6, 6, 6)
    assert history.stopped == "the budget is reached"
    assert [step.budget_size for step in history.steps] == [3, 5, 6]
    assert [sum(len(g.split) + g.new for g in s.widened.values()) for s in history.steps] == [0, 2, 1]
    assert all(step.score is not None and 0 <= step.score <= 1 for step in history.steps)
    assert history.steps[1].widened["0"].best_score > 0 and history.steps[1].loss_after is not None
    assert [(r.name, r.reason) for r in history.refusals] == [("4", "it is the network's output")]
    assert History.from_json(json.loads(json.dumps(history.to_json()))) == history


def test_growing_in_place_and_with_an_average():
    net = network()
    average = torch.optim.swa_utils.AveragedModel(net)
    grown, _ = grow(net, data(), "neurons=5", "net2net", settings=FAST, in_place=True, averages=[average])
    assert grown is net and net[0].out_features == 5 and average.module[0].out_features == 5


@pytest.mark.parametrize("budget", ["params=60", "flops=40", "neurons=5"])
def test_budgets_are_kept_and_used(budget):
    _, history = grow(network(), data(), budget, "net2net", settings=FAST)
    total = history.budget["total"]
    sizes = [step.budget_size for step in history.steps]
    assert sizes == sorted(sizes) and total - 9 < sizes[-1] <= total
    unit = {"params": 9, "flops": 6, "neurons": 1}[history.budget["unit"]]  # what one neuron costs
    for before, after in itertools.pairwise(sizes):
        assert after - before <= max(0.3 * before, unit) + 1e-9


@pytest.mark.parametrize(("text", "added"), [("100%", 3), ("150%", 4.5), ("99%", 2.97), ("1", 1), ("0.5", 1.5)])
def test_a_step_in_per_cent_is_a_share_however_large(text, added):
    assert Budget.parse(f"neurons=20, step={text}").allowance(3) == pytest.approx(added)


def test_a_step_of_100_per_cent_doubles_the_network():
    _, history = grow(network(), data(), "neurons=20, step=100%", "net2net", settings=FAST, max_steps=1)
    assert history.steps[1].budget_size == 6


def test_a_step_with_a_unit_of_time_is_an_amount():
    assert Budget.parse("latency=2ms, step=0.5ms").allowance(1e-3) == pytest.approx(0.5e-3)
    assert Budget.parse("latency=2ms, step=0.5").allowance(1e-3) == pytest.approx(0.5e-3)
    assert Budget.parse("latency=2ms, step=0.2ms").allowance(1e-3) == pytest.approx(0.2e-3)
    for text in ("params=200k", "params=200k, step=30%", "neurons=9, step=2"):  # as it was always written down
        assert "share" not in Budget.parse(text).to_json()
    assert Budget.parse("neurons=9, step=200%").to_json()["share"] is True


def test_a_budget_in_seconds():
    _, history = grow(network(), data(), Budget("latency", 100.0, step=0.5), "net2net", settings=FAST, max_steps=1)
    assert 0 < history.steps[0].budget_size < 100 and history.steps[1].widened


def test_layers_are_added_within_their_own_budget():
    grown, history = grow(
        network(), data(), "neurons=40, step=9, layers=1", settings=FAST, method_options=FIREFLY, max_steps=2
    )
    added = [width for step in history.steps for width in step.layers.values()]
    assert added and all(width >= 2 for width in added)
    assert all(len(step.layers) <= 1 for step in history.steps)
    assert any(isinstance(module, torch.fx.GraphModule) for module in grown.modules())


def test_reasons_to_stop():
    quick = {"settings": FAST, "method": "net2net"}
    assert grow(network(), data(), "neurons=99", target=0.0, **quick)[1].stopped == "the target is reached"
    assert grow(network(), data(), "neurons=99", max_steps=1, **quick)[1].stopped == "the number of steps is reached"
    still = Settings(epochs=1, batch_size=16, learning_rate=1e-12, final_learning_rate=0.0)
    exact = {"method": Net2Net(noise=0.0), "settings": still}
    _, history = grow(network().eval(), data(), "neurons=99", patience=2, min_gain=0.5, **exact)
    assert history.stopped == "growth no longer pays" and len(history.steps) == 3


@pytest.mark.parametrize(
    ("method", "interrupted_at"), [("firefly", 0), ("firefly", 1), ("firefly", 2), ("autogrow", 0), ("autogrow", 1)]
)
def test_an_interrupted_growth_ends_bit_for_bit_the_same(tmp_path, interrupted_at, method):
    arguments = {
        "budget": "neurons=30, step=8, layers=1",
        "method": method,
        "method_options": FIREFLY if method == "firefly" else {},
        "settings": FAST,
        "max_steps": 2 if method == "firefly" else 1,
    }
    expected, history = grow(network(), data(), **arguments)

    def interrupt(step):
        if step.number == interrupted_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grow(network(), data(), **arguments, checkpoints=Checkpoints(tmp_path), after_step=interrupt)
    resumed, again = grow(network(), data(), **arguments, checkpoints=Checkpoints(tmp_path))
    assert resumed.state_dict().keys() == expected.state_dict().keys()
    assert all(torch.equal(value, expected.state_dict()[name]) for name, value in resumed.state_dict().items())
    assert history.steps == again.steps
    # And a finished one is simply handed back.
    finished, _ = grow(network(), data(), **arguments, checkpoints=Checkpoints(tmp_path))
    assert all(torch.equal(value, expected.state_dict()[name]) for name, value in finished.state_dict().items())


SCORES = {3: 0.2, 4: 0.6, 5: 0.5, 6: 0.4, 7: 0.7}
"""Of a network of so many neurons, where the score must fall for sure."""


@pytest.mark.parametrize("num_saves", [0, 4, 6, 8])
def test_patience_hands_back_the_best_network(tmp_path, monkeypatch, num_saves):
    """Its shapes and weights are those of the step with the best score, also after a kill later on."""
    monkeypatch.setattr("ramet.growth.growing.measure", lambda net, x, y, metric: SCORES[net[0].out_features])
    arguments = {"budget": "neurons=9, step=1", "method": "net2net", "settings": FAST}
    expected, _ = grow(network(), data(), max_steps=1, **arguments)
    if num_saves:
        with pytest.raises(KeyboardInterrupt):
            grow(network(), data(), patience=2, checkpoints=StopsAfter(tmp_path, num_saves), **arguments)
    checkpoints = Checkpoints(tmp_path) if num_saves else None
    best, history = grow(network(), data(), patience=2, checkpoints=checkpoints, **arguments)
    assert [step.score for step in history.steps] == [0.2, 0.6, 0.5, 0.4]
    assert history.stopped == "growth no longer pays" and history.kept == 1 and history.end is history.steps[1]
    assert best.state_dict().keys() == expected.state_dict().keys()
    assert all(torch.equal(value, expected.state_dict()[name]) for name, value in best.state_dict().items())
    last, whole = grow(network(), data(), patience=3, max_steps=4, **arguments)
    assert last[0].out_features == 7 and whole.kept is None, "the last one is the best, and patience lasted"
    assert History.from_json(json.loads(json.dumps(history.to_json()))) == history


class StopsAfter(Checkpoints):
    """Checkpoints that end the process, as it were, right after one of them has been written."""

    def __init__(self, folder, num_saves):
        super().__init__(folder)
        self.num_saves = num_saves

    def save(self, step, tensors, state):
        super().save(step, tensors, state)
        self.num_saves -= 1
        if not self.num_saves:
            raise KeyboardInterrupt


@pytest.mark.parametrize("num_saves", range(1, 16, 2))
def test_a_growth_goes_on_in_the_middle_of_a_training(tmp_path, num_saves):
    """Dropout, momentum, the schedule, the norm's statistics and averages must be what they were; 3 steps an epoch."""
    average = "tail:0.5" if num_saves % 4 == 1 else None
    settings = Settings(epochs=2, batch_size=16, learning_rate=0.05, average=average)
    arguments = {"budget": "neurons=7, step=2", "settings": settings, "method_options": FIREFLY}
    expected, history = grow(network(), data(), **arguments)
    with pytest.raises(KeyboardInterrupt):
        checkpoints = StopsAfter(tmp_path, num_saves)
        grow(network(), data(), **arguments, checkpoints=checkpoints, seconds_between_checkpoints=0.0)
    saved = Checkpoints(tmp_path).load()
    assert saved is not None and saved.state is not None
    resumed, again = grow(network(), data(), **arguments, checkpoints=Checkpoints(tmp_path))
    assert history == again
    assert all(torch.equal(value, expected.state_dict()[name]) for name, value in resumed.state_dict().items())


def test_each_training_ends_with_the_average_of_its_weights():
    def plain_network():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))

    recipe = Settings(epochs=2, batch_size=16, learning_rate=0.05, average="tail:0.5")
    grown, _ = grow(plain_network(), data(), "neurons=7", settings=recipe, max_steps=0)
    x, y, _, _ = data()
    for average, equal in (("tail:0.5", True), (None, False)):
        by_fit = plain_network()
        fit(by_fit, x, y, replace(recipe, average=average), seed=derive_seed(0, "train", 0))
        assert torch.equal(grown[0].weight, by_fit[0].weight) == equal


def test_a_regression_with_a_data_set_like_object():
    x, _, validation_x, _ = data()
    split = SimpleNamespace(
        train=SimpleNamespace(x=x, y=x[:, :1] ** 2),
        validation=SimpleNamespace(x=validation_x, y=validation_x[:, :1] ** 2),
    )
    net = nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 1))
    grown, history = grow(net, split, "neurons=4, step=1", settings=FAST, method="random")
    with torch.no_grad():
        explained = r2_score(split.validation.y, grown(validation_x))
    assert grown[0].out_features == 4 and history.steps[-1].score == pytest.approx(explained, rel=1e-5)


def test_a_loss_of_ones_own_is_the_score_and_the_target():
    _, _, validation_x, validation_y = data()

    def loss(outputs, targets):
        return F.cross_entropy(outputs, targets) + 1

    def small():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))

    options = {"settings": FAST, "method": "random", "loss": loss}
    grown, history = grow(small(), data(), "neurons=7", max_steps=0, **options)
    with torch.no_grad():
        expected = float(loss(grown(validation_x), validation_y))
    assert history.steps[-1].score == pytest.approx(-expected, rel=1e-5)
    for target, stopped in ((expected + 0.01, "the target is reached"), (expected - 0.01, "the number of steps")):
        ended = grow(small(), data(), "neurons=7", max_steps=0, target=target, **options)[1].stopped
        assert ended.startswith(stopped)


def test_adam_goes_along():
    made = []

    def optimizer(net):
        made.append(torch.optim.Adam(net.parameters(), lr=0.01))
        return made[-1]

    grown, _ = grow(network(), data(), "neurons=5", "net2net", settings=FAST, optimizer=optimizer)
    assert len(made) == 1, "the optimizer lives through all growths"
    for parameter in grown.parameters():
        assert made[0].state[parameter]["exp_avg"].shape == parameter.shape
        assert float(made[0].state[parameter]["step"]) > 3


def test_the_groups_of_an_optimizer_keep_their_learning_rates(tmp_path):
    """The schedule multiplies them, before and after a growth, and in a growth that was taken up again."""
    seen = []

    class Watched(torch.optim.SGD):
        def step(self, closure=None):
            seen.append([group["lr"] for group in self.param_groups])
            return super().step(closure)

    def optimizer(net):
        return Watched([{"params": net[0].parameters(), "lr": 0.3}, {"params": net[4].parameters(), "lr": 0.02}])

    settings = Settings(epochs=1, batch_size=16, learning_rate=0.05, final_learning_rate=0.01, schedule="linear")
    options = {"settings": settings, "optimizer": optimizer, "max_steps": 1}
    grow(network(), data(), "neurons=5", "net2net", **options)
    factors = [1.0, 1 - 0.8 / 3, 1 - 1.6 / 3] * 2  # three mini-batches, down to a fifth; a training each
    assert [first for first, _ in seen] == pytest.approx([0.3 * factor for factor in factors])
    assert [second for _, second in seen] == pytest.approx([0.02 * factor for factor in factors])
    expected, seen[:] = list(seen), []
    with pytest.raises(KeyboardInterrupt):
        stops = StopsAfter(tmp_path, 2)
        grow(network(), data(), "neurons=5", "net2net", checkpoints=stops, seconds_between_checkpoints=0.0, **options)
    grow(network(), data(), "neurons=5", "net2net", checkpoints=Checkpoints(tmp_path), **options)
    assert seen == expected


def test_bad_input_is_refused():
    with pytest.raises(ConfigError, match="must be above the network's 3 neurons, but got 3"):
        grow(network(), data(), "neurons=3")
    with pytest.raises(ConfigError, match="must have something that can grow"):
        grow(nn.Linear(4, 2), data(), "params=1k")
    with pytest.raises(ConfigError, match="is one of firefly"):
        grow(network(), data(), "params=1k", "magic")
    with pytest.raises(ConfigError, match="options of net2net are"):
        grow(network(), data(), "params=1k", "net2net", method_options={"size": 3})
    with pytest.raises(DataError, match="validation"):
        grow(network(), torch.randn(4, 4), "params=1k")
    with pytest.raises(DataError, match="as many"):
        grow(network(), (*data()[:3], data()[1]), "params=1k")
    with pytest.raises(ConfigError, match="must run on a batch of the data"):
        grow(nn.Sequential(nn.Linear(5, 2), nn.Linear(2, 2)), data(), "params=1k")
    with pytest.raises(ConfigError, match="in_place"):
        grow(network(), data(), "params=1k", in_place=True, checkpoints=Checkpoints("nowhere"))
    for method in ("autogrow", "stacking", "redrawn:method=autogrow"):
        with pytest.raises(ConfigError, match=r"the budget must allow some, but it has none: add layers=1"):
            grow(network(), data(), "params=1k", method)
    with pytest.raises(ConfigError, match="with patience hands back a copy"):
        grow(network(), data(), "params=1k", in_place=True, patience=1)


def test_a_network_that_ends_in_a_softmax_is_warned_of():
    ends_wrong = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.Softmax(1))
    options = {"settings": FAST, "method": "net2net", "max_steps": 0}
    with pytest.warns(SoftmaxWarning, match="leave out the softmax at its end"):
        grow(ends_wrong, data(), "neurons=5", **options)
    ends_right = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.LogSoftmax(1))
    grow(ends_right, data(), "neurons=5", **options)  # a warning would be an error
    grow(ends_wrong, data(), "neurons=5", loss=lambda outputs, y: F.nll_loss((outputs + 1e-6).log(), y), **options)


def test_a_loss_that_is_not_a_number_is_reported():
    x, y, *validation = data()
    with pytest.raises(ConfigError, match="must give finite outputs"):
        grow(network(), (x * float("nan"), y, *validation), "neurons=5", settings=FAST)
    wild = Settings(epochs=2, batch_size=16, learning_rate=1e30)
    with pytest.raises(RunError, match="must stay finite"):
        grow(network(), data(), "neurons=5", settings=wild)


def test_an_edit_that_changes_the_function_is_refused():
    class Wrong(Growth):
        """Puts a widening into a group that its coupling has wrong."""

        def propose(self, context):
            group = context.coupling.groups["0"]
            kept = tuple(slot for slot in group.slots if slot.role != "in")
            context.coupling.groups["0"] = type(group)(group.name, group.axis, kept)
            return Net2Net(noise=0).propose(context)

        def score(self, context, proposal):
            return Net2Net().score(context, proposal)

        def apply(self, context, proposal, chosen) -> Edit:
            return Net2Net(noise=0).apply(context, proposal, chosen)

    with pytest.raises((RunError, RuntimeError), match=r"must keep the outputs|shape"):
        grow(network(), data(), "neurons=5", Wrong(), settings=FAST)
