"""Which tensors of a network widen together, read from one run of it.

The network runs once on example inputs. Every ATen operation that it dispatches is seen with its real arguments, so
that the user's Python, whatever it does, needs no support; ``rules.py`` says which dimensions each operation ties. What
comes out are *groups*: channels that are made in one or several places and used in others, and that can only change
together. Whatever cannot change is named, with the reason.

>>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
>>> coupling = trace(net, torch.zeros(5, 4))
>>> list(coupling.groups), coupling.groups["0"].size
(['0'], 3)
>>> [(slot.tensor, slot.dim, slot.role) for slot in coupling.groups["0"].slots]
[('0.weight', 0, 'out'), ('0.bias', 0, 'out'), ('2.weight', 1, 'in')]
>>> coupling.refusals
[Refusal(name='2', reason="it is the network's output")]
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import ramet.tracing.moves  # noqa: F401  (registers the rules of moving operations)
from ramet.errors import ConfigError, text_of
from ramet.tracing.axes import Axis, Layout, fixed, layout_size, normal
from ramet.tracing.labels import Dim, Hint, Ledger, Work
from ramet.tracing.norms import Norm, problem_of, start_of
from ramet.tracing.recurrent import step_by_step
from ramet.tracing.rules import RULES, follow, tensors_in, unknown
from ramet.training import training_modes
from ramet.training.outputs import logits_of

Inputs = Tensor | tuple[Any, ...]
"""What the network is called with: one tensor, or a tuple of arguments."""

READERS: frozenset[Any] = frozenset(
    {Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__, Tensor.item, Tensor.tolist}
)
"""What gives a Python value. An array is not among them: what is computed from it is unknown to the trace anyway."""

_TORCH = str(Path(torch.__file__).parent)


@dataclass(frozen=True)
class Slot:
    """One dimension of one weight that holds the channels of a group, and in which role."""

    tensor: str
    dim: int
    role: str  # "out", "in" or "follow"
    start: str  # what a new channel starts with where it is "follow", or norms run over it: zero, one, mean or draw


@dataclass(frozen=True)
class Group:
    """Channels that can only be added together, named by the module that makes them first.

    The entries of the axis that grows are the *units* (neurons, channels, heads); slots are the places that hold them.
    Where ``norms`` take their statistics over the units, new ones can be added, but none can be split (``norms.py``):
    they start with no effect on the norms, and are silent behind them whatever reads them.
    """

    name: str
    axis: Axis
    slots: tuple[Slot, ...]
    norms: tuple[Norm, ...] = ()
    is_block: bool = False

    @property
    def size(self) -> int:
        """The number of units now."""
        return self.axis.size

    @property
    def kind(self) -> str:
        """What its units are: ``blocks`` of channels (heads), channels of a ``stream`` under norms, or ``units``."""
        return "blocks" if self.is_block else "stream" if self.norms else "units"


@dataclass(frozen=True)
class Refusal:
    """Channels, or a weight, that growth leaves alone, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Call:
    """One run of a module without children: its name, and the identities of its argument and result."""

    module: str
    argument: int
    result: int
    channels: Layout | None
    shape: tuple[int, ...]


