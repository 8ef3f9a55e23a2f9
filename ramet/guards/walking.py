"""All layers and parameters of a module, by name: walked once, and again when the module has changed."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from ramet.guards.names import plain_names, require_module, unwrapped

Layers = list[tuple[str, nn.Module]]
"""Modules with the prefix of their parameters."""
Named = list[tuple[str, nn.Parameter]]
"""Parameters by plain name; one that is used by several layers has several."""


class Walk:
    """The layers and parameters of the module that was walked last.

    A supernet has hundreds of modules, and is looked at in every step. To see that nothing in it has changed takes a
    quarter of the time of making all names anew, which was a tenth of what a projection by mean inputs cost.

    >>> network, walk = nn.Sequential(nn.Linear(2, 3)), Walk()
    >>> [name for name, _ in walk.over(network)[1]]
    ['0.weight', '0.bias']
    >>> network.append(nn.Linear(3, 1, bias=False))[1] is walk.over(network)[0][-1][1]
    True
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Let go of the module."""
        self._layers: Layers = []
        self._named: Named = []
        self._inside: list[tuple[nn.Module, dict[str, nn.Module | None], list[str], list[int]]] = []

    def __reduce__(self) -> tuple[type[Walk], tuple[()]]:
        return Walk, ()  # a guard that is copied, or sent to a worker, does not take the network along

    def over(self, module: nn.Module) -> tuple[Layers, Named]:
        """The layers of a module as it is, and the parameters of what is inside its wrappers."""
        if not self._layers or self._layers[0][1] is not module or not self._is_unchanged():
            self.forget()
            layers = layers_of(module)
            named = named_of(module, layers)
            if not _names_its_own(unwrapped(module)):
                return layers, named
            self._layers, self._named = layers, named
            self._inside = [
                (layer, dict(layer._modules), list(layer._parameters), [id(p) for p in layer._parameters.values()])
                for _, layer in layers
            ]
        return self._layers, self._named

    def _is_unchanged(self) -> bool:
        """Whether every layer has the children and the parameters that it had; those live, so that ids are theirs."""
        for layer, children, names, ids in self._inside:
            if layer._modules != children:
                return False
            own = layer._parameters
            if (own or ids) and (list(own) != names or list(map(id, own.values())) != ids):
                return False
        return True


def _names_its_own(root: nn.Module) -> bool:
    """Whether the names of a module's parameters follow from its layers: it has not another way to name them."""
    kind = type(root)
    return kind.named_parameters is nn.Module.named_parameters and kind.named_modules is nn.Module.named_modules


def named_of(module: nn.Module, layers: Layers) -> Named:
    """All parameters of a module inside its wrappers; ``layers`` are those of the module as it is."""
    root = unwrapped(module)
    if _names_its_own(root):
        own = ((name, layer._parameters) for name, layer in (layers if root is module else layers_of(root)))
        named = [(f"{name}{key}", p) for name, params in own for key, p in params.items() if p is not None]
    else:
        named = list(root.named_parameters(remove_duplicate=False))
    names = plain_names(name for name, _ in named)
    return [(name, param) for name, (_, param) in zip(names, named, strict=True)]


def layers_of(module: nn.Module) -> Layers:
    """All modules in a module, it being the first, each as often as it is there, with the prefix of its parameters.

    Torch's own walk is a generator in a generator for every level, and takes longer than the projections.
    """
    require_module(module)
    found, left = [], [("", module)]
    while left:
        prefix, layer = left.pop()
        found.append((prefix, layer))
        if layer._modules:
            children = [(f"{prefix}{key}.", child) for key, child in layer._modules.items() if child is not None]
            left += reversed(children)
    return found


def signature_of(named: Named) -> list[tuple[str, int, bool, Any]]:
    """What the plan of a module's products follows from: as long as it is the same, so is the plan."""
    return [(name, id(param), param.requires_grad, is_lazy(param) or param.shape) for name, param in named]
