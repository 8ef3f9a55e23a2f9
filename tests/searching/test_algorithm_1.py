"""A search under a projection is Algorithm 1 of *Disturbance-immune weight sharing*, followed line by line."""

import copy
from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import cross_entropy, unfold

from ramet.data import load
from ramet.ranking import SupernetSetup
from ramet.searching import Search, SearchPlan
from ramet.seeding import derive_seed
from ramet.spaces import Cells64
from ramet.training import Batches, Settings

LAMBDA, RATE, BATCH = 1.0, 0.1, 8
PLAN = SearchPlan(
    epochs=2,
    warmup_epochs=1,  # of the controller alone: the guard acts from the first update on
    guard_warmup_epochs=0,
    models_per_epoch=3,
    batches_per_model=1,
    strategy_steps=2,
    archs_per_step=1,
    reward_samples=8,
    error_samples=8,
    measured_models=0,
    num_candidates=2,
    guard=f"projection:{LAMBDA}:inputs=all,protect=stages.1.*",  # the cells: convolutions, and no norms that learn
    seed=3,
)


def columns(layer, x):
    """What a convolution's weight meets, a column for each position of each image, [groups, width, n]."""
    patches = unfold(x, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # [batch, in * k * k, n]
    return patches.reshape(len(x), layer.groups, -1, patches.shape[-1]).permute(1, 2, 0, 3).flatten(2)


def by_hand(network, archs, data):
    """Lines 5 to 11 for the architectures that were drawn: Eq. 6, then Eq. 8 for one column after the other."""
    batches, projections = Batches(len(data), BATCH, derive_seed(PLAN.seed, "batches")), {}
    cells = {f"{name}.weight": layer for name, layer in network.named_modules() if isinstance(layer, nn.Conv2d)}
    cells = {name: layer for name, layer in cells.items() if name.startswith("stages.1.")}
    for number, arch in enumerate(archs):
        network.zero_grad()
        rows, seen = batches[number], {name: [] for name in cells}
        hooks = [
            layer.register_forward_pre_hook(lambda _, args, into=seen[name]: into.append(args[0]))
            for name, layer in cells.items()
        ]
        cross_entropy(network.train()(data.x[rows], arch), data.y[rows]).backward()
        for hook in hooks:
            hook.remove()
        with torch.no_grad():
            for name, param in network.named_parameters():
                if param.grad is None:
                    continue
                gradient = param.grad
                if name in projections:
                    p = projections[name]
                    grouped = gradient.reshape(len(p), len(gradient) // len(p), -1)
                    gradient = (grouped @ p).reshape(gradient.shape)
                param -= RATE * gradient  # Eq. 6
            for name, inputs in seen.items():
                for x in (x for one in inputs for x in columns(cells[name], one).split(1, dim=-1)):
                    p = projections.get(name, torch.eye(x.shape[1], dtype=x.dtype).expand(len(x), -1, -1))
                    projections[name] = p - p @ x @ x.mT @ p / (LAMBDA + x.mT @ p @ x)  # Eq. 8


def searched(guard, data):
    """A search in double precision, by plain SGD, so that the update is what Eq. 6 has."""
    settings = Settings(
        epochs=1, batch_size=BATCH, learning_rate=RATE, schedule="constant", momentum=0.0, weight_decay=0.0
    )
    records = {}
    setup = SupernetSetup(Cells64(channels=2, num_cells=1), data, settings)
    search = Search(setup, replace(PLAN, guard=guard), record=lambda key, **fields: records.update({key: fields}))
    search.network.double().stages[0].register_forward_pre_hook(lambda _, args: (args[0].double(), *args[1:]))
    begun = copy.deepcopy(search.network)
    search.run()
    archs = [setup.space.parse(name) for record in records.values() for name in record["archs"]]
    return begun, search.network, archs, [record["reward"] for record in records.values()]


def apart(one, other):
    return max(float((a - b).detach().abs().max()) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_search_is_algorithm_1_by_hand():
    data = load("digits", train_size=40, eval_size=16, image_size=4)
    network, found, archs, rewards = searched(PLAN.guard, data)
    by_hand(network, archs, data.train)
    # Six steps of rounding at 1e-16, and what batch norms of eight images make of it.
    assert apart(found, network) < 1e-9
    _, unguarded, same, _ = searched("none", data)
    assert same[:3] == archs[:3] and apart(found, unguarded) > 1e-3
    assert rewards[0] is None and rewards[1] is not None  # the controller waits, and then learns
