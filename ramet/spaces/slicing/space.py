"""A space of sizes: the slices of a user's own trained network, all on its weights."""

from __future__ import annotations

import copy
import fnmatch
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError, told
from ramet.spaces.base import Arch, Space, Supernet
from ramet.spaces.own.module_space import fingerprint
from ramet.spaces.slicing.cuts import Setting, SliceCut
from ramet.spaces.slicing.ordering import by_importance, magnitudes, reorder, taylor
from ramet.spaces.slicing.sandwich import Sandwich
from ramet.spaces.slicing.units import check_example, find_kernels, find_removable, find_units, is_heads, is_inner
from ramet.tracing.attention import open_attention
from ramet.tracing.coupling import Coupling, Group, Refusal
from ramet.tracing.probing import Probe, copy_network, largest_change
from ramet.training.losses import cross_entropy
from ramet.training.outputs import output_of

Shares = Sequence[float] | Mapping[str, Sequence[float]]
"""The shares that may be kept, of all alike or by a pattern of names."""

NUM_CACHED = 256
"""Sizes whose cuts are kept."""


@dataclass(frozen=True)
class Dial:
    """One digit of an architecture: its name, the words for its options, and what each of them keeps."""

    name: str
    labels: tuple[str, ...]
    settings: tuple[Setting, ...]


