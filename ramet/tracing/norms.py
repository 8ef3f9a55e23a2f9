"""Norms over channels: layer norm, and root-mean-square norm, also where a forward writes it out.

Such a norm takes its statistics over all channels, and yet channels can be added without changing what it gives (Wang
et al., *LEMON: lossless model expansion*, 2023). Let C channels become C'.

- Root mean square: new channels are zero. The sum of squares stays, so its mean falls by C / C'; with the norm's
  epsilon times C / C' and its weights times sqrt(C / C') the old channels are as before, and the new ones are zero.
- Layer norm: new channels are the mean of the old ones. The mean stays and the sum of squared deviations does, so the
  same two factors do; behind the norm the new channels are zero again.

So whatever reads a new channel behind its norm may have any weight. What makes channels is linear, and writes zero, or
the mean, if a new row of its weights is zero, or the mean of the old rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ramet.tracing.axes import Layout, fix, normal

if TYPE_CHECKING:
    from ramet.tracing.coupling import Slot
    from ramet.tracing.labels import Ledger

aten = torch.ops.aten

Layouts = Mapping[str, tuple[Layout, ...]]
"""For each weight, what its dimensions are made of."""

_CONSUMERS = frozenset({aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.mv, aten.native_layer_norm, aten.embedding})
"""What makes channels of its own, so that its results are no longer those of a norm."""


@dataclass(eq=False)
class Norm:
    """A norm whose statistics run over channels that may grow.

    Attributes:
        module: what runs it, and holds its epsilon.
        centred: whether the mean is taken off first, as a layer norm does.
        layout: what its statistics run over.
        epsilon: what is added to the mean of squares.
        attribute: the module's name for epsilon.
        weights: names of the tensors that its result is multiplied with, each with what is added to it before.
        biases: of those that are added then.
        problem: why channels cannot be added, if they cannot.
        is_whole: whether all its steps were seen; a mean of squares alone is no norm.
    """

    module: str
    centred: bool
    layout: Layout
    epsilon: float | None = None
    attribute: str = ""
    weights: dict[str, float] = field(default_factory=dict)
    biases: set[str] = field(default_factory=set)
    problem: str = ""
    is_whole: bool = False

    def shares_epsilon(self, other: Norm) -> bool:
        """Whether another norm, over other channels, reads its epsilon from the same place."""
        same = (self.module, self.attribute) == (other.module, other.attribute)
        return same and other.is_whole and self.layout != other.layout


@dataclass
class Norms:
    """The norms of a trace, and how far each of those that a forward writes out has come.

    Attributes:
        found: all of them, those that are not whole too.
        behind: identities of the tensors behind a layer norm, up to the next weight that makes channels.
        alone: of those among them to which nothing else of their shape was added.
        scaling: dimensions of weights that channels are multiplied with one by one, or otherwise changed.
        raw: dimensions of weights that sum over channels which do not come from a layer norm.
    """

    found: list[Norm] = field(default_factory=list)
    behind: set[int] = field(default_factory=set)
    alone: set[int] = field(default_factory=set)
    scaling: set[tuple[str, int]] = field(default_factory=set)
    raw: set[tuple[str, int]] = field(default_factory=set)
    _squares: dict[int, int] = field(default_factory=dict)
    _stages: dict[int, tuple[str, Norm, int]] = field(default_factory=dict)
    _casts: dict[int, int] = field(default_factory=dict)
    _sums: dict[int, tuple[int, float]] = field(default_factory=dict)  # a tensor plus a number

    def begin(self, ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> bool:
        """Whether a reduction is the mean of squares over one dimension, which a norm may be made of."""
        squared, dims = args["self"], args.get("dim")
        is_mean = op.overloadpacket is aten.mean and id(squared) in self._squares
        if not is_mean or not isinstance(dims, list) or len(dims) != 1 or not args.get("keepdim"):
            return False
        norm = Norm(ledger.module, False, ledger.read(squared)[dims[0]].layout)
        self.found.append(norm)
        self._stages[id(result)] = ("mean", norm, self._squares[id(squared)])
        return True

    def add(self, ledger: Ledger, args: dict[str, Any], centred: bool) -> None:
        """A norm that is one operation."""
        (dim,) = ledger.read(args["input"])[-1:]
        norm = Norm(ledger.module, centred, dim.layout, args["eps"], is_whole=True)
        if args.get("weight") is not None:
            self._weigh(ledger, norm, args["weight"])
        if args.get("bias") is not None:
            (own,) = ledger.read(args["bias"])
            norm.biases |= {own.origin[0]} if own.origin is not None else set()
        if centred and id(args["input"]) in self.behind:
            norm.problem = (
                "it normalises what another layer norm made, so that new channels would not be the mean of the others"
            )
        self.found.append(norm)

    def reads(self, origin: tuple[str, int] | None, tensor: Tensor) -> None:
        """A weight's dimension is summed over with the channels of a tensor."""
        if origin is not None and id(tensor) not in self.alone:
            self.raw.add(origin)

    def notice(self, ledger: Ledger, op: Any, args: dict[str, Any], result: Any, tensors: list[Tensor]) -> None:
        """Follow one operation, whose arguments hold ``tensors``: a step of a norm, or the end of one."""
        packet = getattr(aten, op.overloadpacket.__name__.rstrip("_"), op.overloadpacket)
        if not isinstance(result, Tensor):
            result = result[0] if isinstance(result, list | tuple) and result else None
        if not isinstance(result, Tensor):
            return
        if packet is aten.native_layer_norm:
            self.behind.add(id(result))
            self.alone.add(id(result))
        elif packet is aten.convolution:
            if args["groups"] > 1 and args["weight"].shape[1] == 1 and id(args["input"]) in self.behind:
                self.behind.add(id(result))
        elif packet not in _CONSUMERS and any(id(tensor) in self.behind for tensor in tensors):
            self.behind.add(id(result))
            known = [id(tensor) in self.alone for tensor in tensors if tensor.shape == result.shape]
            if all(known) if known else any(id(tensor) in self.alone for tensor in tensors):
                self.alone.add(id(result))
        exponent = args.get("exponent")
        if packet is aten._to_copy:
            self._cast(args["self"], result)
        elif (packet is aten.pow and isinstance(exponent, int | float) and exponent == 2) or (
            packet is aten.mul and len(tensors) == 2 and tensors[0] is tensors[1]
        ):
            self._squares[id(result)] = self._root(tensors[0])
        elif packet is aten.add and len(tensors) == 1 and ledger.is_weight(self._root(tensors[0])):
            number = args["other"] if isinstance(args["other"], int | float) else math.nan
            self._sums[id(result)] = (self._root(tensors[0]), float(number) * float(args.get("alpha", 1)))
        elif any(id(tensor) in self._stages for tensor in tensors):
            self._advance(ledger, packet, args, result, tensors)

    def _root(self, tensor: Tensor) -> int:
        return self._casts.get(id(tensor), id(tensor))

    def _cast(self, tensor: Tensor, result: Tensor) -> None:
        self._casts[id(result)] = self._root(tensor)
        if id(tensor) in self._squares:
            self._squares[id(result)] = self._squares[id(tensor)]
        if id(tensor) in self._stages:
            self._stages[id(result)] = self._stages[id(tensor)]

    def _advance(
        self, ledger: Ledger, packet: Any, args: dict[str, Any], result: Tensor, tensors: list[Tensor]
    ) -> None:
        """The next step of a norm: mean, plus epsilon, reciprocal root, times the source, times weights."""
        stepping = next(tensor for tensor in tensors if id(tensor) in self._stages)
        stage, norm, source = self._stages[id(stepping)]
        others = [tensor for tensor in tensors if tensor is not stepping]
        other = others[0] if len(others) == 1 else None
        if stage == "mean" and packet is aten.add and not others and isinstance(args.get("other"), float):
            norm.epsilon = args["other"]
            self._stages[id(result)] = ("shifted", norm, source)
        elif stage == "shifted" and packet in (aten.rsqrt, aten.sqrt) and not others:
            self._stages[id(result)] = (packet.__name__, norm, source)
        elif (
            other is not None
            and self._root(other) == source
            and ((stage == "rsqrt" and packet is aten.mul) or (stage == "sqrt" and packet is aten.div))
        ):
            self._stages[id(result)] = ("done", norm, source)
            norm.is_whole = True
        elif stage == "done":
            self._scale(ledger, norm, packet, other)
        else:
            norm.problem = "its mean of squares is used otherwise too"

    def _scale(self, ledger: Ledger, norm: Norm, packet: Any, other: Tensor | None) -> None:
        """What becomes of the norm's result: multiplied with its weights, or read."""
        if packet is aten.mul and other is not None and other.dim():
            self._weigh(ledger, norm, other)

    def _weigh(self, ledger: Ledger, norm: Norm, scale: Tensor) -> None:
        """Note the weights of a norm: a tensor of the network, a copy of one in another precision, or a number more."""
        origin = ledger.read(scale)[-1].origin
        weight, number = self._sums.get(self._root(scale), (self._root(scale), 0.0))
        if origin is not None and ledger.is_weight(weight):
            norm.weights[origin[0]] = number
        elif origin is not None:
            norm.problem = f"its scale is computed from {origin[0]}"

    def settle(self, network: nn.Module) -> list[Norm]:
        """The norms that channels can be added to; what the others run over is fixed."""
        usable = []
        for norm in self.found:
            norm.layout = normal(norm.layout)
            norm.attribute = _epsilon_of(network.get_submodule(norm.module), norm.epsilon)
        for norm in self.found:
            place = norm.module or "the network's own forward"
            kind = "a layer norm" if norm.centred else "a root-mean-square norm"
            if not norm.is_whole:
                fix(norm.layout, f"mean runs over it in {place}")
                continue
            if norm.problem:
                problem = norm.problem
            elif not norm.weights:
                problem = "it has no weights to make up for more channels"
            elif not norm.attribute:
                problem = f"no number of the module is its epsilon, {norm.epsilon:g}"
            elif norm.centred and len(norm.layout) > 1:
                problem = "it runs over a concatenation, whose pieces have means of their own"
            elif any(norm.shares_epsilon(other) for other in self.found):
                problem = "another norm of the module has the same epsilon"
            else:
                usable.append(norm)
                continue
            fix(norm.layout, f"{kind} takes its statistics over these channels, and {problem}, in {place}")
        return usable


