"""Listening to the products of a module's parameters for as long as a block runs, whoever makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from ramet.guards import convolutions, entries, matrix_products, norms
from ramet.guards.layers import CONVOLUTIONS, RECURRENT, Kind, Product, input_columns, products_of
from ramet.guards.matrices import Marker, key_of
from ramet.guards.meetings import Meeting, with_bias
from ramet.guards.names import unwrapped
from ramet.guards.other_uses import is_made_of, nodes_of, runs_inside, tensors_in
from ramet.guards.passing import PassedMeans
from ramet.guards.placing import Place, entries_of, place_of, spread
from ramet.guards.precision import has_no_columns
from ramet.guards.walking import Layers, Named

READERS = {**matrix_products.READERS, **convolutions.READERS, **entries.READERS, **norms.READERS}
"""All products that a guard can see, by the function of torch that makes them."""

SHOWN = "shows_products"
"""By this attribute a class of layers with a forward of its own says that torch's functions meet its parameters."""

SEQUENCES = (list, tuple)
"""What may hold tensors among the arguments of a call."""

Slot = tuple[str, Kind, bool]
Owner = tuple[str, Tensor]
"""A parameter, with its name."""


class SeenProduct(NamedTuple):
    """One product that happened.

    Attributes:
        product: which it is.
        inputs: for a matrix the columns, [groups, width, n]; for rows how often each was looked up; for entries the sum
            of their squared inputs, [entries], or their mean input. Or what they are the mean of, see ``Ears.mean``.
        output: what came out, if it is the whole product's and a gradient will come back.
        axis: where the output's features are, 1 or -1.
        num_axes: of a batch of outputs where features are second, so that a single sample is known.
        num_samples: the samples in it; None if they are its first axis.
    """

    product: Product
    inputs: Tensor
    output: Tensor | None = None
    axis: int = -1
    num_axes: int = 0
    num_samples: int | None = None


@dataclass
class Ears:
    """What a guard listens with.

    Attributes:
        products: all that are known, by slot; new ones are added as they are seen.
        on_product: called with each product as it happens.
        is_wanted: whether a parameter is guarded, by its name.
        kinds: what is listened to.
        mean: whether the mean of the inputs is wanted.
        by_position: whether it is, where a weight meets every position of an image, the mean at each of them.
        with_outputs: whether only products are wanted whose output is known.
        missed: takes the names of parameters of which another use than a product was made, see ``other_uses``.
    """

    products: dict[Slot, Product]
    on_product: Callable[[SeenProduct], None]
    is_wanted: Callable[[str], bool]
    kinds: tuple[Kind, ...] = ("matrix", "rows", "entries")
    mean: bool = False
    by_position: bool = False
    with_outputs: bool = False
    places: dict[Any, Place | None] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)


Read = tuple[Meeting, Product, Tensor, bool]
"""A product in a call, with its inputs, and whether the output is that of the whole product."""


@dataclass
class _Call:
    """A layer with a kernel of its own that is running, and what its weight met in it, if that has no gradient."""

    layer: nn.Module
    weights: frozenset[int]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    was_seen: bool = False
    waiting: list[Read] = field(default_factory=list)
    missed: set[str] = field(default_factory=set)


@contextmanager
def listening(layers: Layers, named: Named, ears: Ears) -> Iterator[None]:
    """Report the products of ``named`` parameters as they happen: those of the current path, then.

    What counts is the tensor that meets the weight, and not what a layer was called with: a subclass may have changed
    it. So torch's functions are listened to, and not layers. Only recurrent layers, whose products torch does not show,
    and layers with a kernel of their own have hooks. All of it is there only while the block runs: a hook that stays
    would be copied by ``copy.deepcopy`` together with all that it refers to, and would listen to evaluations too. A
    compiled module runs uncompiled inside the block, since compiled code ignores both.
    """
    mode = _Listening(layers, named, ears)
    with ExitStack() as stack:
        is_compiled, hooked = False, set[nn.Module]()
        for _, layer in layers:
            is_compiled = is_compiled or "_orig_mod" in layer._modules or layer._compiled_call_impl is not None
            if not _has_own_kernel(layer) or layer in hooked:  # or it is used in several places
                continue
            # Whose function is torch's own inside is seen there; only its output's gradient needs a hook.
            is_seen = isinstance(layer, RECURRENT) if ears.with_outputs else getattr(type(layer), SHOWN, False)
            if not is_seen:
                hooked.add(layer)
                stack.callback(layer.register_forward_pre_hook(mode.before, with_kwargs=True).remove)
                stack.callback(layer.register_forward_hook(mode.after, with_kwargs=True).remove)
        if is_compiled:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(mode)
        yield


