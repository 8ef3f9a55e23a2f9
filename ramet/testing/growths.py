"""A conformance suite for ways to grow, for ours and for outside authors'.

    from ramet.testing.growths import check_growth

    def test_my_growth():
        check_growth(lambda epsilon: MyGrowth(epsilon=epsilon))

A method passes if it leaves the network alone until it is told what was chosen, scores every candidate, writes an edit
of just the chosen units, keeps the function to first order in its step size, keeps within the budget, gives the
same for the same seed, and remembers what it must.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ramet.growth.base import Edit, Growth, GrowthContext, Proposal
from ramet.growth.budget import Budget
from ramet.growth.meter import Meter
from ramet.growth.surgery.layers import find_sites
from ramet.growth.tracing.blocks import find_blocks
from ramet.growth.tracing.checking import find_coupling
from ramet.tracing.probing import largest_change, outputs
from ramet.training.functions import Loss


def make_context(
    network: nn.Module,
    inputs: Tensor,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    loss: Loss = nn.functional.mse_loss,
    num_samples: int = 64,
) -> GrowthContext:
    """A context with random data of the shape of ``inputs``, for tests of a growth method."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num_samples, *inputs.shape[1:])
    if inputs.is_floating_point():
        x = torch.randn(shape, generator=generator, dtype=inputs.dtype)
    else:
        x = torch.randint(0, int(inputs.max()) + 1, shape, generator=generator)
    (result,) = outputs(network, inputs)
    y = torch.randn((num_samples, *result.shape[1:]), generator=generator, dtype=result.dtype)
    coupling = find_coupling(network, inputs[:2])
    sites, _ = find_sites(network, coupling)
    chosen = budget or Budget("neurons", 1e9, step=4.0, layers=1)
    blocks = find_blocks(network, inputs[:2], coupling)[0] if chosen.layers else []

    def meter() -> Meter:
        return Meter(network, coupling, sites, chosen.unit, blocks=blocks)

    return GrowthContext(
        network=network,
        coupling=coupling,
        sites=sites,
        loss=loss,
        x=x,
        y=y,
        validation_x=x,
        validation_y=y,
        batch_size=32,
        seed=seed,
        allowance=chosen.allowance(meter().size),
        max_layers=chosen.layers,
        meter=meter,
        make_optimizer=lambda net: torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9),
        blocks=blocks,
    )


def choose(method: Growth, context: GrowthContext) -> tuple[Proposal, Tensor, list[int]]:
    """What a method proposes, its scores, and what fits the budget."""
    proposal = method.propose(context)
    scores = method.score(context, proposal)
    if proposal.exclusive:
        return proposal, scores, [int(scores.argmax())]
    return proposal, scores, context.choose(proposal.candidates, scores)


def grow_once(method: Growth, context: GrowthContext) -> tuple[Edit, nn.Module]:
    """One whole step of a method on a copy of the context's network."""
    proposal, _, chosen = choose(method, context)
    edit = method.apply(context, proposal, chosen)
    return edit, context.grown(edit)


def check_growth(
    make: Callable[[float], Growth],
    network: nn.Module | None = None,
    inputs: Tensor | None = None,
    *,
    budget: Budget | None = None,
    keeps_function: bool = True,
    trains_candidates: bool = False,
) -> None:
    """Check a growth method on a network and a batch for it; a small perceptron in double precision by default.

    ``make`` makes the method with a step size; one that is exact may ignore it. ``keeps_function`` is whether the
    method promises that the function changes by the order of its step size; ``trains_candidates`` whether the edit
    holds weights that were trained already, with which the function differs.
    """
    if network is None or inputs is None:
        generator = torch.Generator().manual_seed(0)
        network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
        for parameter in network.parameters():
            parameter.data = 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        inputs = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    context = make_context(network, inputs, budget=budget)
    before = copy.deepcopy(network.state_dict())
    method = make(1e-3)
    proposal, scores, chosen = choose(method, context)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items()), (
        "propose and score must leave the network as it is"
    )
    assert scores.shape == (len(proposal.candidates),), "score gives one number for each candidate"
    assert not bool(torch.isnan(scores).any()), "a score is a number"
    assert chosen, "the budget has room for at least one candidate"
    edit = method.apply(context, proposal, chosen)
    _check_edit(context, proposal, chosen, edit)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items()), (
        "apply describes the edit; it does not carry it out"
    )
    grown = context.grown(edit)
    _check_budget(context, network, grown, inputs)
    _check_repeats(make, context, grown)
    if keeps_function and not trains_candidates:
        _check_order(make, context, inputs)
    state = method.state_dict()
    assert json.loads(json.dumps(state)) == state, "state_dict holds JSON values"
    make(1e-3).load_state_dict(state)
    assert not any(type(module).__module__.startswith("ramet") for module in grown.modules() if module is not grown), (
        "a grown network needs no ramet"
    )


def _check_edit(context: GrowthContext, proposal: Proposal, chosen: list[int], edit: Edit) -> None:
    assert set(edit.widenings) <= set(context.coupling.groups), "widenings are of groups that there are"
    if not proposal.exclusive:
        assert edit.num_units == len(chosen), "an edit adds just the chosen units"
        for name, widening in edit.widenings.items():
            units = [proposal.candidates[i].unit for i in chosen if proposal.candidates[i].kind == "split"
                     and proposal.candidates[i].where == name]  # fmt: skip
            assert sorted(widening.sources.tolist()) == sorted(units), "the units that were chosen are split"


def _check_budget(context: GrowthContext, network: nn.Module, grown: nn.Module, inputs: Tensor) -> None:
    meter = context.meter()
    before = meter.size
    coupling = find_coupling(grown, inputs[:2])
    sites, _ = find_sites(grown, coupling)
    after = Meter(grown, coupling, sites, meter.unit).size
    assert before < after <= before + context.allowance + 1e-6, "a step stays within its budget"


def _check_repeats(make: Callable[[float], Growth], context: GrowthContext, grown: nn.Module) -> None:
    _, again = grow_once(make(1e-3), context)
    assert all(torch.equal(a, b) for a, b in zip(grown.parameters(), again.parameters(), strict=True)), (
        "the same seed gives the same growth"
    )


def _check_order(make: Callable[[float], Growth], context: GrowthContext, inputs: Tensor) -> None:
    """The change over the step size is bounded: a tenth of the step, at most about a tenth of the change."""
    before = outputs(context.network, inputs)
    changes = []
    for epsilon in (1e-3, 1e-4):
        _, grown = grow_once(make(epsilon), context)
        changes.append(largest_change(before, outputs(grown, inputs)))
    rounding = 1e-5 if next(context.network.parameters()).dtype == torch.float32 else 1e-10
    assert math.isfinite(changes[0]) and changes[1] <= 0.2 * changes[0] + rounding, (
        f"a tenth of the step size must change the outputs by about a tenth, but they change by {changes}"
    )