def problem_of(norms: Sequence[Norm], slots: Iterable[Slot], layouts: Layouts, trace: Norms) -> str | None:
    """Why channels that norms run over cannot be added, from how all weights use them; none if they can be."""
    if len({norm.centred for norm in norms}) > 1:
        return "a layer norm and a root-mean-square norm run over these channels, and no new one can be right for both"
    if not norms[0].centred:
        return None  # zero stays zero, whatever it is multiplied with; trials show the rest
    if len({norm.layout for norm in norms}) > 1:
        return "layer norms over different sets of these channels need different means"
    own = {name for norm in norms for name in (*norm.weights, *norm.biases)}
    for slot in slots:
        place = (slot.tensor, slot.dim)
        if place in trace.raw:
            return f"{slot.tensor} reads these channels without a layer norm in front, and new ones are not zero there"
        if slot.role == "in" or slot.tensor in own:
            continue
        if layouts[slot.tensor][slot.dim] != norms[0].layout:
            return f"{slot.tensor} holds these channels among others, and a layer norm needs their mean"
        if place in trace.scaling:
            return f"{slot.tensor} treats these channels one by one, and a layer norm needs their mean"
    return None


def start_of(tensor: str, norms: Sequence[Norm]) -> str:
    """What a new channel starts with in a weight that makes it or goes along: the mean of the others, or zero."""
    if any(tensor in norm.weights for norm in norms):
        return "mean"
    return "mean" if norms[0].centred and not any(tensor in norm.biases for norm in norms) else "zero"


def _epsilon_of(module: nn.Module, value: float | None) -> str:
    """The name under which a module holds its epsilon, or nothing; torch's own has none for the smallest number."""
    if isinstance(module, nn.RMSNorm) and module.eps is None:
        return "eps"
    if value is None:
        return ""
    # Torch hands epsilon on in the precision of the activations.
    names = [
        n for n, held in vars(module).items() if isinstance(held, float) and math.isclose(held, value, rel_tol=1e-6)
    ]
    return next((name for name in names if "eps" in name), names[0] if names else "")
