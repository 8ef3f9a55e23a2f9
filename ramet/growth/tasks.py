"""The tasks of a growth that workers do: a turn of some steps for a method, and the end, when the test set is met."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ramet.data import DataSet
from ramet.errors import ConfigError
from ramet.growth.budget import Budget
from ramet.growth.description import describe_layers
from ramet.growth.growing import PROBE_SIZE, Ends, Growing
from ramet.growth.making import make_network
from ramet.growth.methods.making import make_method
from ramet.growth.saving import save_network
from ramet.registry import file_name
from ramet.runs import Checkpoints
from ramet.training import Settings, accuracy


@dataclass(frozen=True, kw_only=True)
class GrowthSetup:
    """What every method of a comparison starts from; it is sent to each worker once.

    Attributes:
        network: its name, or ``FILE.py:function``.
        network_options: arguments of the network.
        data: the splits, already on the device.
        budget: how large it may get, and how fast.
        settings: of each training.
        ends: when growth ends.
        method_options: by method.
        seed: of everything random.
        start: the weights before anything grew; those that the function gives if none.
        folder: of the run.
        seconds_between_checkpoints: how much work of a training a kill may cost; it has no influence on results.
        seconds_a_turn: a task does steps until so much time has passed, and at least one.
    """

    network: str
    network_options: dict[str, Any]
    data: DataSet
    budget: Budget
    settings: Settings
    ends: Ends
    method_options: dict[str, dict[str, Any]]
    seed: int
    start: dict[str, Tensor] = field(default_factory=dict)
    folder: Path | None = None
    seconds_between_checkpoints: float = 30.0
    seconds_a_turn: float = 0.0

    def __post_init__(self) -> None:
        if not self.seconds_between_checkpoints >= 0:
            raise ConfigError(
                f"seconds_between_checkpoints must not be negative, but got {self.seconds_between_checkpoints}."
            )

    @property
    def origin(self) -> dict[str, Any]:
        """The arguments that make the network before it grew."""
        return {
            "network": self.network,
            "in_channels": self.data.in_channels,
            "image_size": list(self.data.image_size),
            "num_classes": self.data.num_classes,
            "options": self.network_options,
            "seed": self.seed,
        }

    @property
    def probe(self) -> Tensor:
        """A few images that the network is traced with."""
        return self.data.train.x[:PROBE_SIZE]

    def new_network(self) -> nn.Module:
        """The network before it grew, on the data's device."""
        network = make_network(**self.origin).to(self.data.train.x.device)
        if self.start:
            network.load_state_dict(self.start)
        return network

    def growing(self, method: str) -> Growing:
        """The growth by one method, taken up where it was left."""
        data, splits = self.data, ("train", "validation")
        growing = Growing(
            network=self.new_network(),
            data=tuple(getattr(getattr(data, split), part) for split in splits for part in "xy"),
            budget=self.budget,
            method=make_method(method, **self.method_options.get(method, {})),
            settings=self.settings,
            seed=self.seed,
            checkpoints=None if self.folder is None else Checkpoints(self.folder / "checkpoints" / file_name(method)),
            seconds_between_checkpoints=self.seconds_between_checkpoints,
        )
        growing.start()
        return growing


def take_turn(setup: GrowthSetup, method: str) -> dict[str, Any]:
    """Do the next steps of a growth; gives its whole history so far, whose last ``stopped`` says whether it is over."""
    started, growing = time.monotonic(), setup.growing(method)
    while growing.advance(setup.ends) is not None and time.monotonic() - started < setup.seconds_a_turn:
        pass
    return growing.history.to_json()


def finish(setup: GrowthSetup, method: str) -> dict[str, Any]:
    """Meet the test set, once, with the network that a growth has ended with, and write it for others to load."""
    assert setup.folder is not None
    growing = setup.growing(method)
    while growing.advance(setup.ends) is not None:  # over already, unless its last checkpoint was damaged
        pass
    test = accuracy(growing.network, setup.data.test.x, setup.data.test.y)
    folder = setup.folder / "networks" / file_name(method)
    problem = save_network(
        growing.network, folder, steps=growing.history.steps, origin=setup.origin, example=setup.probe
    )
    return {"test": test, "layers": describe_layers(growing.network, setup.probe), "not_exported": problem}


def rehearse(setup: GrowthSetup, method: str) -> tuple[Growing, list[dict[str, Any]]]:
    """Refuse what cannot work before anything is written: one forward and backward pass, and the start of a growth.

    Returns:
        The start of the growth by this method, and the network's layers.

    Raises:
        ConfigError: the network does not run on the data, cannot be traced, cannot grow or is too large already.
    """
    network, data = setup.new_network(), setup.data
    x, y = data.train.x[: max(2, PROBE_SIZE)], data.train.y[: max(2, PROBE_SIZE)]
    try:
        outputs = network(x)
    except Exception as error:
        first_line = (str(error).splitlines() or [""])[0]
        raise ConfigError(
            f"a network must run on images of shape {list(x.shape[1:])}, but {setup.network} raises "
            f"{type(error).__name__}: {first_line}"
        ) from error
    expected = [len(x), data.num_classes]
    if not isinstance(outputs, Tensor) or list(outputs.shape) != expected:
        got = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ConfigError(f"a network must give outputs of shape {expected} for {len(x)} images, but got {got}.")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ConfigError(f"a network must have parameters that are trained, but {setup.network} has none.")
    if not outputs.requires_grad:
        raise ConfigError(f"the outputs of a network must be differentiable, but those of {setup.network} are not.")
    torch.nn.functional.cross_entropy(outputs, y).backward()  # type: ignore[no-untyped-call]
    return setup.growing(method), describe_layers(setup.new_network(), setup.probe)
