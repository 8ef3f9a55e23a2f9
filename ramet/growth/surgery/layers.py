"""New layers: where a network can get deeper, and the residual layer I + h that is put there.

A new layer stands behind a place where it runs once: ``x`` becomes ``x + outer(activation(inner(x)))``, the sum over
neurons of e_i s(x, d_i) as in section 2.3 of the Firefly paper: ``inner`` holds the d_i and ``outer`` the e_i, silent
while it is zero. It is a plain ``torch.fx.GraphModule`` of torch's own layers, so that the network is saved, loaded and
copied without ramet.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from ramet.growth.surgery.widening import WideningPlan
from ramet.tracing.axes import Axis, Layout
from ramet.tracing.blocks import is_new_layer, is_wrapper
from ramet.tracing.coupling import Coupling, Refusal
from ramet.tracing.expansions import expand_layout, spread, wider

_MAKERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm)
_ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.Softplus, nn.Mish,
)  # fmt: skip
_CLOSED = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.MultiheadAttention)
_NORM_OF = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


@dataclass(frozen=True)
class Site:
    """A place behind which a layer can be put.

    Attributes:
        name: the module that the layer comes behind.
        dimensions: of the images there; 0 for a linear layer.
        layout: what the channels are made of.
        activation: a copy of the activation that the network uses there; ReLU if that is no module.
        normalised: whether the network has a batch norm there; the new layer then has one too.
        positions: the number of positions in an image, or of tokens, for counting multiplications.
    """

    name: str
    dimensions: int
    layout: Layout
    activation: nn.Module
    normalised: bool
    positions: int

    @property
    def channels(self) -> int:
        """The number of channels now."""
        return wider(self.layout, {})

    @property
    def is_sequence(self) -> bool:
        """Whether a linear layer runs over tokens here, whose channels come last."""
        return self.dimensions == 0 and self.positions > 1

    def weights_per_unit(self, sizes: dict[Axis, int]) -> int:
        """Parameters of one neuron of the layer: 3 x ... x 3 in, 1 out, a bias or the norm's two."""
        own = 1 if not self.normalised else 0 if self.is_sequence else 2
        return int(3**self.dimensions + 1) * wider(self.layout, sizes) + own

    def work_per_unit(self, sizes: dict[Axis, int]) -> int:
        """Multiplications of one neuron of the layer for one example."""
        return int(3**self.dimensions + 1) * wider(self.layout, sizes) * self.positions


def find_sites(network: nn.Module, coupling: Coupling) -> tuple[list[Site], list[Refusal]]:
    """Where layers can be added: behind each linear layer or convolution with its norm and activation.

    Gives the sites in the order in which they run, and the places that are left out, with the reason.
    """
    modules = dict(network.named_modules())
    counts: dict[str, int] = {}
    for made in coupling.calls:
        counts[made.module] = counts.get(made.module, 0) + 1
    sites, refusals = [], []
    chain: list[str] = []
    last = -1

    def close() -> None:
        if not chain:
            return
        name, maker = chain[-1], modules[chain[0]]
        call = next(made for made in coupling.calls if made.module == name)
        residual = [path for path in _parents(name) if is_new_layer(modules[path])]
        if residual:
            return  # inside a layer that was added before: its wrapper is a site already
        if call.result in coupling.results:
            refusals.append(Refusal(name, "a layer behind the network's output would change what it returns"))
        elif any(isinstance(modules[path], _CLOSED) for path in ("", *_parents(name))):
            refusals.append(Refusal(name, "the torch module around it reads its weights directly"))
        elif counts[name] > 1:
            refusals.append(Refusal(name, f"it runs {counts[name]} times, so a layer behind it would too"))
        elif isinstance(maker, _MAKERS):
            dimensions = 0 if isinstance(maker, nn.Linear) else len(maker.kernel_size)
            shape = call.shape[2:] if dimensions else call.shape[1:-1]
            layout = next(made for made in coupling.calls if made.module == chain[0]).channels
            activation = next((modules[part] for part in chain if isinstance(modules[part], _ACTIVATIONS)), nn.ReLU())
            normalised = any(isinstance(modules[part], nn.modules.batchnorm._NormBase) for part in chain)
            assert layout is not None
            place = _wrapper(name, modules)
            sites.append(Site(place, dimensions, layout, activation, normalised, math.prod(shape)))

    for made in coupling.calls:
        module = modules[made.module]
        if chain and made.argument == last and isinstance(module, _NORMS + _ACTIVATIONS):
            chain.append(made.module)
        else:
            close()
            chain = [made.module] if isinstance(module, _MAKERS) else []
        last = made.result
    close()
    return sites, list(dict.fromkeys(refusals))


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def _wrapper(name: str, modules: dict[str, nn.Module]) -> str:
    """The sequence that an earlier deepening put around a module, or the module itself."""
    parent, _, leaf = name.rpartition(".")
    around = modules.get(parent)
    if leaf == "0" and around is not None and is_wrapper(around):
        return parent
    return name


