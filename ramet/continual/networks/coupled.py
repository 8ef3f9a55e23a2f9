"""The units of a user's module, as growth's trace finds them coupled, and copies of the module that have other widths.

Groups whose units a layer norm runs over (the stream of a transformer) are left as they are: with one channel more or
less everything that such a norm gives is another, for every unit. What may come and go are channels under batch norms
or none, hidden units and heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ramet.continual.networks.cutting import Cut
from ramet.continual.networks.recording import BATCH, called
from ramet.continual.networks.wiring import Wiring
from ramet.data import InputForm
from ramet.errors import ConfigError
from ramet.growth.surgery.writing import read_tensor, write_tensor
from ramet.growth.tracing.checking import find_coupling
from ramet.seeding import torch_generator
from ramet.tracing.coupling import Coupling
from ramet.tracing.expansions import wider
from ramet.tracing.numbers import renumber_module


def trace_units(network: nn.Module, form: InputForm, cut: Cut) -> tuple[Wiring, Coupling]:
    """Which units the tensors of a module hold, and the coupling that says so; the module is left as it was.

    Each task's own are batch norms, the head, and vectors that hold no units (biases and scales of a stream of fixed
    width, a class token).

    Raises:
        ConfigError: there are no units that may come and go.
    """
    coupling = find_coupling(network, form.example(BATCH, torch_generator(0, "units")))
    groups = [group for group in coupling.groups.values() if not group.norms]
    if not groups:
        streams = [f"{name} is under {group.norms[0].module}" for name, group in coupling.groups.items()]
        reasons = streams or [f"{refusal.name}: {refusal.reason}" for refusal in coupling.refusals]
        raise ConfigError(
            f"a network must have channels or neurons that may come and go, but {called(network)} has none "
            f"({reasons[0] if reasons else 'it has no weights'})."
        )
    axes = tuple(group.axis for group in groups)
    own = {name for block in cut.blocks for name in block.norms}
    params = dict(network.named_parameters())
    for name, layouts in coupling.layouts.items():
        has_units = any(axis in term for layout in layouts for term in layout for axis in axes)
        is_vector = name in params and params[name].numel() == max(params[name].shape, default=1)
        if name.startswith(f"{cut.head}.") or (is_vector and not has_units):
            own.add(name)
    wiring = Wiring(
        tuple(group.name for group in groups),
        axes,
        coupling.layouts,
        frozenset((slot.tensor, slot.dim) for group in groups for slot in group.slots if slot.role == "in"),
        tuple(name for name in coupling.layouts if name not in own),
        f"{cut.head}.weight",
    )
    return wiring, coupling


@torch.no_grad()
def resize(
    network: nn.Module,
    wiring: Wiring,
    coupling: Coupling,
    widths: Sequence[int],
    norms: Sequence[str],
    generator: torch.Generator,
) -> None:
    """Give a module that has the template's shapes other widths, in place; its head gets what it takes, and no more.

    The first units stay. The weights of further ones are drawn from those that the tensor has, which is how the user's
    own code has drawn them, or how a training has left them; those of batch norms are the mean.
    """
    for name in coupling.layouts:
        if not wiring.dims(name):
            continue
        old = read_tensor(network, name).detach()
        shape = list(wiring.shape(name, widths))
        if name == wiring.head_weight:
            shape[0] = len(old)
        if name in norms:
            new = old.mean().expand(shape).clone()
        else:
            new = old.flatten()[torch.randint(old.numel(), shape, generator=generator).to(old.device)]
        first = [torch.arange(min(sizes)) for sizes in zip(widths, wiring.sizes, strict=True)]
        wiring.put(name, new, widths, first, wiring.take(name, old, wiring.sizes, first))
        is_trained = read_tensor(network, name).requires_grad
        made: Tensor = nn.Parameter(new, is_trained) if isinstance(read_tensor(network, name), nn.Parameter) else new
        for alias in coupling.aliases[name]:
            write_tensor(network, alias, made)
            renumber_module(network.get_submodule(alias.rpartition(".")[0]))
    sizes = dict(zip(wiring.axes, widths, strict=True))
    for (path, attribute), layout in coupling.attributes.items():
        if any(axis in sizes for term in layout for axis in term):
            setattr(network.get_submodule(path), attribute, wider(layout, sizes))