class ElasticSpace(Space):
    """The sizes of one trained network; ``elastic`` finds them.

    An architecture reads ``width=0.5,depth=1``; the last one is the whole network. Supernets begin with the trained
    weights, and their children are slices of the supernet's own.

    Attributes:
        module: the network, its units in the order of their importance; nothing trains it.
        dials: what can be turned.
        refusals: what was found and cannot be left out, with the reason.
        sandwich: how sizes are trained together.
    """

    inherits: ClassVar[bool] = True

    def __init__(
        self,
        module: nn.Module,
        coupling: Coupling,
        dials: Sequence[Dial],
        *,
        takes_text: bool = False,
        refusals: Sequence[Refusal] = (),
        sandwich: Sandwich | None = None,
    ) -> None:
        super().__init__([len(dial.labels) for dial in dials])
        self.module, self.coupling, self.dials = module, coupling, tuple(dials)
        self.takes_text, self.refusals = takes_text, tuple(refusals)
        self.sandwich = sandwich or Sandwich()
        self.source: tuple[str, dict[str, Any]] | None = None
        self._cut = lru_cache(NUM_CACHED)(self._make_cut)

    @property
    def whole(self) -> Arch:
        """The network as it is."""
        return tuple(count - 1 for count in self.num_options)

    @property
    def smallest(self) -> Arch:
        """The size with the least of everything."""
        return (0,) * len(self.num_options)

    def setting(self, arch: Arch) -> Setting:
        """What a size keeps."""
        setting = Setting()
        for dial, choice in zip(self.dials, self.check(arch), strict=True):
            setting = setting.joined(dial.settings[choice])
        return setting

    def cut(self, arch: Arch) -> SliceCut:
        """What a size takes of the network's tensors."""
        return self._cut(arch)

    def _make_cut(self, arch: Arch) -> SliceCut:
        return SliceCut(self.module, self.coupling, self.setting(arch))

    def supernet(self, in_channels: int, num_classes: int) -> ElasticSupernet:
        """A copy of the network with its trained weights; whether it suits the data is for the caller to know."""
        return ElasticSupernet(self, copy_network(self.module).train())

    def name(self, arch: Arch) -> str:
        """The size as ``dial=option,dial=option``."""
        return ",".join(f"{d.name}={d.labels[c]}" for d, c in zip(self.dials, self.check(arch), strict=True))

    @property
    def option_names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The dials and their labels."""
        return tuple((dial.name, tuple(dial.labels)) for dial in self.dials)

    def parse(self, text: str) -> Arch:
        """The size of a notation; every dial must be there, in order."""
        parts = [part.rpartition("=") for part in text.split(",")]
        known = len(parts) == len(self.dials) and all(
            name == dial.name and label in dial.labels for (name, _, label), dial in zip(parts, self.dials, strict=True)
        )
        if not known:
            shape = ",".join(f"{dial.name}={'|'.join(dial.labels)}" for dial in self.dials)
            raise ConfigError(f"a size of this network reads {shape}, but got {text!r}.")
        return tuple(dial.labels.index(label) for (_, _, label), dial in zip(parts, self.dials, strict=True))

    def describe(self) -> dict[str, Any]:
        """What identifies this space: the function that makes it, its dials, and a digest of network and weights."""
        reference, arguments = self.source or (None, {})
        return {
            "kind": "elastic",
            "factory": reference,
            "arguments": arguments,
            "dials": [[dial.name, list(dial.labels)] for dial in self.dials],
            "sandwich": [self.sandwich.distillation, self.sandwich.temperature, self.sandwich.weight],
            "fingerprint": self.fingerprint,
        }

    @property
    def fingerprint(self) -> str:
        """A digest of the network, its code and its weights."""
        digest = hashlib.sha256(fingerprint(self.module).encode())
        for name, tensor in sorted(self.module.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def example(self, num_samples: int, input_shape: Sequence[int], num_classes: int) -> Tensor:
        """Random images, or for language models random tokens, shape [samples, *input_shape]."""
        if not self.takes_text:
            return super().example(num_samples, input_shape, num_classes)
        return torch.randint(num_classes, (num_samples, *input_shape))

    def __reduce__(self) -> tuple[Any, ...]:
        # A space from a file travels as the reference to its function: another process may not have the file imported.
        if self.source is not None:
            return _make_again, self.source
        return _restore, (self.module, self.coupling, self.dials, self.takes_text, self.refusals, self.sandwich)


def _restore(
    module: nn.Module,
    coupling: Coupling,
    dials: Sequence[Dial],
    takes_text: bool,
    refusals: Sequence[Refusal],
    sandwich: Sandwich,
) -> ElasticSpace:
    return ElasticSpace(module, coupling, dials, takes_text=takes_text, refusals=refusals, sandwich=sandwich)


def _make_again(reference: str, arguments: dict[str, Any]) -> Space:
    from ramet.spaces.making import make_space

    return make_space(reference, **arguments)


class ElasticSupernet(Supernet):
    """The network whose slices the children are.

    In training mode every batch norm's running statistics are written where the slice lies, so that they belong to the
    size that ran last; re-estimate them for the size that is measured or taken out (``reestimated_batch_norm``).
    """

    def __init__(self, space: ElasticSpace, module: nn.Module) -> None:
        super().__init__()
        self.space = space
        self.stages = nn.ModuleList([_Sliced(space, module)])

    @property
    def module(self) -> nn.Module:
        """The whole network."""
        return self.stages[0].get_submodule("module")

    def child(self, arch: Arch) -> nn.Module:
        """A size as a module of its own, of the same classes, with a copy of its slices."""
        cut = self.space.cut(self.space.check(arch))
        child = copy.deepcopy(self.module)
        cut.carve(child)
        return child

    def loss(self, x: Tensor, y: Tensor, arch: Arch, of_outputs: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """A step's loss by the sandwich rule: of the whole, the smallest size, and the one that was asked for."""
        space = self.space
        return space.sandwich.loss(self, x, y, (space.whole, space.smallest, space.check(arch)), of_outputs)


