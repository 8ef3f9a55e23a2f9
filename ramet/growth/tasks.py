"""The tasks of a growth that workers do: a turn of some steps for a method, and the end, when the test set is met."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.data import DataSet
from ramet.errors import ConfigError, told
from ramet.exporting.card import Card, described_inputs
from ramet.growth.budget import Budget, Ends
from ramet.growth.growing import PROBE_SIZE, Growing
from ramet.growth.history import GrowthStep
from ramet.growth.making import make_network
from ramet.growth.methods.making import make_method
from ramet.growth.saving import save_network
from ramet.registry import file_name
from ramet.runs import Checkpoints
from ramet.runs.encoding import encode
from ramet.tracing.attention import open_attention
from ramet.tracing.blocks import is_new_layer, is_wrapper
from ramet.training import Metric, Settings, measure, output_of, training_modes
from ramet.training.rehearsal import rehearse as try_recipe
from ramet.training.rehearsal import rehearse_metric
from ramet.training.weights import check_module, load_weights

KINDS = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd, nn.Embedding, nn.MultiheadAttention)
"""The layers that have channels of their own; norms and activations go along."""


@dataclass(frozen=True, kw_only=True)
class GrowthSetup:
    """What every method of a comparison starts from; it is sent to each worker once.

    Attributes:
        network: its name, ``FILE.py:function``, or a module, which is copied.
        against: what the best growth is compared with.
        saved: what made the network, and what grew in it before, where it is one that was saved: the grown one is then
            written as what both made of the first.
        weights: a file of trained weights that the network begins with, or none.
        start: the weights before anything grew; those that the function and the file give if none.
        described: what the network and the data are, in plain values, for the records.
        folder: of the run; ``identity`` is the run's, too.
        onnx: whether the grown networks are written for onnxruntime, too.
        ties: whether layers of a model with a configuration grow together; not so for all methods if not for one,
            because they have their first training in common.
        is_trained: whether the first weights are worth keeping; see ``draws_weights``.
        given_params: the parameters of the network before anything grew.
        seconds_between_checkpoints: how much work of a training a kill may cost; it has no influence on results.
        seconds_a_turn: a task does steps until so much time has passed, and at least one.
    """

    network: str | nn.Module
    network_options: dict[str, Any]
    data: DataSet
    budget: Budget
    settings: Settings
    ends: Ends
    methods: dict[str, str]
    seed: int
    against: tuple[str, ...] = ()
    saved: tuple[dict[str, Any], list[GrowthStep]] | None = None
    weights: str | None = None
    start: dict[str, Tensor] = field(default_factory=dict)
    described: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    identity: str | None = None
    onnx: bool = False
    ties: str = "auto"
    is_trained: bool = True
    given_params: int = 0
    seconds_between_checkpoints: float = 30.0
    seconds_a_turn: float = 0.0

    @property
    def name(self) -> str:
        """What the network is called in words to the user."""
        named = self.network if self.saved is None else self.saved[0]["network"]
        return named if isinstance(named, str) else type(self.network).__name__

    @property
    def origin(self) -> dict[str, Any]:
        """The arguments that make the network before it grew; nothing makes a module again but its owner."""
        if self.saved is not None:
            return self.saved[0]
        return {
            "network": self.network if isinstance(self.network, str) else None,
            **self.data.form.to_json(),
            "num_classes": self.data.num_outputs,
            "options": self.network_options,
            "seed": self.seed,
        }

    @property
    def probe(self) -> Tensor:
        """A few inputs that the network is traced with."""
        return self.data.train.x[:PROBE_SIZE]

    @property
    def metric(self) -> Metric:
        """What networks are measured by."""
        return self.settings.metric_for(self.data.train.y)

    def new_network(self) -> nn.Module:
        """The network before it grew, on the data's device."""
        made = make_network(**self.origin) if isinstance(self.network, str) else copy.deepcopy(self.network)
        check_module(made)
        if self.weights is not None and not self.start:
            load_weights(made, self.weights)
        network = open_attention(made).to(self.data.train.x.device)
        if self.start:
            network.load_state_dict(self.start)
        return network

    def draws_weights(self, network: nn.Module) -> bool:
        """Whether the weights of ``new_network`` were drawn just now, by a function that draws others by another seed.

        One that reads them somewhere gives the same ones again, and a module comes as it is.
        """
        if self.weights is not None or self.saved is not None or not isinstance(self.network, str):
            return False
        again = replace(self, seed=self.seed + 1).new_network().state_dict()
        return any(not torch.equal(value, again[name]) for name, value in network.state_dict().items())

    def checkpoints(self, method: str) -> Checkpoints | None:
        """The checkpoints of one method."""
        folder = self.folder
        return (
            None if folder is None else Checkpoints(folder / "checkpoints" / file_name(method), identity=self.identity)
        )

    @contextmanager
    def growing(self, method: str, own: Checkpoints | None = None) -> Iterator[Growing]:
        """The growth by one method, taken up where it was left, in its own checkpoints or in others; let go in the end.

        One at a time is in memory: of a large network it is five networks.
        """
        data, splits = self.data, ("train", "validation")
        growing = Growing(
            network=self.new_network(),
            data=tuple(getattr(getattr(data, split), part) for split in splits for part in "xy"),
            budget=self.budget,
            method=make_method(self.methods[method]),
            settings=self.settings,
            seed=self.seed,
            keep_best=self.ends.keeps_best,
            max_steps=self.ends.max_steps,
            seeks_size=self.ends.seeks_size,
            ties=self.ties,
            is_trained=self.is_trained,
            checkpoints=self.checkpoints(method) if own is None else own,
            first_step=self.checkpoints(FIRST_STEP) if own is None else None,
            seconds_between_checkpoints=self.seconds_between_checkpoints,
        )
        try:
            growing.start()
            yield growing
        finally:
            growing.release()


