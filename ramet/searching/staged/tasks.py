"""The work of a staged search, as tasks that give JSON values: scoring untrained, sharing weights, training alone.

What a task gives follows from its arguments, except for ``seconds``: what it cost, in CPU time on a CPU.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError, DiskError, RunError
from ramet.execution import pulse
from ramet.ranking import SCORES
from ramet.ranking.setup import SupernetSetup
from ramet.runs.encoding import Json
from ramet.searching.costs import ArchCosts
from ramet.searching.measures import Gathered, other_metric
from ramet.seeding import derive_seed, seeded_globally
from ramet.sharing import Order
from ramet.spaces import Arch, Space
from ramet.training import Batches, evaluating, fit, in_batches, saved_part

NUM_INPUTS = 16
"""Training samples at which untrained networks are scored."""


def clock_of(device: torch.device) -> Callable[[], float]:
    """What measures work on a device: CPU time on a CPU, which a busy machine does not change, else time."""
    return time.process_time if device.type == "cpu" else time.perf_counter


def scoring_space(space: Space) -> Space:
    """The space in which untrained networks are scored: as many cells as a first try has, where fewer can be had.

    On NAS-Bench-201 scores with one cell a stage have a tau of 0.72 with the truth of five, for a fraction of the time.
    """
    few = space.small_sizes.get("cells")
    argument = space.size_names.get("cells", "")
    if few is None or not few < getattr(space, argument, 0):
        return space
    return space.resized(cells=few)


def score_part(setup: SupernetSetup, *, archs: Sequence[Sequence[int]], scores: Sequence[str], seed: int) -> Json:
    """Training-free scores of some architectures, each a path of one untrained supernet.

    Returns:
        ``values``, for each score that can be taken a list [archs]; ``refused``, why another cannot; ``seconds``.
    """
    clock = clock_of(setup.data.train.x.device)
    start = clock()
    with seeded_globally(seed, "weights", "training-free"):
        network = scoring_space(setup.space).supernet(setup.data.in_channels, setup.data.num_outputs)
    network = network.to(setup.data.train.x.device)
    x, y = setup.data.train.x[:NUM_INPUTS], setup.data.train.y[:NUM_INPUTS]
    values: dict[str, list[float]] = {}
    refused: dict[str, str] = {}
    for number, name in enumerate(scores):
        try:
            score = SCORES.make(name, network, x, y=y)
            values[name] = []
            for place, arch in enumerate(archs):
                values[name].append(score(tuple(arch)))
                pulse((number + (place + 1) / len(archs)) / len(scores))
        except (ConfigError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            values.pop(name, None)
            refused[name] = " ".join(str(error).split())[:200]  # a user's own network may be of any kind
    return {"values": values, "refused": refused, "seconds": clock() - start}


def count_sizes(setup: SupernetSetup, *, archs: Sequence[Sequence[int]]) -> Json:
    """The multiply-adds of some architectures at their true depth, ``flops`` [archs], and the ``seconds`` it took."""
    data = setup.data
    clock = clock_of(data.train.x.device)
    start = clock()
    costs = ArchCosts(setup.space, data.train.x.shape[1:], data.num_outputs)
    return {"flops": [int(costs("flops", tuple(arch))) for arch in archs], "seconds": clock() - start}


def time_steps(setup: SupernetSetup, *, arch: Sequence[int], seed: int, num_steps: int) -> Json:
    """The ``seconds`` of some training steps of one architecture, after one that does not count."""
    network = setup.new_supernet(seed, "probe")
    clock = clock_of(setup.data.train.x.device)
    marks: list[float] = []
    _fit(setup, network, lambda step: tuple(arch), seed, num_steps + 1, lambda step, loss: marks.append(clock()))
    return {"seconds": marks[-1] - marks[0], "steps": num_steps}


def share_weights(setup: SupernetSetup, *, archs: Sequence[Sequence[int]], seed: int, num_steps: int) -> Json:
    """Train one supernet whose children are the architectures alone, and measure each on the validation split.

    Each step trains one of them; each has a turn before any has another.

    Returns:
        ``losses`` [archs], none where it is not finite, and ``seconds`` of the training and the measuring together; by
        another metric ``errors``, too.
    """
    listed = [tuple(arch) for arch in archs]
    network = setup.new_supernet(seed, "shared")
    order = Order("shuffled", len(listed), derive_seed(seed, "shared", "order"))
    try:
        seconds = _train(
            setup, network, lambda step: listed[order[step]], derive_seed(seed, "shared"), num_steps, "shared", 0.7
        )
    except DiskError:
        raise
    except RunError:  # a loss that is not finite: these weights say nothing of anybody
        return {"losses": [None] * len(listed), "seconds": 0.0, "steps": num_steps}
    clock = clock_of(setup.data.train.x.device)
    start = clock()
    found: list[Json] = []
    for place, arch in enumerate(listed):
        found.append(validation(setup, network, arch))
        pulse(0.7 + 0.3 * (place + 1) / len(listed))
    measured: Json = {"losses": [entry["loss"] for entry in found]}
    if other_metric(setup.settings, setup.data.train.y) is not None:
        measured["errors"] = [entry["error"] for entry in found]
    return {**measured, "seconds": seconds + clock() - start, "steps": num_steps}


def train_rung(setup: SupernetSetup, *, arch: Sequence[int], seed: int, lengths: Sequence[int]) -> Json:
    """Train one architecture alone, in as many parts as there are ``lengths``, each with a schedule of its own.

    A part goes on from the weights of the one before, which its checkpoint has; where that is lost, it is trained again
    to the same bits. All architectures begin with the same weights and see the same mini-batches, so that they differ
    in nothing else.

    Returns:
        ``loss`` and ``error`` on the validation split after the last part, and the ``seconds`` of that part.
    """
    choices: Arch = tuple(arch)
    network = setup.new_supernet(seed, "alone")
    name = "-".join(map(str, choices)) if len(choices) < 40 else str(setup.space.index(choices))
    seconds = 0.0
    for part, num_steps in enumerate(lengths):
        place = f"alone-{name}-{part}"
        is_last = part == len(lengths) - 1
        checkpoints = setup.checkpoints(place)
        saved = None if is_last or checkpoints is None else checkpoints.load()
        if saved is not None and saved.step >= num_steps:
            network.load_state_dict(saved_part(saved, "network"))
            continue
        seed_of_part = derive_seed(seed, "alone", part)
        try:
            seconds = _train(setup, network, lambda step: choices, seed_of_part, num_steps, place, 0.95)
        except DiskError:
            raise
        except RunError:  # a loss that is not finite
            return {"loss": None, "error": None, "seconds": 0.0, "steps": lengths[-1]}
    clock = clock_of(setup.data.train.x.device)
    start = clock()
    measured = validation(setup, network, choices)
    return {**measured, "seconds": seconds + clock() - start, "steps": lengths[-1]}


def validation(setup: SupernetSetup, network: nn.Module, arch: Arch) -> Json:
    """The mean ``loss`` and the ``error`` of a child on the validation split; none where they are not finite.

    By another metric, the error is its value.
    """
    data = setup.data.validation
    metric = other_metric(setup.settings, setup.data.train.y)
    gathered = None if metric is None else Gathered(metric)
    of_outputs = setup.settings.loss_for(data.y)
    total, wrong, count = 0.0, 0.0, 0
    with evaluating(network):
        for x, y in in_batches(data.x, data.y):
            outputs = network(x, arch)
            total += float(of_outputs(outputs, y)) * len(y)
            if gathered is None:
                wrong += _wrong(outputs, y)
            else:
                gathered.add(outputs, y)
            count += len(y)
    loss, error = total / count, wrong / count
    if not math.isfinite(loss):
        return {"loss": None, "error": None}
    if gathered is not None:
        value = gathered.score(data.y).error
        return {"loss": loss, "error": value if math.isfinite(value) else None}
    if data.y.ndim > 1:
        return {"loss": loss, "error": math.exp(min(loss, 700.0))}  # a perplexity
    return {"loss": loss, "error": error}


def _wrong(outputs: Tensor, y: Tensor) -> float:
    return float((outputs.argmax(dim=1) != y).sum()) if y.ndim == 1 else 0.0


def _train(
    setup: SupernetSetup,
    network: nn.Module,
    arch_at: Callable[[int], Arch],
    seed: int,
    num_steps: int,
    place: str,
    share: float,
) -> float:
    """Train a network, which goes on from its checkpoints; gives the seconds, with those before a kill."""
    clock = clock_of(setup.data.train.x.device)
    log: Json = {"seconds": 0.0}
    last = clock()

    def after_step(step: int, loss: float) -> None:
        nonlocal last
        now = clock()
        log["seconds"] += now - last
        last = now
        pulse(share * (step + 1) / num_steps)

    _fit(setup, network, arch_at, seed, num_steps, after_step, place=place, log=log)
    return float(log["seconds"])


def _fit(
    setup: SupernetSetup,
    network: nn.Module,
    arch_at: Callable[[int], Arch],
    seed: int,
    num_steps: int,
    after_step: Callable[[int, float], None],
    *,
    place: str | None = None,
    log: Json | None = None,
) -> None:
    data = setup.data.train
    fit(
        network,
        data.x,
        data.y,
        setup.settings,
        seed=seed,
        arguments=lambda step: (arch_at(step),),
        after_step=after_step,
        checkpoints=None if place is None else setup.checkpoints(place),
        log=log,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
        num_steps=num_steps,
    )


def steps_of_epoch(setup: SupernetSetup) -> int:
    """The mini-batches of an epoch."""
    return Batches(len(setup.data.train), setup.settings.batch_size, 0).steps_per_epoch