def planned_products(module: nn.Module, is_wanted: Callable[[str], bool]) -> dict[Slot, Product]:
    """The products of a module that are known before it runs, by slot."""
    found = [product for _, products in products_of(unwrapped(module)) for product in products]
    return {product.slot: product for product in found if is_wanted(product.weight)}


def _has_own_kernel(layer: nn.Module) -> bool:
    """Whether a layer's product may be hidden: that of a recurrent one, or of a subclass with a forward."""
    kind = _kind_of(type(layer))  # type: ignore[arg-type] # mypy takes a class for its instances here
    if kind is None:
        return False
    return kind is nn.RNNBase or type(layer).forward is not kind.forward or "forward" in layer.__dict__


@lru_cache(maxsize=4096)  # asked for every layer in every step, and there are few classes
def _kind_of(layer: type[nn.Module]) -> type[nn.Module] | None:
    """Torch's own class that a class of layers is one of, if its products are looked for; one for all recurrent."""
    if issubclass(layer, RECURRENT):
        return nn.RNNBase
    return next((kind for kind in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d) if issubclass(layer, kind)), None)


def _exactly(device: str) -> AbstractContextManager[None]:
    """Without gradients, and in the precision of the tensors."""
    return _without_autocast(device) if torch.is_autocast_enabled(device) else torch.no_grad()


@contextmanager
def _without_autocast(device: str) -> Iterator[None]:
    with torch.no_grad(), torch.autocast(device, enabled=False):
        yield


def _never(*_: Any) -> bool:
    return False


def _attention(*args: Any, **kwargs: Any) -> Any:
    """Torch's attention, which it hands over as a whole; in this copy nobody is asked whether to, and parts show."""
    source = functional.multi_head_attention_forward
    copied = FunctionType(source.__code__, {**source.__globals__, "has_torch_function": _never}, source.__name__)
    copied.__defaults__, copied.__kwdefaults__ = source.__defaults__, source.__kwdefaults__
    return copied(*args, **kwargs)


# Of the attention that runs, for all guards that listen: one of them takes it apart, and the others see the parts.
_num_samples: ContextVar[int | None] = ContextVar("num_samples", default=None)


