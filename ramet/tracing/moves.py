"""Rules for operations that move, cut, join, pool or make entries, and sum nothing over channels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ramet.tracing.axes import (
    Axis,
    Layout,
    cut,
    fix,
    fixed,
    fixed_reasons,
    layout_size,
    normal,
    product,
    regroup,
    single,
    unify,
)
from ramet.tracing.labels import Dim, Label, Ledger
from ramet.tracing.rules import follow, rule, tensors_in, unknown

aten = torch.ops.aten


@rule(aten.view, aten._unsafe_view, aten.reshape, aten._reshape_alias, aten.squeeze, aten.unsqueeze, aten.flatten)
def reshape(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Dimensions are merged and cut; the numbers in the call may be sizes that the forward holds."""
    label = ledger.read(args["self"])
    if "dtype" in args:
        return follow(ledger, op, args, result)
    layouts = regroup([dim.layout for dim in label], result.shape, f"a reshape tears it apart in {ledger.place}")
    origins = {dim.origin for dim in label if dim.origin is not None and dim.size > 1}
    if len(origins) > 1:
        kept = [dim.origin for dim in label if dim.size > 1]
        if [dim.size for dim in label if dim.size > 1] == [size for size in result.shape if size > 1]:
            names = iter(kept)
            dims = [Dim(x, next(names) if n > 1 else None) for x, n in zip(layouts, result.shape, strict=True)]
        else:
            ledger.forbid(label, "a weight is reshaped")
            dims = [Dim(x) for x in layouts]
    else:
        origin = next(iter(origins), None)
        dims = [Dim(layout, origin) for layout in layouts]
    ledger.write(result, dims)
    ledger.hint(dims)
    return None


