"""What comes after the search: the best children, trained alone from the start, tested once, and exported."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from ramet.costs import count_parameters
from ramet.errors import RunError
from ramet.execution import pulse
from ramet.fields import from_json
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Checkpoints
from ramet.runs.encoding import Json
from ramet.searching.measures import measure, other_metric
from ramet.searching.plan import FinalNetworkOptions
from ramet.seeding import derive_seed, seeded_globally, torch_generator
from ramet.spaces import Arch, NetworkAlone, Supernet
from ramet.training import Batches, fit, reestimated_batch_norm, saved_part
from ramet.training.augmentation import cutout
from ramet.training.extras import Extras
from ramet.training.recipe import Recipe
from ramet.training.recipes import final_settings

NUM_CALIBRATION_BATCHES = 16
"""Mini-batches from which the batch-norm statistics of a child that inherits its weights are made."""


def train_final(
    setup: SupernetSetup,
    *,
    arch: list[int],
    seed: int,
    epochs: int | None = None,
    final_network: Json | None = None,
    recipe: str | None = None,
) -> Json:
    """Train one architecture alone, and measure it on both held-out splits; gives JSON values.

    A child that inherits its weights (``Space.inherits``) is measured as the search left it. Every other one is a
    single path of a fresh supernet, whose other weights get no gradient (docs/decisions/005), unless a network
    of its own is asked for, by ``FinalNetworkOptions`` as JSON values, which a worker can be sent. A ``recipe`` by name
    sets its fields in place of the setup's. ``parameters`` are those of what is exported.
    """
    choices: Arch = tuple(arch)
    if setup.space.inherits:
        return _inherited(setup, choices)
    made, settings = _options(setup, final_network, recipe)
    settings = settings if epochs is None else replace(settings, epochs=epochs)
    network, checkpoints = _new(setup, choices, seed, made)
    data = setup.data
    batches_seed = derive_seed(seed, "final", "batches")
    steps_per_epoch = Batches(len(data.train), settings.batch_size, batches_seed).steps_per_epoch
    num_steps = settings.epochs * steps_per_epoch
    of_outputs, extras = settings.loss_for(data.train.y), Extras(settings, network)

    def with_holes(step: int, x: Tensor, y: Tensor) -> Tensor:
        x, y = cutout(x, y, torch_generator(batches_seed, "cutout", step), made.cutout)
        return extras.loss(x, y, of_outputs, choices)

    fit(
        network,
        data.train.x,
        data.train.y,
        settings,
        seed=batches_seed,
        arguments=lambda step: (choices,),
        loss_of=with_holes if made.cutout > 0 else None,
        extras=extras,
        after_step=lambda step, loss: pulse((step + 1) / num_steps),
        checkpoints=checkpoints,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
    )
    return {**_measured(setup, network, choices), "parameters": count_parameters(_plain(network, choices))}


def trained_child(
    setup: SupernetSetup, arch: Arch, seed: int, final_network: Json | None = None, recipe: str | None = None
) -> nn.Module:
    """The plain module of a finished ``train_final``, in evaluation mode."""
    if setup.space.inherits:
        supernet = _searched(setup)
        with reestimated_batch_norm(supernet, _calibration(setup), arch):
            return supernet.child(arch).eval()
    network, checkpoints = _new(setup, arch, seed, _options(setup, final_network, recipe)[0])
    saved = None if checkpoints is None else checkpoints.load()
    if saved is not None:
        network.load_state_dict(saved_part(saved, "network"))
    return _plain(network, arch).eval()


def _options(
    setup: SupernetSetup, final_network: Json | None, recipe: str | None
) -> tuple[FinalNetworkOptions, Recipe]:
    """The final network and its recipe, which agree on what is only for training."""
    made = from_json(FinalNetworkOptions, final_network or {}, "final_network")
    return made.trained_by(final_settings(setup.settings, recipe), setup.space)


def _inherited(setup: SupernetSetup, arch: Arch) -> Json:
    """A child as the search has trained it, with batch-norm statistics of its own, on both held-out splits."""
    supernet = _searched(setup)
    with reestimated_batch_norm(supernet, _calibration(setup), arch):
        return {**_measured(setup, supernet, arch), "parameters": count_parameters(supernet.child(arch))}


def _measured(setup: SupernetSetup, network: nn.Module, arch: Arch) -> dict[str, float]:
    """The error, or what the search's recipe measures by, on both held-out splits."""
    metric = other_metric(setup.settings, setup.data.train.y)
    splits = {"validation": setup.data.validation, "test": setup.data.test}
    return {role: measure(network, arch, split.x, split.y, metric=metric).error for role, split in splits.items()}


def _searched(setup: SupernetSetup) -> Supernet:
    """The supernet as the search left it."""
    checkpoints = setup.checkpoints("search")
    saved = None if checkpoints is None else checkpoints.load()
    if saved is None:
        raise RunError("a child that inherits its weights needs the search's last checkpoint, but there is none.")
    supernet = setup.new_supernet(0)
    supernet.load_state_dict(saved_part(saved, "network"))
    assert isinstance(supernet, Supernet)
    return supernet.eval()


def _calibration(setup: SupernetSetup) -> list[Tensor]:
    """Training inputs from which a child's batch-norm statistics are made, always the same."""
    x = setup.data.train.x
    batches = Batches(len(x), setup.settings.batch_size, derive_seed(0, "calibration"))
    count = min(NUM_CALIBRATION_BATCHES, batches.steps_per_epoch)
    return [x[batches[number].to(x.device)] for number in range(count)]


def _plain(network: nn.Module, arch: Arch) -> nn.Module:
    """The architecture alone, without what is only for training."""
    if isinstance(network, NetworkAlone):
        return network.plain()
    assert isinstance(network, Supernet)
    return network.child(arch)


def _new(
    setup: SupernetSetup, arch: Arch, seed: int, final_network: FinalNetworkOptions
) -> tuple[nn.Module, Checkpoints | None]:
    place, data = setup.space.index(arch), setup.data
    with seeded_globally(seed, "weights", "final", place):  # as ``SupernetSetup.drawn_supernet`` does
        network = final_network.build(setup.space, arch, data.in_channels, data.num_outputs)
    network = network.to(data.train.x.device)
    if setup.start is not None and isinstance(network, Supernet):  # one of another size has no place for them
        setup.start.put(network)
    return network, setup.checkpoints(f"final-{place}-{seed}")
