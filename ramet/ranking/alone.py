"""The truth, one child at a time: trained alone from scratch, and tested."""

from __future__ import annotations

from typing import Any

from ramet.execution import pulse
from ramet.ranking.setup import SupernetSetup
from ramet.seeding import derive_seed
from ramet.training import Batches, fit, measure


def train_alone(setup: SupernetSetup, *, index: int, seed: int) -> dict[str, Any]:
    """Train one child, by its place in the space, from scratch with the supernet's settings, and measure it.

    The child is a single path of a fresh supernet: the other weights get no gradient and stay as they are, so that this
    equals training the exported child, at the speed of the supernet's faster kernels. Gives JSON values: the setup's
    metric, by default the accuracy, on ``test`` and ``validation`` data, and the mean training ``loss`` of the last
    epoch.
    """
    data, metric = setup.data, setup.metric
    arch = setup.space[index]
    network = setup.new_supernet(seed, "alone", index)
    batches_seed = derive_seed(seed, "alone", index, "batches")
    steps_per_epoch = Batches(len(data.train.y), setup.settings.batch_size, batches_seed).steps_per_epoch
    num_steps = setup.settings.epochs * steps_per_epoch
    log: dict[str, Any] = {"sum": 0.0}

    def after_step(step: int, loss: float) -> None:
        if step >= num_steps - steps_per_epoch:
            log["sum"] += loss
        pulse((step + 1) / num_steps)

    checkpoints = setup.checkpoints(f"truth-{index}-{seed}")
    fit(
        network,
        data.train.x,
        data.train.y,
        setup.settings,
        seed=batches_seed,
        arguments=lambda step: (arch,),
        after_step=after_step,
        checkpoints=checkpoints,
        log=log,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
        save_last=False,
    )
    result = {
        "test": measure(network, data.test.x, data.test.y, metric, arch),
        "validation": measure(network, data.validation.x, data.validation.y, metric, arch),
        "loss": log["sum"] / steps_per_epoch,
    }
    if checkpoints is not None:
        checkpoints.clear()  # a finished child is never resumed, and 64 children of several seeds would pile up
    return result