FIRST_STEP = "first step"
"""The checkpoints of the training that all methods begin with."""


def train_first(setup: GrowthSetup) -> None:
    """Do the first training, in which no method has a part, once for all methods."""
    own = setup.checkpoints(FIRST_STEP)
    assert own is not None
    with setup.growing(next(iter(setup.methods)), own) as growing:
        if not growing.trained:
            growing.advance(setup.ends)


def take_turn(setup: GrowthSetup, method: str) -> dict[str, Any]:
    """Do the next steps of a growth; gives its whole history so far, whose last ``stopped`` says whether it is over."""
    started = time.monotonic()
    with setup.growing(method) as growing:
        while growing.advance(setup.ends) is not None and time.monotonic() - started < setup.seconds_a_turn:
            pass
        return growing.history.to_json()


def finish(setup: GrowthSetup, method: str) -> dict[str, Any]:
    """Meet the test set, once, with the network that a growth has ended with, and write it for others to load."""
    assert setup.folder is not None
    with setup.growing(method) as growing:
        while growing.advance(setup.ends) is not None:  # over already, unless its last checkpoint was damaged
            pass
        network, history = growing.kept_network, growing.history
    metric, rows = setup.metric, setup.data.rows
    test = measure(network, setup.data.test.x, setup.data.test.y, metric)
    folder = setup.folder / "networks" / file_name(method)
    data, end = setup.data, history.end
    score = end.score
    assert score is not None
    card = Card(
        title=f"{setup.name}, grown by {method}",
        network={name: round(value) for name, value in end.sizes.items()},
        inputs=described_inputs(data.form.shape, data, data.form.dtype),
        data=data.facts(),
        figures={
            f"{metric.name} on validation {rows}": metric.score(score),
            f"{metric.name} on test {rows}": test,
        },
        made={
            "method": setup.methods[method],
            "growth steps": end.number,
            "ended because": history.stopped,
            "recipe": encode(setup.settings.to_json()),
            "seed": setup.seed,
        },
        words=("`ramet.growth.load_network` gives the module itself, of the classes that it was made of.",),
    )
    steps = [*([] if setup.saved is None else setup.saved[1]), *history.steps[: end.number + 1]]
    problem = save_network(network, folder, steps=steps, origin=setup.origin, onnx=setup.onnx, card=card)
    return {"test": test, "layers": describe_layers(network, setup.probe), "not_exported": problem}