class NewLayer(nn.Module):
    """``x + outer(activation(norm(inner(x))))``; traced before it is put into a network."""

    def __init__(self, site: Site, channels: int, width: int) -> None:
        super().__init__()
        if site.dimensions:
            convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[site.dimensions - 1]
            self.inner: nn.Module = convolution(channels, width, 3, padding=1, bias=not site.normalised)
            self.outer: nn.Module = convolution(width, channels, 1, bias=False)
        else:
            self.inner = nn.Linear(channels, width, bias=not site.normalised)
            self.outer = nn.Linear(width, channels, bias=False)
        # A norm over tokens would need its channels in front: linear layers on sequences go without.
        normalised = site.normalised and not site.is_sequence
        self.norm = _NORM_OF[site.dimensions or 1](width) if normalised else nn.Identity()
        self.activation = copy.deepcopy(site.activation)

    def forward(self, x: Tensor) -> Tensor:
        """The input, plus what the layer adds to it."""
        added: Tensor = self.outer(self.activation(self.norm(self.inner(x))))
        return x + added


@dataclass
class Deepening:
    """A layer to be added at a site, of so many neurons.

    ``tensors`` are values for ``inner.weight``, ``inner.bias``, ``outer.weight`` and the norm's, in the channels before
    any widening of the same edit; without ``outer.weight`` the layer is silent.
    """

    site: str
    width: int
    tensors: dict[str, Tensor] = field(default_factory=dict)


def deepen(
    network: nn.Module,
    site: Site,
    deepening: Deepening,
    *,
    plan: WideningPlan | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    averages: Iterable[nn.Module] = (),
) -> str:
    """Put a layer into a network at a site that was found in it, in place; gives its path.

    Its tensors are widened by the ``plan`` of a widening that was carried out since. An optimizer that trains the
    network gets the new parameters, in the group of the network's first one; averages of the network get the same
    layer.
    """
    channels = wider(site.layout, plan.sizes() if plan is not None else {})
    layer = NewLayer(site, channels, deepening.width)
    like = next((p for p in network.parameters() if p.is_floating_point()), torch.zeros(()))
    layer.to(device=like.device, dtype=like.dtype)
    with torch.no_grad():
        layer.outer.weight.zero_()  # type: ignore[operator]
        own = dict([*layer.named_parameters(), *layer.named_buffers()])
        for name, value in deepening.tensors.items():
            own[name].copy_(_widened(name, value.detach(), site, plan))
    traced = torch.fx.symbolic_trace(layer)
    traced.train(network.training)
    averages = [average.module if isinstance(average, AveragedModel) else average for average in averages]
    path = ""
    for module in [network, *averages]:
        added = traced if module is network else copy.deepcopy(traced)
        path = _insert(module, site.name, added)
    if optimizer is not None:
        first = next(iter(network.parameters()))
        group = next((g for g in optimizer.param_groups if any(p is first for p in g["params"])), None)
        (group or optimizer.param_groups[0])["params"].extend(traced.parameters())
    return path


def _widened(name: str, value: Tensor, site: Site, plan: WideningPlan | None) -> Tensor:
    if plan is None or name not in ("inner.weight", "outer.weight"):
        return value
    divide = name == "inner.weight"  # it sums over the site's channels, so that copies share its weight
    axes = plan.axes(-1.0 if divide else 0.0)
    return spread(value, {1 if divide else 0: expand_layout(site.layout, axes)})


def _insert(network: nn.Module, name: str, layer: nn.Module) -> str:
    parent_name, _, leaf = name.rpartition(".")
    parent = network.get_submodule(parent_name)
    old = parent._modules[leaf]
    assert old is not None
    if isinstance(old, nn.Sequential) and is_wrapper(old):
        old.append(layer)
    else:
        parent._modules[leaf] = nn.Sequential(old, layer)
        parent._modules[leaf].train(old.training)  # type: ignore[union-attr]
    wrapper = parent._modules[leaf]
    assert isinstance(wrapper, nn.Sequential)
    return f"{name}.{len(wrapper) - 1}"


def unwrapped(name: str, sites: Sequence[str]) -> str:
    """The name that a tensor had before layers were put behind these sites for the first time."""
    for site in sites:
        if name.startswith(f"{site}.0."):
            return f"{site}.{name[len(site) + 3 :]}"
    return name
