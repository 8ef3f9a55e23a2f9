"""What the trace knows of a tensor: for each dimension its layout, and the weight that it comes from.

The rules (``rules.py``, ``moves.py``) read and write labels through a ``Ledger``, which also remembers in which *role*
each dimension of each weight was used. The roles decide what a growth writes into it:

- ``out``: the dimension makes new channels (rows of a linear layer); a split copies it, a new neuron fills it.
- ``in``: the dimension is summed over (columns of a linear layer); a split copies it and divides by the copies.
- ``follow``: the dimension goes along with channels that others make (batch norm, bias, depthwise filters).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from ramet.tracing.axes import Axis, Layout, fix, fixed, layout_size, normal, single, unify
from ramet.tracing.norms import Norms

Origin = tuple[str, int]
"""A dimension of a named parameter or buffer."""


@dataclass(frozen=True)
class Dim:
    """One dimension of a traced tensor: its layout, and the weight's dimension it is a view of, if any."""

    layout: Layout
    origin: Origin | None = None

    @property
    def size(self) -> int:
        """The number of entries."""
        return layout_size(self.layout)


Label = list[Dim]
"""One entry for each dimension of a tensor."""


@dataclass(frozen=True)
class Work:
    """Multiplications of one operation: a constant times the sizes of the dimensions that it runs over."""

    module: str
    constant: int
    dims: tuple[Layout, ...]


@dataclass(frozen=True)
class Hint:
    """A module whose forward mentions the size of an axis as a number, for example in a reshape."""

    module: str
    layout: Layout


@dataclass
class Ledger:
    """All that a trace writes down.

    Attributes:
        labels: what is known of each tensor, by identity; the tensors are kept alive so that identities stay unique.
        roles: in which ways each dimension of each weight was used.
        works: the multiplications, for counting FLOPs at any width.
        counts: attributes of modules that are the size of a layout (``groups`` of a depthwise convolution).
        hints: where sizes are written into a forward.
        starts: which filling a new channel of a ``follow`` dimension starts with.
        changing: the tensors that depend on inputs or weights, by identity; what others hold is the same in every run.
        norms: those over channels, as far as the trace has seen them.
        module: the innermost module that runs now, by name.
    """

    labels: dict[int, tuple[Tensor, Label]] = field(default_factory=dict)
    roles: dict[Origin, set[str]] = field(default_factory=dict)
    works: list[Work] = field(default_factory=list)
    counts: list[tuple[str, str, Layout]] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    starts: dict[Origin, str] = field(default_factory=dict)
    weights: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = field(default_factory=dict)
    changing: set[int] = field(default_factory=set)
    norms: Norms = field(default_factory=Norms)
    module: str = ""
    _entered: set[int] = field(default_factory=set)

    @property
    def place(self) -> str:
        """The module that runs now, in words."""
        return self.module or "the network's own forward"

    def enter(self, name: str, tensor: Tensor, layouts: Sequence[Layout] | None = None) -> None:
        """Register a named parameter or buffer, each dimension an axis of its own."""
        layouts = layouts or [single(Axis(size)) for size in tensor.shape]
        self.labels[id(tensor)] = (tensor, [Dim(layout, (name, i)) for i, layout in enumerate(layouts)])
        self.changing.add(id(tensor))
        self._entered.add(id(tensor))
        if tensor.numel():
            self.weights[tensor.data_ptr(), tuple(tensor.shape), tensor.stride()] = id(tensor)

    def read(self, tensor: Tensor) -> Label:
        """The label of a tensor; one that the trace did not see being made may not change size."""
        if id(tensor) not in self.labels:
            weight = self._weight(tensor)
            if weight is not None:
                return self.labels[weight][1]
            reason = f"a tensor in {self.place} that was not made by a traced operation"
            self.write(tensor, [Dim(fixed(size, reason)) for size in tensor.shape])
        return self.labels[id(tensor)][1]

    def is_weight(self, identity: int) -> bool:
        """Whether the tensor of this identity is a parameter or buffer itself."""
        return identity in self._entered

    def depends(self, tensors: Iterable[Tensor]) -> bool:
        """Whether one of these tensors depends on the inputs or the weights."""
        return any(id(tensor) in self.changing or self._weight(tensor) is not None for tensor in tensors)

    def _weight(self, tensor: Tensor) -> int | None:
        """The identity of the weight whose memory this is: ``weight.data`` is a new object over the same memory."""
        key = (tensor.data_ptr() if tensor.numel() else 0, tuple(tensor.shape), tensor.stride())
        return self.weights.get(key)

    def write(self, tensor: Tensor, label: Label) -> None:
        """Set the label of a result."""
        assert tuple(dim.size for dim in label) == tuple(tensor.shape), (label, tensor.shape)
        self.labels[id(tensor)] = (tensor, label)

    def use(self, dim: Dim, role: str, start: str = "mean") -> None:
        """Note a role of a weight's dimension; nothing for an activation's."""
        if dim.origin is not None:
            self.roles.setdefault(dim.origin, set()).add(role)
            if role == "follow":
                self.starts.setdefault(dim.origin, start)

    def tie(self, first: Dim, second: Dim) -> None:
        """Two dimensions that an operation pairs entry by entry; broadcasting a single entry fixes it."""
        if first.size == second.size:
            unify(first.layout, second.layout)
        else:
            fix((first if first.size == 1 else second).layout, f"its only channel is broadcast in {self.place}")

    def forbid(self, dims: Sequence[Dim], reason: str) -> None:
        """Fix dimensions, with the place added to the reason."""
        for dim in dims:
            fix(dim.layout, f"{reason} in {self.place}")

    def hint(self, dims: Sequence[Dim]) -> None:
        """Note that the module's forward may hold the sizes of these dimensions as numbers."""
        for dim in dims:
            if any(axis.reason is None for term in normal(dim.layout) for axis in term):
                self.hints.append(Hint(self.module, dim.layout))
