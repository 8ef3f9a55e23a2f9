"""What comes after the search: the best children, trained alone from scratch, tested once, and exported."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.execution import pulse
from ramet.ranking.bench import Bench
from ramet.runs import Checkpoints
from ramet.search.measures import measure
from ramet.seeding import derive_seed
from ramet.spaces import Arch, Supernet
from ramet.training import Batches, fit

Json = dict[str, Any]


def train_final(bench: Bench, *, arch: list[int], seed: int, epochs: int | None = None) -> Json:
    """Train one architecture from scratch, and measure it on both held-out splits.

    It is a single path of a fresh supernet: the other weights get no gradient (docs/decisions/005).

    Args:
        bench: the space, the data, the settings and the folder for checkpoints.
        arch: the architecture.
        seed: of weights and mini-batches.
        epochs: when other than the settings'.

    Returns:
        JSON values: ``validation`` and ``test`` error, and the number of ``parameters``.
    """
    choices: Arch = tuple(arch)
    settings = bench.settings if epochs is None else replace(bench.settings, epochs=epochs)
    network, checkpoints = _new(bench, choices, seed)
    data = bench.data
    batches_seed = derive_seed(seed, "final", "batches")
    num_steps = settings.epochs * Batches(len(data.train), settings.batch_size, batches_seed).steps_per_epoch
    fit(
        network,
        data.train.x,
        data.train.y,
        settings,
        seed=batches_seed,
        arguments=lambda step: (choices,),
        after_step=lambda step, loss: pulse((step + 1) / num_steps),
        checkpoints=checkpoints,
        seconds_between_checkpoints=bench.seconds_between_checkpoints,
    )
    return {
        "validation": measure(network, choices, data.validation.x, data.validation.y).error,
        "test": measure(network, choices, data.test.x, data.test.y).error,
        "parameters": count_parameters(network.child(choices)),
    }


def trained_child(bench: Bench, arch: Arch, seed: int) -> nn.Module:
    """The plain module of a finished ``train_final``, in evaluation mode."""
    network, checkpoints = _new(bench, arch, seed)
    saved = None if checkpoints is None else checkpoints.load()
    if saved is not None:
        prefix = "network/"
        weights = {name[len(prefix) :]: value for name, value in saved.tensors.items() if name.startswith(prefix)}
        network.load_state_dict(weights)
    return network.child(arch).eval()


def export(child: nn.Module, example: Tensor, path: Path) -> bool:
    """Write a child as a ``torch.export`` program, which needs no ramet; False where torch cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it remarks on weights that lie in channels_last memory
            return _export(child, example, path)
    except Exception:  # torch's exporter raises many kinds, and a search is not lost for want of an export
        return False


def _export(child: nn.Module, example: Tensor, path: Path) -> bool:
    batch = torch.export.Dim("batch", min=1, max=65536)
    program = torch.export.export(child, (example,), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
    return True


def _new(bench: Bench, arch: Arch, seed: int) -> tuple[Supernet, Checkpoints | None]:
    place = bench.space.index(arch)
    network = bench.new_supernet(seed, "final", place)
    assert isinstance(network, Supernet)
    return network, bench.checkpoints(f"final-{place}-{seed}")