def rehearse(setup: GrowthSetup) -> GrowthSetup:
    """Refuse what cannot work before anything is written: one step of the training, and the start of a growth.

    Gives the setup with what it is described by: the data, the network's layers, what of them cannot grow, the budget.
    """
    network, data = setup.new_network(), setup.data
    x, y = data.train.x[: max(2, PROBE_SIZE)], data.train.y[: max(2, PROBE_SIZE)]
    try:
        result = network(x)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(f"a network must run on {data.form}, but {setup.name} raises {told(error)}") from error
    outputs = output_of(result)
    expected = [*y.shape, data.num_classes]
    if not data.is_numeric and list(outputs.shape) not in (expected, [len(x), data.num_classes, *y.shape[1:]]):
        got = list(outputs.shape)
        raise ConfigError(
            f"a network must give outputs of shape {expected} for {len(x)} {data.form.kind}s, but got {got}."
        )
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ConfigError(f"a network must have parameters that are trained, but {setup.name} has none.")
    if not outputs.requires_grad:
        raise ConfigError(f"the outputs of a network must be differentiable, but those of {setup.name} are not.")
    try_recipe(setup.settings, network, data.train.x, data.train.y)
    rehearse_metric(setup.metric, setup.new_network(), (data.validation.x, data.validation.y))
    with setup.growing(next(iter(setup.methods))) as first:
        refusals = [asdict(refusal) for refusal in first.history.refusals]
    described = {
        "data": data.fingerprint(),
        "layers": describe_layers(setup.new_network(), setup.probe),
        "refusals": refusals,
        "budget": setup.budget.to_json(),
    }
    described |= setup.metric.described()
    if data.rows != "images":  # what was always so is not said
        described["rows"] = data.rows
    return replace(setup, described=described)


def describe_layers(network: nn.Module, inputs: Tensor) -> list[dict[str, Any]]:
    """The layers of a network in the order in which they first run on a small batch.

    A layer keeps the name that it had before other layers were put behind it, so that two descriptions of one network,
    before and after it grew, can be laid side by side. ``units`` are its outputs.

    >>> describe_layers(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.zeros(2, 3))
    [{'name': '0', 'kind': 'Linear', 'units': 4, 'inputs': 3, 'params': 16, 'new': False}]
    """
    order: list[str] = []
    handles = []
    for name, module in network.named_modules():
        if isinstance(module, KINDS):
            handles.append(module.register_forward_pre_hook(_noting(order, name)))
    try:
        with training_modes(network), torch.no_grad():
            network.eval()
            network(inputs)
    finally:
        for handle in handles:
            handle.remove()
    return [_describe(network, name) for name in dict.fromkeys(order)]


def _noting(order: list[str], name: str) -> Callable[[nn.Module, Any], None]:
    def note(module: nn.Module, arguments: Any) -> None:
        order.append(name)

    return note


def _describe(network: nn.Module, path: str) -> dict[str, Any]:
    layer = network.get_submodule(path)
    name, new = original_name(network, path)
    kind = type(layer).__name__
    if isinstance(layer, nn.modules.conv._ConvNd):
        depthwise = layer.groups == layer.in_channels > 1
        kind = f"{'x'.join(map(str, layer.kernel_size))} {'depthwise' if depthwise else 'convolution'}"
        units, inputs = layer.out_channels, layer.in_channels
    elif isinstance(layer, nn.Embedding):
        units, inputs = layer.embedding_dim, layer.num_embeddings
    elif isinstance(layer, nn.MultiheadAttention):
        units = inputs = layer.embed_dim
    elif isinstance(layer, nn.Bilinear):
        units, inputs = layer.out_features, layer.in1_features
    else:
        assert isinstance(layer, nn.Linear)
        units, inputs = layer.out_features, layer.in_features
    return {"name": name, "kind": kind, "units": units, "inputs": inputs, "params": count_parameters(layer), "new": new}


def original_name(network: nn.Module, path: str) -> tuple[str, bool]:
    """The name that a module had in the network as it was at first, and whether it belongs to a layer that was added.

    A layer that was added behind ``conv`` is called ``conv+1``, its parts ``conv+1.inner`` and ``conv+1.outer``.
    """
    module, kept, new = network, "", False
    for part in path.split("."):
        around, module = module, module.get_submodule(part)
        if is_wrapper(around):
            kept += f"+{part}" if part != "0" else ""
        else:
            kept += f".{part}" if kept else part
        new = new or is_new_layer(module)
    return kept, new