@dataclass
class Coupling:
    """What a trace found: what can grow, by name, and what cannot, with the reason.

    Attributes:
        layouts: for each parameter and buffer, what its dimensions are made of.
        aliases: for each of them, every name under which the network holds it.
        works: the multiplications for one batch of ``batch_size`` examples.
        attributes: numbers in modules that follow a layout, such as ``groups`` of a depthwise convolution.
        hints: where sizes may be written into a forward.
        calls: the runs of modules without children, in order.
        results: the identities of the tensors that the network returns.
        roles: for each dimension of a weight what it does with channels: it makes them (``out``), sums over them
            (``in``), is the ``norm`` of all, has a ``scale`` for each of them, or goes along otherwise (``follow``).
        ties: groups that are to grow together, and by how many units each; none if each may grow by itself.
    """

    groups: dict[str, Group]
    refusals: list[Refusal]
    layouts: dict[str, tuple[Layout, ...]]
    aliases: dict[str, list[str]]
    works: list[Work]
    batch_size: int
    attributes: dict[tuple[str, str], Layout] = field(default_factory=dict)
    hints: list[Hint] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: frozenset[int] = frozenset()
    roles: dict[tuple[str, int], str] = field(default_factory=dict)
    ties: tuple[dict[str, int], ...] = ()

    def refuse(self, name: str, reason: str) -> None:
        """Take a group out, with the reason."""
        del self.groups[name]
        self.refusals.append(Refusal(name, reason))


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operation to its rule."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ledger = ledger

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        depends = self.ledger.depends(tensors_in((args, kwargs or {})))
        result = func(*args, **(kwargs or {}))
        if depends:
            self.ledger.changing.update(id(tensor) for tensor in tensors_in(result))
        if tensors_in(result):
            names, defaults = _arguments(func)
            named = {**defaults, **dict(zip(names, args, strict=False)), **(kwargs or {})}
            _rule(func)(self.ledger, func, named, result)
            self.ledger.norms.notice(self.ledger, func, named, result, tensors_in(named))
        return result


class ValueReads(TorchFunctionMode):
    """Notes where a forward, not torch's own code, makes a tensor a number, so that other inputs may go another way.

    A number that depends on neither inputs nor weights is the same in every run: masks are often made of such.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.places: list[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in READERS and self.ledger.depends(tensors_in(args)):
            # The last frame is this one, the one before it asked for the value.
            asking = traceback.extract_stack(limit=2)[0]
            if not asking.filename.startswith(_TORCH):
                self.places.append(f"{Path(asking.filename).name}:{asking.lineno}")
        return func(*args, **(kwargs or {}))


@functools.cache
def _arguments(func: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of an operation's arguments, and the values of those that may be left out."""
    arguments = func._schema.arguments
    return [a.name for a in arguments], {a.name: a.default_value for a in arguments if a.has_default_value()}


def _rule(func: Any) -> Callable[..., None]:
    packet = func.overloadpacket
    if packet in RULES:
        return RULES[packet]
    functional = getattr(torch.ops.aten, packet.__name__.rstrip("_"), None)
    if functional in RULES:  # relu_ is relu
        return RULES[functional]
    twin = getattr(functional, func._overloadname, func)  # mish_ has no tags, but mish has
    if torch.Tag.pointwise in {*func.tags, *twin.tags}:
        return follow
    return unknown


@contextmanager
def _watched(network: nn.Module, ledger: Ledger, calls: list[Call]) -> Iterator[None]:
    """Keep the name of the running module in the ledger, and a list of the leaf modules' runs."""
    names = {id(module): name for name, module in network.named_modules()}
    stack: list[str] = []

    def enter(module: nn.Module, args: Any) -> None:
        if id(module) in names:
            stack.append(ledger.module)
            ledger.module = names[id(module)]

    def leave(module: nn.Module, args: Any, result: Any) -> None:
        if id(module) in names:
            if not any(True for _ in module.children()) and isinstance(result, Tensor) and tensors_in(args):
                channels = 1 if result.dim() in (3, 4, 5) and isinstance(module, _IMAGE_MODULES) else result.dim() - 1
                layout = ledger.read(result)[channels].layout if result.dim() > 1 else None
                argument = id(tensors_in(args)[0])
                calls.append(Call(names[id(module)], argument, id(result), layout, tuple(result.shape)))
                if isinstance(module, _INSTANCE_NORMS) and layout is not None:  # which may have no tensor to tell by
                    ledger.counts.append((names[id(module)], "num_features", layout))
            ledger.module = stack.pop()

    # `always_call` would hide the first error behind one of the hook, so the stack is simply dropped on an error.
    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, *_INSTANCE_NORMS)
