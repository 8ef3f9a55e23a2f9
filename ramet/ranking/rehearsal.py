"""A rehearsal: what cannot work is refused before anything is trained or written."""

from __future__ import annotations

import torch
from torch import nn

from ramet.errors import DataError, RametError, told
from ramet.ranking.diagnosis import child_costs
from ramet.ranking.instance import build_network
from ramet.ranking.plan import Plan
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.truth import read_table
from ramet.ranking.weights import put_weights
from ramet.sharing import make_sharing
from ramet.spaces import Arch, Space
from ramet.training.losses import cross_entropy, squared_error
from ramet.training.rehearsal import rehearse as try_recipe
from ramet.training.rehearsal import rehearse_metric


def rehearse(setup: SupernetSetup, plan: Plan) -> None:
    """Try on two samples what the diagnosis will do for hours, and refuse what does not fit."""
    plan.check(setup.space, setup.settings)
    if plan.table is not None:
        read_table(plan.table, setup.space, plan.scored(setup.space))
    for source in plan.weights:
        put_weights(setup.new_supernet(0), source)
    try_children(setup, make_sharing(plan.sharing).num_shared_cells, num_samples=plan.step_samples)
    child_costs(setup, children_of_every_option(setup.space))


def try_children(setup: SupernetSetup, num_shared_cells: int | None = None, *, num_samples: int | None = None) -> None:
    """Train a few children that have every option among them on two samples, and a step of the recipe with one.

    The metric is tried on the first validation samples, as many as scores are taken on; all if none.

    Raises:
        ConfigError: the recipe, or the metric, cannot be used.
        DataError: a child does not run, or gives what no loss can be taken of; it is named, and so is the choice that
            makes the difference to a child that does.
    """
    indices = children_of_every_option(setup.space)
    network = build_network(setup, 0, indices, num_shared_cells)
    problems = {index: _problem(setup, network, setup.space[index]) for index in indices}
    for index, problem in problems.items():
        if problem:
            good = next((setup.space[other] for other, other_problem in problems.items() if not other_problem), None)
            raise DataError(
                f"every child of the space must train on the data, but {_blamed(setup, index, good)}{problem}"
            )
    arch, held_out = setup.space[indices[0]], setup.data.validation
    try_recipe(setup.settings, network, setup.data.train.x, setup.data.train.y, arch)
    rehearse_metric(setup.metric, network, (held_out.x[:num_samples], held_out.y[:num_samples]), arch)


def children_of_every_option(space: Space) -> list[int]:
    """A few children that have every option of every decision among them.

    >>> from ramet.spaces import Cells64
    >>> [Cells64().name(Cells64()[index]) for index in children_of_every_option(Cells64())]
    ['111', '222', '333', '444']
    """
    archs = [tuple(min(option, n - 1) for n in space.num_options) for option in range(max(space.num_options))]
    return [space.index(arch) for arch in archs]


def _problem(setup: SupernetSetup, network: nn.Module, arch: Arch) -> str:
    """What is wrong with a child, or nothing."""
    x, y = setup.data.train.x[:2], setup.data.train.y[:2]
    count = setup.data.num_outputs
    try:
        outputs = network(x, arch)
        shape = tuple(outputs.shape)
        shapes = [(*y.shape, count), (len(y), count, *y.shape[1:])]  # of a text, a logit for each token
        if setup.data.is_numeric and shape not in ((len(y), count), tuple(y.shape)):
            return f" gives the shape {shape} for two samples, and not the {count} numbers of each."
        if not setup.data.is_numeric and shape not in shapes:
            return f" gives the shape {shape} for two samples, and no logit for each of the {count} classes."
        if not bool(outputs.isfinite().all()):
            return " gives values that are not finite for two samples, with weights as they are drawn."
        torch.autograd.backward(squared_error(outputs, y) if setup.data.is_numeric else cross_entropy(outputs, y))
    except (RametError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the user's own modules may raise anything
        return f" does not: {told(error)}"
    return ""


def _blamed(setup: SupernetSetup, index: int, good: Arch | None) -> str:
    """The child by its name, and the choices that alone make a good child fail."""
    space, bad = setup.space, setup.space[index]
    if good is None or not space.option_names:
        return space.name(bad)
    found = []
    network = setup.new_supernet(0)
    for place, (name, options) in enumerate(space.option_names):
        changed = (*good[:place], bad[place], *good[place + 1 :])
        if bad[place] != good[place] and _problem(setup, network, changed):
            found.append(f"{name}={options[bad[place]]}")
    return f"{space.name(bad)}, by its choice of {' or '.join(found)}," if found else space.name(bad)