class _Sliced(nn.Module):
    def __init__(self, space: ElasticSpace, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self._space = space

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        with self._space.cut(self._space.check(arch)).applied(self.module):
            return output_of(self.module(x))


def elastic(
    module: nn.Module,
    example: Tensor,
    *,
    widths: Shares | None = None,
    depths: Shares | None = None,
    heads: Shares | None = None,
    kernels: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
    apart: bool = False,
    data: tuple[Tensor, Tensor] | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
    sandwich: Sandwich | None = None,
) -> ElasticSpace:
    """The space of the sizes of a trained network: slices of its weights, the most important units first.

    Which tensors a channel, a hidden unit or a head runs through is read from one run on the example, as for growth.
    The module itself stays as it is.

    Args:
        module: the trained network.
        example: a batch of inputs that it takes.
        widths: shares of channels and hidden units that may be kept, such as ``(0.25, 0.5, 1)``, all turned together;
            or shares by a pattern of group names, ``{"blocks.*": (0.5, 1)}``, each pattern a dial of its own.
        depths: the same of residual blocks that keep the shape; 0 leaves out all of them.
        heads: the same of attention heads.
        kernels: sides of convolutions' kernels, whose centres are kept, such as ``(3, 5)``.
        apart: whether every group, list of blocks and convolution is a dial of its own.
        data: labelled inputs by which importance is measured: by what the loss would lose, to first order for units and
            by leaving them out for blocks. Without, by the size of weights, and by how much a block changes.
        loss: of outputs and targets, for that.
        sandwich: how sizes are trained together.

    Returns:
        The space; its ``refusals`` name what cannot be left out.

    Raises:
        ConfigError: nothing was asked for, shares are out of range or leave out the whole, the network does not run,
            or nothing of what was asked for can be left out.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> space = elastic(net, torch.randn(2, 4), widths=(0.25, 0.5, 1))
        >>> [space.name(arch) for arch in space]
        ['width=0.25', 'width=0.5', 'width=1']
        >>> space.supernet(4, 3).child((0,))
        Sequential(
          (0): Linear(in_features=4, out_features=2, bias=True)
          (1): ReLU()
          (2): Linear(in_features=2, out_features=3, bias=True)
        )
    """
    if not isinstance(module, nn.Module):
        raise ConfigError(f"an elastic space is made of an nn.Module, but got {type(module).__name__}.")
    if widths is None and depths is None and heads is None and kernels is None:
        raise ConfigError("an elastic space needs widths, depths, heads or kernels, but got none of them.")
    example = check_example(example)
    network = copy_network(module)
    if widths is not None or heads is not None:
        open_attention(network)
    coupling, probe = find_units(network, example)
    refusals = list(coupling.refusals)
    groups = {name: group for name, group in coupling.groups.items() if not is_inner(coupling, group)}
    of_heads = {name: group for name, group in groups.items() if is_heads(coupling, group)}
    of_widths = {name: group for name, group in groups.items() if name not in of_heads}
    dials: list[Dial] = []
    chosen: dict[str, Group] = {}
    for kind, shares, there in (("width", widths, of_widths), ("head", heads, of_heads)):
        if shares is not None:
            for name, part, values in _spoken(kind, shares, list(there), apart, refusals):
                units = [Setting({own: _kept(there[own].size, share) for own in part}) for share in values]
                dials.append(_dial(kind, name, values, units))
                chosen |= {own: there[own] for own in part}
    if depths is not None:
        blocks, others, changes = find_removable(network, coupling, probe)
        refusals += others
        if data is not None:
            changes = _losses_without(network, coupling, [b for names in blocks.values() for b in names], data, loss)
        for name, part, values in _spoken("depth", depths, list(blocks), apart, others):
            dials.append(_dial("depth", name, values, [_shallower(blocks, part, changes, share) for share in values]))
    if kernels is not None:
        sizes = find_kernels(network)
        for name, part, values in _spoken("kernel", kernels, list(sizes), apart, []):
            settings = [Setting(kernels={own: min(int(size), sizes[own]) for own in part}) for size in values]
            if max(values) < max(sizes[own] for own in part):
                raise ConfigError(
                    f"kernels must have the whole, {max(sizes[own] for own in part)}, among them, but got {values}."
                )
            dials.append(_dial("kernel", name, values, settings))
    scores = (
        {name: magnitudes(network, coupling, group) for name, group in chosen.items()}
        if data is None
        else taylor(network, coupling, list(chosen.values()), *data, loss)
    )
    reorder(network, coupling, {name: by_importance(scores[name]) for name in chosen})
    space = ElasticSpace(
        network.eval(),
        coupling,
        dials,
        takes_text=not example.is_floating_point(),
        refusals=refusals,
        sandwich=sandwich,
    )
    _check_sizes(space, probe, example)
    return space


def _check_sizes(space: ElasticSpace, probe: Probe, example: Tensor) -> None:
    """The order must not change the function, and the smallest size must run and be what its child is."""
    with_order = Probe(space.module, example)
    if largest_change(probe.before, with_order.before) > probe.tolerance:
        raise ConfigError("the order of units must not change the outputs, but it does: leave out one of the groups.")
    for arch in dict.fromkeys((space.smallest, space.whole)):
        lent, carved = copy_network(with_order.network), copy_network(with_order.network)
        try:
            with space.cut(arch).applied(lent):
                expected = with_order.outputs(lent)
            space.cut(arch).carve(carved)
            change = largest_change(expected, with_order.outputs(carved))
        except Exception as error:
            raise ConfigError(f"every size must run, but {space.name(arch)} does not: {told(error)}") from error
        if change > with_order.tolerance:
            raise ConfigError(f"a size must be what its child is, but {space.name(arch)} differs by {change:.1e}.")


def _spoken(
    kind: str, shares: Any, names: list[str], apart: bool, refusals: Sequence[Refusal]
) -> list[tuple[str, list[str], list[float]]]:
    """The dials that were asked for: a name, what it turns, and the rising values; or a ``ConfigError``."""
    word = {"width": "channels or hidden units", "head": "attention heads", "depth": "residual blocks", "kernel": "odd kernels with padding for the same size"}[kind]  # fmt: skip  # noqa: E501
    if not names:
        telling = [refusal for refusal in refusals if "'s output" not in refusal.reason] or list(refusals)
        reason = f": {telling[0].name}: {telling[0].reason}" if telling else ""
        raise ConfigError(f"{kind}s need {word} that can be left out, but the network has none{reason}.")
    given = shares if isinstance(shares, Mapping) else {"*": shares}
    dials: list[tuple[str, list[str], list[float]]] = []
    taken: set[str] = set()
    for pattern, values in given.items():
        checked = _check_values(kind, values)
        part = [name for name in names if fnmatch.fnmatchcase(name, pattern) and name not in taken]
        if not part:
            raise ConfigError(f"a pattern of {kind}s must fit one of {', '.join(names)}, but got {pattern!r}.")
        taken |= set(part)
        if apart:
            dials += [(f"{kind}:{name}", [name], checked) for name in part]
        else:
            dials.append((kind if pattern == "*" else f"{kind}:{pattern}", part, checked))
    return dials


def _check_values(kind: str, values: object) -> list[float]:
    whole = kind == "kernel"
    rule = "odd sides" if whole else "shares in [0, 1]" if kind == "depth" else "shares in (0, 1]"
    is_list = isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 0
    numbers = list(values) if is_list else []  # type: ignore[call-overload]
    if whole:
        right = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 and n % 2 for n in numbers)
    else:
        right = all(
            isinstance(n, int | float) and not isinstance(n, bool) and (n >= 0 if kind == "depth" else n > 0) and n <= 1
            for n in numbers
        )
    if not numbers or not right:
        raise ConfigError(f"{kind}s are {rule}, but got {values!r}.")
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"{kind}s must differ from each other, but got {values!r}.")
    if not whole and max(numbers) != 1:
        raise ConfigError(f"{kind}s must have the whole, 1, among them, but got {values!r}.")
    return sorted(numbers)