@rule(aten.t, aten.permute, aten.transpose, aten.numpy_T)
def permute(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Dimensions change places."""
    label = ledger.read(args["self"])
    places = list(range(len(label)))
    if "dims" in args:
        places = [place % len(label) for place in args["dims"]]
    elif "dim0" in args:
        first, second = args["dim0"], args["dim1"]
        places[first], places[second] = places[second], places[first]
    else:
        places.reverse()
    ledger.write(result, [label[place] for place in places])


@rule(aten.expand)
def expand(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Single entries are repeated; new dimensions come in front."""
    label = ledger.read(args["self"])
    missing = result.dim() - len(label)
    dims: Label = []
    for place, size in enumerate(result.shape):
        dim = label[place - missing] if place >= missing else None
        if dim is not None and dim.size == size:
            dims.append(dim)
        else:
            if dim is not None:
                ledger.forbid([dim], "its only channel is repeated")
            # What a repeated dimension goes together with is decided by what it meets next.
            dims.append(Dim(single(Axis(size))))
    ledger.write(result, dims)
    ledger.hint(dims)


@rule(aten.repeat)
def repeat(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Everything over and over again, as an instance norm does with its weights, once for each example."""
    label = ledger.read(args["self"])
    label = [Dim(single(Axis(1))) for _ in range(result.dim() - len(label))] + label
    dims: Label = []
    for dim, times in zip(label, args["repeats"], strict=True):
        around = fixed(times, "it is repeated")
        dims.append(dim if times == 1 else Dim(product([around, dim.layout]), dim.origin))
    ledger.write(result, dims)


@rule(aten.pixel_shuffle, aten.pixel_unshuffle)
def shuffle_pixels(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Runs of channels become the pixels of a square, or the other way around; whole runs may be added."""
    label = ledger.read(args["self"])
    before, channels, images = label[:-3], label[-3], [Dim(fixed(n, "positions")) for n in result.shape[-2:]]
    reason = f"pixels are made of these channels in {ledger.place}"
    if op.overloadpacket is aten.pixel_shuffle:
        square = args["upscale_factor"] ** 2
        layout, inner = regroup([channels.layout], [channels.size // square, square], reason)
        fix(inner, reason)
    else:
        layout = product([channels.layout, fixed(args["downscale_factor"] ** 2, reason)])
    ledger.write(result, [*before, Dim(layout), *images])


@rule(aten.channel_shuffle)
def shuffle_channels(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """The channels of all groups by turns: each group may have more of them."""
    before, channels, *images = ledger.read(args["self"])
    reason = f"channels are shuffled in {ledger.place}"
    groups, members = regroup([channels.layout], [args["groups"], channels.size // args["groups"]], reason)
    fix(groups, reason)
    ledger.write(result, [before, Dim(product([members, groups])), *(Dim(dim.layout) for dim in images)])


@rule(aten.split, aten.split_with_sizes, aten.chunk, aten.unbind, aten.unsafe_split, aten.glu)
def split(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """A dimension is cut into pieces."""
    label = ledger.read(args["self"])
    place = args.get("dim", -1 if op.overloadpacket is aten.glu else 0) % len(label)
    before, dim, after = label[:place], label[place], label[place + 1 :]
    pieces = tensors_in(result)
    if op.overloadpacket is aten.glu:
        gated, gate = cut(dim.layout, [dim.size // 2] * 2)
        unify(gated, gate)
        ledger.write(result, [*before, Dim(gated), *after])
    elif op.overloadpacket is aten.unbind:
        ledger.forbid([dim], "its entries are taken by number")
        for piece in pieces:
            ledger.write(piece, before + after)
    else:
        sizes = [piece.shape[place] for piece in pieces]
        for piece, layout in zip(pieces, cut(dim.layout, sizes), strict=True):
            ledger.write(piece, [*before, Dim(layout, dim.origin), *after])
        ledger.hint([dim])


@rule(aten.slice)
def take_slice(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """A run of entries; a stride over channels fixes them."""
    label = ledger.read(args["self"])
    place = args["dim"] % len(label)
    dim, size = label[place], result.shape[place]
    if args["step"] != 1 and size != dim.size:
        ledger.forbid([dim], "it is sliced with a stride")
        layout = fixed(size, "it was sliced with a stride")
    else:
        start = min(max(args["start"] or 0, -dim.size) % dim.size if dim.size else 0, dim.size - size)
        layout = cut(dim.layout, [start, size, dim.size - start - size])[1]
        if size != dim.size:
            ledger.hint([dim])
    ledger.write(result, [*label[:place], Dim(layout, dim.origin), *label[place + 1 :]])


@rule(aten.select)
def select(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """One entry, by its number."""
    label = ledger.read(args["self"])
    place = args["dim"] % len(label)
    ledger.forbid([label[place]], "an entry of it is taken by number")
    ledger.write(result, label[:place] + label[place + 1 :])


@rule(aten.index)
def index(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Rows by their numbers, as an embedding has them, or by a mask; any other use of numbers fixes what it touches."""
    table, (numbers, *others) = args["self"], args["indices"]
    label = ledger.read(table)
    if numbers is None or any(other is not None for other in others) or numbers.is_floating_point():
        return unknown(ledger, op, args, result)
    taken = numbers.dim() if numbers.dtype in (torch.bool, torch.uint8) else 1  # a mask has a place for every entry
    ledger.forbid(label[:taken], "its rows are looked up by number")
    for dim in label[taken:]:
        ledger.use(dim, "out")
    places = result.dim() - len(label) + taken
    rows = [Dim(fixed(size, "rows that were looked up by number")) for size in result.shape[:places]]
    ledger.write(result, [*rows, *(Dim(dim.layout) for dim in label[taken:])])
    return None


@rule(aten.as_strided)
def as_strided(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Torch's pooling lays out its own result anew; anything else is not known."""
    if result.shape != args["self"].shape:
        return unknown(ledger, op, args, result)
    return same(ledger, op, args, result)


@rule(aten.roll)
def roll(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Entries move on along some dimensions, which may not change: positions, in windows over an image."""
    label = ledger.read(args["self"])
    places = {place % len(label) for place in args["dims"]} if args["dims"] else range(len(label))
    ledger.forbid([label[place] for place in places], "it is rolled")
    ledger.write(result, [Dim(dim.layout) for dim in label])


@rule(aten.cat)
def concatenate(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Pieces one after another along one dimension, tied in all others."""
    labels = [ledger.read(tensor) for tensor in args["tensors"] if tensor.dim() == result.dim()]
    place = args["dim"] % result.dim()
    dims: Label = []
    for other in range(result.dim()):
        column = [label[other] for label in labels]
        if other == place:
            # A weight among activations is no channel: a class token in front of the patches of an image.
            tokens = [dim for dim in column if dim.origin is not None]
            if len(tokens) < len(column):
                ledger.forbid(tokens, "a weight is put beside other values")
            dims.append(Dim(_joined(tuple(term for dim in column for term in dim.layout))))
        else:
            for dim in column[1:]:
                ledger.tie(column[0], dim)
            dims.append(Dim(column[0].layout))
        for dim in column:
            ledger.use(dim, "follow")
    ledger.write(result, dims)


def _joined(layout: Layout) -> Layout:
    """A concatenation; where no piece can change it is one piece, which reshapes can move around with others."""
    reasons = fixed_reasons(normal(layout))
    return fixed(layout_size(layout), reasons[0]) if reasons else layout


@rule(aten.stack)
def stack(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Tensors side by side in a new dimension."""
    labels = [ledger.read(tensor) for tensor in args["tensors"]]
    place = args["dim"] % result.dim()
    for label in labels[1:]:
        for first, dim in zip(labels[0], label, strict=True):
            ledger.tie(first, dim)
    dims = [Dim(dim.layout) for dim in labels[0]]
    dims.insert(place, Dim(fixed(len(labels), "tensors are stacked along it")))
    ledger.write(result, dims)


@rule(aten.constant_pad_nd, aten.reflection_pad2d, aten.replication_pad2d)
def pad(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Borders around the image; a border of channels is a concatenation with constants."""
    dims: Label = []
    for dim, size in zip(ledger.read(args["self"]), result.shape, strict=True):
        if dim.size == size:
            dims.append(Dim(dim.layout))
        else:
            ledger.forbid([dim], "it is padded")
            dims.append(Dim(fixed(size, "it is padded")))
    ledger.write(result, dims)


@rule(
    aten.max_pool2d_with_indices, aten.avg_pool2d, aten._adaptive_avg_pool2d, aten.adaptive_max_pool2d,
    aten.max_pool3d_with_indices, aten.avg_pool3d, aten._adaptive_avg_pool3d, aten.adaptive_max_pool3d,
    aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d, aten.upsample_linear1d,
    aten.upsample_bilinear2d, aten.upsample_bicubic2d, aten.upsample_trilinear3d, aten._upsample_bilinear2d_aa,
)  # fmt: skip
def resize(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """Examples and channels stay, positions change."""
    label = ledger.read(tensors_in(args)[0])
    spatial = 3 if "3d" in str(op) else 1 if "1d" in str(op) else 2
    kept = label[: len(label) - spatial]
    for tensor in tensors_in(result):
        positions = [Dim(fixed(size, "a position in the image")) for size in tensor.shape[len(kept) :]]
        ledger.write(tensor, [*(Dim(dim.layout) for dim in kept), *positions])


@rule(
    aten.clone, aten.detach, aten.alias, aten._to_copy, aten.lift_fresh, aten.lift_fresh_copy, aten.contiguous,
    aten.zeros_like, aten.ones_like, aten.empty_like, aten.full_like, aten.rand_like, aten.randn_like,
    aten.native_dropout, aten.bernoulli, aten.bernoulli_, aten._conj, aten.fill_, aten.zero_, aten.fill, aten.triu,
    aten.tril,
)  # fmt: skip
def same(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """A tensor of the same shape; a copy of a weight is still that weight."""
    label = ledger.read(tensors_in(args)[0])
    for tensor in tensors_in(result):
        ledger.write(tensor, list(label))


@rule(
    aten.zeros, aten.ones, aten.empty, aten.full, aten.arange, aten.rand, aten.randn, aten.scalar_tensor,
    aten.new_zeros, aten.new_ones, aten.new_empty, aten.new_full, aten.eye, aten.empty_strided,
    aten.new_empty_strided, aten.linspace,
)  # fmt: skip
def make(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """A tensor from nothing: its sizes may be computed or written as numbers; the comparison of outputs decides."""
    ledger.write(result, [Dim(single(Axis(size))) for size in result.shape])
    ledger.hint(ledger.read(result))


@rule(aten.copy_)
def copy_into(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Writing into a tensor, or a slice of one, ties the two."""
    target, source = ledger.read(args["self"]), ledger.read(args["src"])
    for dim, other in zip(reversed(target), reversed(source), strict=False):
        ledger.tie(dim, other)
    ledger.write(result, target)
