"""Architectures trained one after the other on shared weights, and what each training does to those before it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.execution import pulse
from ramet.guards import Guard, NoGuard, make_guard
from ramet.guards.names import StepSizes
from ramet.params import Params
from ramet.ranking.disturbance import prediction_disturbance
from ramet.ranking.instance import calibration_batches
from ramet.ranking.setup import SupernetSetup
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, torch_generator
from ramet.sharing import PrefixShared
from ramet.spaces import Arch, Space
from ramet.training import accuracy, evaluating, fit, reestimated_batch_norm


class WholeModels:
    """A guard for a loop in which one model takes many steps: it remembers the model when that is finished.

    ``fit`` takes each step for the turn of one model, as a supernet's training does. Here the inputs of the current
    model must stay out of the projection until it is trained (section 3.3), so that listening and remembering wait for
    ``finish``.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    def watch(self, module: nn.Module) -> AbstractContextManager[None]:
        """Nothing yet."""
        return nullcontext()

    def step(self, params: Params, step_sizes: StepSizes) -> AbstractContextManager[None]:
        """Guard the step against what the finished models need."""
        return self.guard.step(params, step_sizes)

    def remember(self, params: Params) -> None:
        """Nothing yet."""

    def start_epoch(self, epoch: int) -> None:
        """Nothing: an epoch of one model is none of the sequence."""

    def state_dict(self) -> dict[str, Tensor]:
        """The guard's own."""
        return self.guard.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The guard's own."""
        self.guard.load_state_dict(state)

    def finish(self, setup: SupernetSetup, network: nn.Module, arch: Arch) -> None:
        """Remember a trained model, from one pass over the training images.

        In evaluation mode, because that is how the model will be used, and so what its layers will see.
        """
        if isinstance(self.guard, NoGuard):
            return
        x, y, size = setup.data.train.x, setup.data.train.y, setup.settings.batch_size
        network.zero_grad(set_to_none=True)
        network.eval()
        for inputs, labels in zip(torch.split(x, size), torch.split(y, size), strict=True):
            with self.guard.watch(network):
                torch.autograd.backward(cross_entropy(network(inputs, arch), labels) * (len(labels) / len(y)))
        self.guard.remember(dict(network.named_parameters()))
        network.train()


def sequence_guard(inputs: str | None, regularisation: float) -> Guard:
    """No guard without ``inputs``, or a projection away from ``all`` inputs, their ``columns`` or their ``mean``."""
    return make_guard("none" if inputs is None else f"projection:{regularisation!r}:inputs={inputs}")


def sampled_archs(space: Space, num_archs: int, seed: int) -> list[Arch]:
    """Different architectures, drawn by a seed."""
    generator = torch_generator(seed, "architectures")
    found: dict[Arch, None] = {}
    while len(found) < num_archs:
        found[space.sample(generator)] = None
    return list(found)


def train_sequence(
    setup: SupernetSetup, *, name: str, num_archs: int, seed: int, inputs: str | None, regularisation: float, lr: float
) -> Json:
    """Train architectures one after the other on the weights of one supernet (Figure 1b).

    The seed is that of the architectures, the initial weights and the mini-batches; ``inputs`` are projected away with
    lambda ``regularisation``, ``all`` or their ``mean``, or nothing is.

    Returns:
        JSON values. ``standing`` and ``reestimated``, [n, n]: test accuracy of architecture i after the training of j,
        with the batch-norm statistics as they stand, which are those of j, and re-estimated for i; 0 below the
        diagonal. ``disturbance``, [n, n]: Eq. 3 of the re-estimated class probabilities, divided by the root of the
        number of images. ``known``, [n]: the share of training images that each knows when it is trained, which says
        whether it has converged. ``open``, [n]: the share of open directions before each training. ``validation``: the
        mean validation accuracy of all at the end, re-estimated.
    """
    archs = sampled_archs(setup.space, num_archs, seed)
    network = setup.new_supernet(seed)
    guard = WholeModels(sequence_guard(inputs, regularisation))
    settings = replace(setup.settings, learning_rate=lr)
    test, validation = setup.data.test, setup.data.validation
    calibration = calibration_batches(setup, seed)
    tables: dict[str, list[list[float]]] = {
        key: [[0.0] * num_archs for _ in archs] for key in ("standing", "reestimated", "disturbance")
    }
    finished: list[Any] = []
    log: Json = {**tables, "known": [], "open": []}
    for j, arch in enumerate(archs):
        log["open"].append(guard.guard.report().get("open_share", 1.0))
        train_model(replace(setup, settings=settings), network, arch, guard, derive_seed(seed, j), name=f"{name}/{j}")
        guard.finish(setup, network, arch)
        with reestimated_batch_norm(network, calibration, arch):
            log["known"].append(accuracy(network, setup.data.train.x, setup.data.train.y, arch))
        for i, earlier in enumerate(archs[: j + 1]):
            tables["standing"][i][j] = accuracy(network, test.x, test.y, earlier)
            with reestimated_batch_norm(network, calibration, earlier):
                probabilities = predictions(network, test.x, earlier)
            tables["reestimated"][i][j] = float((probabilities.argmax(1) == test.y.cpu()).double().mean())
            if i == j:
                finished.append(probabilities)
            change = prediction_disturbance(finished[i], probabilities)
            tables["disturbance"][i][j] = float(change) / len(test.y) ** 0.5
        pulse((j + 1) / num_archs)
    log["validation"] = 0.0
    for arch in archs:
        with reestimated_batch_norm(network, calibration, arch):
            log["validation"] += accuracy(network, validation.x, validation.y, arch) / num_archs
    return log