def _kept(count: int, share: float) -> int:
    return max(1, math.ceil(share * count - 1e-9))


def _dial(kind: str, name: str, values: Sequence[float], settings: Sequence[Setting]) -> Dial:
    for (one, first), (other, second) in zip(
        zip(values, settings, strict=True), list(zip(values, settings, strict=True))[1:], strict=False
    ):
        if first == second:
            raise ConfigError(f"{kind}s must give different sizes, but {one:g} and {other:g} keep the same of {name}.")
    return Dial(name, tuple(f"{value:g}" for value in values), tuple(settings))


def _shallower(
    blocks: Mapping[str, list[str]], part: Sequence[str], changes: Mapping[str, float], share: float
) -> Setting:
    """Leave out the blocks of each list that change least."""
    skipped: list[str] = []
    for holder in part:
        names = sorted(blocks[holder], key=lambda name: -changes[name])
        skipped += names[math.ceil(share * len(names) - 1e-9) :]
    return Setting(skipped=frozenset(skipped))


def _losses_without(
    network: nn.Module,
    coupling: Coupling,
    blocks: Sequence[str],
    data: tuple[Tensor, Tensor],
    loss: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, float]:
    """The loss when each block alone is left out."""
    x, y = data
    network = copy_network(network).eval()
    found = {}
    with torch.no_grad():
        for block in blocks:
            with SliceCut(network, coupling, Setting(skipped=frozenset({block}))).applied(network):
                found[block] = float(loss(output_of(network(x)), y))
    return found