_IMAGE_MODULES = (nn.Conv1d, nn.Conv2d, nn.Conv3d, *_NORMS)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Run a block with every module in evaluation mode and in the open, and put each module's own mode back."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with training_modes(network), step_by_step(network), torch.no_grad():
            network.eval()
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def call(network: nn.Module, inputs: Inputs) -> Any:
    """The network's result on its inputs."""
    return network(*inputs) if isinstance(inputs, tuple) else network(inputs)


def returned(result: Any) -> list[Tensor]:
    """The tensors of a result that must not change: its ``logits`` alone, where it has them, or all."""
    logits = logits_of(result)
    return tensors_in(result) if logits is None else [logits]


def trace(network: nn.Module, inputs: Inputs) -> Coupling:
    """Run the network once on a small batch and find what widens together; it is left as it was.

    The groups are as the operations imply them; ``checking.find_coupling`` also checks each by growing a copy.
    """
    ledger, calls = Ledger(), list[Call]()
    aliases: dict[str, list[str]] = {}
    first: dict[int, str] = {}
    tensors: dict[str, Tensor] = {}
    named = [*network.named_parameters(remove_duplicate=False), *network.named_buffers(remove_duplicate=False)]
    for name, tensor in named:
        canonical = first.setdefault(id(tensor), name)
        aliases.setdefault(canonical, []).append(name)
        if canonical == name:
            tensors[name] = tensor
            ledger.enter(name, tensor)
    for tensor in tensors_in(inputs):
        ledger.write(tensor, [Dim(fixed(size, "it is the network's input")) for size in tensor.shape])
        ledger.changing.add(id(tensor))
    reads = ValueReads(ledger)
    with evaluating(network), _watched(network, ledger, calls):
        try:
            with reads, _Recorder(ledger):
                result = call(network, inputs)
        except Exception as error:
            raise ConfigError(
                f"the network must run on a batch of the data, but it failed: {text_of(error)}"
            ) from error
    if reads.places:
        raise ConfigError(
            "a network's way must not depend on values, because growth sees one run of it and others may take another, "
            f"but {reads.places[0]} turns a tensor into a Python number."
        )
    for tensor in returned(result):
        for dim in ledger.read(tensor):
            for term in normal(dim.layout):
                for axis in term:
                    axis.fix("it is the network's output")
    batch = tensors_in(inputs)[0].shape[0]
    coupling = _summarise(network, tensors, aliases, ledger, calls, batch)
    coupling.results = frozenset(id(tensor) for tensor in returned(result))
    return coupling


def _is_block(axis: Axis, places: list[Slot], layouts: dict[str, tuple[Layout, ...]]) -> bool:
    """Whether a unit is a block of channels where it is made."""
    return any(
        any(term[-1] is not axis for term in layouts[slot.tensor][slot.dim] if axis in term)
        for slot in places
        if slot.role == "out"
    )