class _Listening(TorchFunctionMode):
    """Sees every call of a torch function, and tells of those that multiply a parameter."""

    def __init__(self, layers: Layers, named: Named, ears: Ears) -> None:
        super().__init__()
        self._layers, self._ears = layers, ears
        self._owners: dict[int, Owner] = {}
        for name, param in named:
            self._owners.setdefault(id(param), (name, param))
        self._calls: list[_Call] = []
        self._passed = PassedMeans()
        self._pooled: list[tuple[Meeting, Tensor]] = []  # of the call that is being read

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.multi_head_attention_forward:
            return self._attend(*args, **kwargs)
        given = (*args, *kwargs.values())
        met = self._met(given)
        if not met:  # nearly all calls, in every step: so nothing else is asked for them
            return func(*args, **kwargs)
        reader = READERS.get(func)
        if reader is None or any(map(has_no_columns, given[:3])):
            if getattr(func, "__name__", "") == "__get__":  # attributes: a view, or no tensor at all
                return func(*args, **kwargs)
            return self._call(func, args, kwargs, met)
        seen: list[Read] = []
        self._pooled = []
        for meeting in reader(*args, **kwargs):  # before the call, since a function may work in place
            if self._owner(meeting.weight) is not None or self._owner(meeting.bias) is not None:
                seen += self._read(meeting)
        read = {name for _, product, *_ in seen for name in (product.weight, product.bias)}
        output = self._call(func, args, kwargs, [(owner, tensor) for owner, tensor in met if owner[0] not in read])
        if seen:
            self._tell(seen, output)
        for meeting, columns in self._pooled:
            self._passed.note(meeting, columns, output)
        return output

    def _met(self, values: Iterable[Any]) -> list[tuple[Owner, Tensor]]:
        """The parameters, and the views of some, among the arguments of a call."""
        owners, found = self._owners, []
        for value in values:
            if isinstance(value, Tensor):
                owner = owners.get(id(value))
                if owner is None and value._base is not None:
                    owner = owners.get(id(value._base))
                if owner is not None:
                    found.append((owner, value))
            elif isinstance(value, SEQUENCES) and not (len(value) == 2 and type(value[0]) is type(value[1]) is int):
                found += self._met(value)  # pairs of numbers are strides and paddings, three in every convolution
        return found

    def _call(self, func: Any, args: Any, kwargs: Any, unread: list[tuple[Owner, Tensor]]) -> Any:
        """What the function gives; parameters that it uses, and of which nothing was read, are noted."""
        met = [(owner, tensor) for owner, tensor in unread if owner[1].requires_grad and not is_lazy(owner[1])]
        if not met or not torch.is_grad_enabled() or all(owner[0] in self._ears.missed for owner, _ in met):
            return func(*args, **kwargs)
        given, nodes = nodes_of(tensors_in((*args, *kwargs.values()))), [nodes_of([tensor]) for _, tensor in met]
        output = func(*args, **kwargs)
        results = [one for one in tensors_in((output,)) if one.requires_grad]
        for (owner, tensor), node in zip(met, nodes, strict=True):
            if node and any(is_made_of(one, tensor, node[0], given) for one in results):
                self._miss(*owner)
        return output

    def _miss(self, name: str, param: Tensor) -> None:
        """A parameter is used, and not in a product that is seen."""
        if not self._ears.is_wanted(name) or not runs_inside({layer for _, layer in self._layers}):
            return
        # A layer with a kernel of its own is told of by its input when it ends, if nothing else is seen of it.
        call = next((call for call in reversed(self._calls) if id(param) in call.weights), None)
        (self._ears.missed if call is None else call.missed).add(name)

    def _attend(self, query: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Torch's attention, with ears inside; its batches have the samples second, or flat together with time."""
        before = _num_samples.set(query.shape[1] if query.dim() == 3 else 1)
        try:
            with self:
                return _attention(query, *args, **kwargs)
        finally:
            _num_samples.reset(before)

    def _owner(self, tensor: Tensor | None) -> Owner | None:
        """The parameter that a tensor is, or is a view of, with its name."""
        if tensor is None:
            return None
        owner = self._owners.get(id(tensor))
        return owner if owner is not None or tensor._base is None else self._owners.get(id(tensor._base))

    def _read(self, meeting: Meeting) -> list[Read]:
        """The products of a call that are guarded."""
        owner, ears = self._owner(meeting.weight), self._ears
        if owner is not None and not (owner[1].requires_grad and ears.is_wanted(owner[0])):
            owner = None
        with _exactly(meeting.weight.device.type):
            if meeting.kind == "matrix":
                found = [] if owner is None else self._read_matrix(*owner, meeting)
                return found or self._read_bias(meeting, None)
            if owner is None or meeting.kind not in ears.kinds:
                return []
            name, param = owner
            if meeting.kind == "entries":
                return [(meeting, self._product(name, param, "entries", None), self._entries(meeting, param), False)]
            if meeting.weight is not param or param.dim() != 2:
                return []
            product = self._product(name, param, "rows", Place(False, 1, len(param), 1))
            return [(meeting, product, meeting.inputs(ears.mean), False)]

    def _read_bias(self, meeting: Meeting, num_inputs: int | None) -> list[Read]:
        """A bias that does not go with its weight is added to the product for itself."""
        bias, owner = meeting.bias, self._owner(meeting.bias)
        if bias is None or owner is None or not owner[1].requires_grad or "entries" not in self._ears.kinds:
            return []
        count = meeting.inputs(False).shape[-1] if num_inputs is None else num_inputs
        dtype = torch.promote_types(bias.dtype, torch.float32)
        ones = Meeting(bias, "entries", lambda mean: torch.full_like(bias, 1.0 if mean else count, dtype=dtype))
        return self._read(ones)

    def _entries(self, meeting: Meeting, param: Tensor) -> Tensor:
        """The inputs of a parameter's entries, of which a call may use some, or some several times."""
        inputs, mean = meeting.inputs(self._ears.mean), self._ears.mean
        if meeting.weight is param:
            return inputs.reshape(-1)
        places = entries_of(meeting.weight, param).reshape(-1)
        whole = inputs.new_zeros(param.numel()).index_add(0, places, inputs.reshape(-1))
        counts = torch.bincount(places, minlength=param.numel()) if mean else None
        return whole if counts is None else whole / counts.clamp(min=1)

    def _read_matrix(self, name: str, param: Tensor, meeting: Meeting) -> list[Read]:
        weight, arrangement, ears = meeting.weight, meeting.arrangement, self._ears
        assert arrangement is not None
        geometry = None if weight is param else (tuple(weight.shape), weight.stride(), weight.storage_offset())
        known = (name, tuple(param.shape), geometry, arrangement)
        try:
            place = ears.places[known]
        except KeyError:  # hashed once, where it is known, as it is in all steps but the first
            place = ears.places[known] = place_of(weight, param, arrangement)
        if place is None or (ears.with_outputs and (meeting.axis is None or not place.is_whole)):
            return []
        bias = None if meeting.bias is None else self._owner(meeting.bias)
        if meeting.bias is not None and bias is not None and place.is_whole and len(meeting.bias) != bias[1].numel():
            bias = None  # a part of a parameter, which is held for itself
        product = self._product(name, param, "matrix", place, bias if place.is_whole else None)
        goes_along = bias is not None and bias[0] == product.bias
        pooled = ears.mean and not (ears.by_position and meeting.has_positions)
        if pooled and meeting.pooled is not None:
            columns = self._passed.column(meeting)
            columns = meeting.pooled() if columns is None else columns
            self._pooled.append((meeting, columns))
        else:
            columns = meeting.inputs(ears.mean)
        num_inputs, has_bias = columns.shape[-1], product.bias is not None
        columns = with_bias(columns, has_bias, mean=pooled, value=float(goes_along))
        columns = columns if place.is_whole else spread(columns, place, has_bias=has_bias)
        found: list[Read] = [(meeting, product, columns, place.is_whole)]
        return found if goes_along else found + self._read_bias(meeting, num_inputs)

    def _product(
        self, name: str, param: Tensor, kind: Kind, place: Place | None, bias: tuple[str, Tensor] | None = None
    ) -> Product:
        """The product of this kind of a parameter; a new one takes the bias that it is seen with."""
        slot: Slot = (name, kind, place is not None and place.transposed)
        products = self._ears.products
        if slot in products:
            return products[slot]
        if bias is not None and not bias[1].requires_grad:
            bias = None
        marker: Marker = "^E" if kind == "entries" else "^T" if slot[2] else ""
        if kind == "matrix" and not slot[2] and (name, "rows", False) in products:
            marker = "^M"
        products[slot] = Product(
            key=key_of(name, name, None if bias is None else bias[0], marker),
            local="",
            weight=name,
            bias=None if bias is None else bias[0],
            groups=param.numel() if place is None else place.groups,
            width=1 if place is None else place.width + (bias is not None),
            kind=kind,
            transposed=slot[2],
        )
        return products[slot]

    def _tell(self, seen: list[Read], output: Any) -> None:
        call = self._calls[-1] if self._calls else None
        if call is not None and any(id(meeting.weight) in call.weights for meeting, *_ in seen):
            if not (isinstance(output, Tensor) and output.requires_grad):
                # Inside a function with a backward pass of its own: the layer's output has the gradient.
                call.waiting += seen
                return
            call.was_seen = True
        for meeting, product, inputs, is_whole in seen:
            heard = output if is_whole and meeting.axis is not None and isinstance(output, Tensor) else None
            one = SeenProduct(product, inputs, heard, meeting.axis or -1, meeting.weight.dim(), _num_samples.get())
            self._ears.on_product(one)

    # Layers whose products are hidden.

    def before(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A layer begins."""
        weights = frozenset(id(param) for param in layer._parameters.values() if param is not None)
        self._calls.append(_Call(layer, weights, args, kwargs))

    def after(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A layer ends: if nothing was seen of its product, its own input is taken for what its weight met."""
        while self._calls and self._calls[-1].layer is not layer:  # those were left by an exception
            self._calls.pop()
        call = self._calls.pop()
        if call.was_seen:
            self._ears.missed |= call.missed
            return
        with torch._C.DisableTorchFunction():
            has_one = isinstance(layer, nn.Linear | CONVOLUTIONS) and isinstance(output, Tensor)
            if call.waiting:
                self._tell(call.waiting, output if has_one else None)
            else:
                self._tell_of_inputs(layer, call, output if has_one else None)

    def _tell_of_inputs(self, layer: nn.Module, call: _Call, output: Tensor | None) -> None:
        ears, products = self._ears, []
        for part, parts in products_of(layer):
            for product in parts if part is layer else []:
                name, _ = self._owners[id(getattr(layer, product.local))]
                if ears.is_wanted(name):
                    products.append(replace(ears.products[name, "matrix", False], local=product.local))
        if not products:
            return
        device = getattr(layer, products[0].local).device.type
        with _exactly(device):
            options = {"mean": ears.mean, "by_position": ears.by_position}
            columns = input_columns(layer, call.args, call.kwargs, products, **options)
        axis, num_axes = 1 if isinstance(layer, CONVOLUTIONS) else -1, getattr(layer, products[0].local).dim()
        for product in products:
            ears.on_product(SeenProduct(product, columns[product.key], output, axis, num_axes))