def train_pair(
    setup: SupernetSetup,
    *,
    name: str,
    first: Sequence[int],
    second: Sequence[int],
    num_shared_cells: int,
    seed: int,
    lr: float,
) -> Json:
    """Train two architectures that share the stem and some cells, and see what the second does to the first.

    Each has a head of its own, and cells of its own after the shared ones, so that the number of shared cells is all
    that differs between two calls.

    Returns:
        JSON values: ``layers`` (how many layers with weights both use), ``before`` and ``after`` (test accuracy of the
        first architecture before and after the second's training, batch norm re-estimated), ``standing`` (the same
        after it, batch norm as it stands), ``disturbance`` (Eq. 3, divided by the root of the number of images),
        ``second`` (test accuracy of the second), ``validation`` (the mean validation accuracy of each when trained).
    """
    archs = [tuple(first), tuple(second)]
    network = PrefixShared(setup.new_supernet(seed), archs, num_shared_cells)
    guard = WholeModels(NoGuard())
    setup = replace(setup, settings=replace(setup.settings, learning_rate=lr))
    test, validation, calibration = setup.data.test, setup.data.validation, calibration_batches(setup, seed)

    def measured() -> tuple[Tensor, float]:
        with reestimated_batch_norm(network, calibration, archs[0]):
            probabilities = predictions(network, test.x, archs[0])
        return probabilities, float((probabilities.argmax(1) == test.y.cpu()).double().mean())

    train_model(setup, network, archs[0], guard, derive_seed(seed, 0), name=f"{name}/0")
    before, accuracy_before = measured()
    first_trained = accuracy(network, validation.x, validation.y, archs[0])
    train_model(setup, network, archs[1], guard, derive_seed(seed, 1), name=f"{name}/1")
    after, accuracy_after = measured()
    return {
        "layers": shared_layers(setup, network, archs),
        "before": accuracy_before,
        "after": accuracy_after,
        "standing": accuracy(network, test.x, test.y, archs[0]),
        "disturbance": float(prediction_disturbance(before, after)) / len(test.y) ** 0.5,
        "second": accuracy(network, test.x, test.y, archs[1]),
        "validation": (first_trained + accuracy(network, validation.x, validation.y, archs[1])) / 2,
    }


def train_model(
    setup: SupernetSetup, network: nn.Module, arch: Arch, guard: WholeModels, seed: int, *, name: str
) -> None:
    """Train one architecture on the shared weights, for all epochs of the settings."""
    fit(
        network,
        setup.data.train.x,
        setup.data.train.y,
        setup.settings,
        seed=derive_seed(seed, "batches"),
        arguments=lambda step: (arch,),
        guard=guard,
        turn=1,
        checkpoints=setup.checkpoints(name),
    )


def predictions(network: nn.Module, x: Tensor, arch: Arch) -> Tensor:
    """The class probabilities of one architecture, [samples, classes], on the CPU."""
    with evaluating(network):
        return torch.cat([network(inputs, arch).softmax(1).cpu() for inputs in torch.split(x, 500)]).clone()


def shared_layers(setup: SupernetSetup, network: nn.Module, archs: Sequence[Arch]) -> int:
    """How many convolutions and linear layers all of some architectures use."""
    return len(set.intersection(*[_used_layers(network, setup.data.train.x[:2], arch) for arch in archs]))


def _used_layers(network: nn.Module, x: Tensor, arch: Arch) -> set[str]:
    """The names of the layers with weights that one architecture runs through."""
    seen: set[str] = set()
    with ExitStack() as stack:
        for name, layer in network.named_modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                handle = layer.register_forward_pre_hook(lambda module, args, name=name: seen.add(name))
                stack.callback(handle.remove)
        with evaluating(network):
            network(x, arch)
    return seen