def _summarise(
    network: nn.Module,
    tensors: dict[str, Tensor],
    aliases: dict[str, list[str]],
    ledger: Ledger,
    calls: list[Call],
    batch_size: int,
) -> Coupling:
    layouts: dict[str, tuple[Layout, ...]] = {}
    slots: dict[Axis, list[Slot]] = {}
    problems: dict[Axis, str] = {}
    refusals: list[Refusal] = []
    norms: dict[Axis, list[Norm]] = {}
    for norm in ledger.norms.settle(network):
        for axis in {axis: None for term in norm.layout for axis in term}:
            norms.setdefault(axis, []).append(norm)
    single_outputs: dict[str, str] = {}  # fixed dimensions of one entry, which layouts leave out
    frozen = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
    for name, tensor in tensors.items():
        layouts[name] = tuple(normal(dim.layout) for dim in ledger.read(tensor))
        if tensor.dim() and not any((name, dim) in ledger.roles for dim in range(tensor.dim())):
            refusals.append(Refusal(name, "it took no part in the trace"))
            continue
        for dim, layout in enumerate(layouts[name]):
            roles = ledger.roles.get((name, dim), set())
            if "out" in roles and layout == ((),):
                reason = ledger.read(tensor)[dim].layout[0][0].reason or "a dimension of size one"
                single_outputs.setdefault(name.rpartition(".")[0] or name, reason)
            for axis in {axis: None for term in layout for axis in term}:
                if "in" in roles and len(roles) > 1 and axis not in norms:
                    problems.setdefault(axis, f"{name} both makes and sums over these channels (tied weights)")
                elif not roles:
                    problems.setdefault(axis, f"{name} holds these channels in a way that the trace does not follow")
                elif name in frozen:
                    problems.setdefault(axis, f"{name} is frozen (requires_grad is False)")
                elif any(term.count(axis) > 1 for term in layout):
                    problems.setdefault(axis, f"{name} holds these channels squared")
                # Behind a norm a new channel is zero, so tied weights may start with what makes it.
                order = ("out", "follow", "in") if axis in norms else ("in", "out", "follow")
                role = next((role for role in order if role in roles), "follow")
                start = start_of(name, norms[axis]) if axis in norms else ledger.starts.get((name, dim), "mean")
                slots.setdefault(axis, []).append(Slot(name, dim, role, start))
    groups: dict[str, Group] = {}
    taken: set[str] = set()
    for axis, places in slots.items():
        makers = [slot.tensor for slot in places if slot.role == "out"]
        if not makers:
            continue
        module = makers[0].rpartition(".")[0] or makers[0]
        name, count = module, 2
        while name in taken:
            name, count = f"{module}#{count}", count + 1
        problem = axis.reason or problems.get(axis)
        if problem is None and axis in norms:
            problem = problem_of(norms[axis], places, layouts, ledger.norms)
        if problem is None and not any(slot.role == "in" for slot in places):
            problem = "no weight sums over these channels, so a copy cannot be made up for"
        # Pieces such as the factor 3 of a packed query, key and value are no channels of their own: named only if
        # nothing else of that module's output is.
        taken.add(name)
        if problem is None:
            groups[name] = Group(
                name, axis, tuple(places), tuple(norms.get(axis, ())), _is_block(axis, places, layouts)
            )
        else:
            refusals.append(Refusal(name, problem))
    refusals += [Refusal(name, reason) for name, reason in single_outputs.items()]
    attributes = {
        (module, attribute): normal(layout)
        for module, attribute, layout in ledger.counts
        if hasattr(network.get_submodule(module), attribute)
    }
    works = [Work(w.module, w.constant, tuple(normal(x) for x in w.dims)) for w in ledger.works]
    hints = [Hint(hint.module, normal(hint.layout)) for hint in ledger.hints]
    calls = [
        Call(c.module, c.argument, c.result, None if c.channels is None else normal(c.channels), c.shape) for c in calls
    ]
    assert all(
        layout_size(layout) == size
        for name, tensor in tensors.items()
        for layout, size in zip(layouts[name], tensor.shape, strict=True)
    )
    found = Coupling(groups, refusals, layouts, aliases, works, batch_size, attributes, hints, calls)
    found.roles = _roles(ledger)
    return found


def _roles(ledger: Ledger) -> dict[tuple[str, int], str]:
    weights_of_norms = {name for norm in ledger.norms.found for name in (*norm.weights, *norm.biases)}
    found: dict[tuple[str, int], str] = {}
    for place, roles in ledger.roles.items():
        found[place] = "out" if "out" in roles else "in" if "in" in roles else "follow"
        if found[place] == "follow" and place[0] in weights_of_norms:
            found[place] = "norm"
        elif found[place] == "follow" and place in ledger.norms.scaling:
            found[place] = "scale"
    return found
