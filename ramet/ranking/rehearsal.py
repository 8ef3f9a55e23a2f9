"""A rehearsal: what cannot work is refused before anything is trained or written."""

from __future__ import annotations

import torch

from ramet.errors import DataError, RametError
from ramet.ranking.diagnosis import child_costs
from ramet.ranking.instance import build_network
from ramet.ranking.plan import Plan
from ramet.ranking.setup import SupernetSetup
from ramet.ranking.truth import read_table
from ramet.sharing import make_sharing
from ramet.spaces import Space
from ramet.training.losses import cross_entropy
from ramet.training.rehearsal import rehearse as try_recipe


def rehearse(setup: SupernetSetup, plan: Plan) -> None:
    """Try on two samples what the diagnosis will do for hours, and refuse what does not fit."""
    plan.check(setup.space, setup.settings)
    if plan.table is not None:
        read_table(plan.table, setup.space, plan.scored(setup.space))
    indices = children_of_every_option(setup.space)
    try:
        _train_once(setup, indices, make_sharing(plan.sharing).num_shared_cells)
        child_costs(setup, indices)
    except RametError:
        raise
    except Exception as error:  # the user's own modules may raise anything
        first_line = (str(error).splitlines() or [""])[0]
        raise DataError(
            f"every child of the space must train on the data, but one does not: {type(error).__name__}: {first_line}"
        ) from error


def children_of_every_option(space: Space) -> list[int]:
    """A few children that have every option of every decision among them.

    >>> from ramet.spaces import Cells64
    >>> [Cells64().name(Cells64()[index]) for index in children_of_every_option(Cells64())]
    ['111', '222', '333', '444']
    """
    archs = [tuple(min(option, n - 1) for n in space.num_options) for option in range(max(space.num_options))]
    return [space.index(arch) for arch in archs]


def _train_once(setup: SupernetSetup, indices: list[int], num_shared_cells: int | None) -> None:
    """Take the gradient of each child on two samples, and a step of the recipe with one of them."""
    network = build_network(setup, 0, indices, num_shared_cells)
    x, y = setup.data.train.x[:2], setup.data.train.y[:2]
    for index in indices:
        logits = network(x, setup.space[index])
        shape, count = tuple(logits.shape), setup.data.num_classes
        if shape not in ((*y.shape, count), (len(y), count, *y.shape[1:])):  # of a text, a logit for each token
            raise DataError(
                f"a child must give a logit for each of the {count} classes, "
                f"but {setup.space.name(setup.space[index])} gives the shape {shape} for two samples."
            )
        torch.autograd.backward(cross_entropy(logits, y))
    try_recipe(setup.settings, network, setup.data.train.x, setup.data.train.y, setup.space[indices[0]])
