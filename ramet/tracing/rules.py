"""For each ATen operation, which dimensions of its arguments and results go together.

A rule is a function ``(ledger, op, args, result)`` that reads the labels of the arguments, ties what must be tied,
fixes what must not change, and writes the label of the result. An operation without a rule fixes everything that it
touches and says so: growth is refused there, never guessed. The rules for operations that only move entries around are
in ``moves.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ramet.tracing.axes import Axis, Layout, fixed, single, unify
from ramet.tracing.labels import Dim, Label, Ledger, Work

aten = torch.ops.aten

Rule = Callable[[Ledger, Any, dict[str, Any], Any], None]
"""``(ledger, operation, arguments by the schema's names, result)``."""

RULES: dict[Any, Rule] = {}
"""The rule of each operation (all its overloads together)."""


def rule(*packets: Any) -> Callable[[Rule], Rule]:
    """Register a function as the rule of one or more operations; register your own for a custom operation."""

    def register(function: Rule) -> Rule:
        for packet in packets:
            RULES[packet] = function
        return function

    return register


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor in a nest of lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


_ADDING = frozenset({aten.add, aten.add_, aten.sub, aten.sub_})


@rule(aten._prelu_kernel, aten.hardswish, aten.log_sigmoid_forward)  # which torch does not call pointwise
def follow(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """Entry by entry, with broadcasting: the rule of additions, activations, gates and masks."""
    inputs = [(tensor, ledger.read(tensor)) for tensor in tensors_in(args)]
    out = tensors_in(result)[0]
    dims: Label = []
    only_weights = all(any(dim.origin for dim in label) or not label for _, label in inputs)
    for place in range(-out.dim(), 0):
        present = [label[place] for _, label in inputs if len(label) >= -place]
        full = [dim for dim in present if dim.size == out.shape[place]]
        for dim in present:
            ledger.tie(full[0], dim)
            if not only_weights:
                ledger.use(dim, "follow")
                if dim.origin is not None and op.overloadpacket not in _ADDING:
                    ledger.norms.scaling.add(dim.origin)
        dims.append(Dim(full[0].layout, full[0].origin if only_weights else None))
    ledger.write(out, dims)


def unknown(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """No rule: nothing that takes part may change."""
    reason = f"{op} is not known to growth,"
    for tensor in tensors_in(args):
        ledger.forbid(ledger.read(tensor), reason)
    for tensor in tensors_in(result):
        ledger.write(tensor, [Dim(fixed(size, f"{reason} in {ledger.place}")) for size in tensor.shape])


@rule(aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.mv)
def contraction(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Matrix products: the inner dimension is summed over, the outer ones are made."""
    names = [name for name in ("mat1", "batch1", "self", "mat2", "batch2", "vec") if name in args]
    if "batch1" in args or "mat1" in args:
        names = [name for name in names if name != "self"]
    first, second = (args[name] for name in names)
    left, right = ledger.read(first), ledger.read(second)
    batch = len(left) - 2
    inner_left, inner_right = left[-1], right[batch]
    ledger.norms.reads(inner_left.origin, second)
    ledger.norms.reads(inner_right.origin, first)
    ledger.tie(inner_left, inner_right)
    if inner_left.origin is None and inner_right.origin is None:
        ledger.forbid([inner_left], "it is summed over between two activations")
    dims: Label = []
    for a, b in zip(left[:batch], right[:batch], strict=True):
        ledger.tie(a, b)
        ledger.use(a, "follow")
        ledger.use(b, "follow")
        dims.append(Dim(a.layout))
    outer = [left[-2], *right[batch + 1 :]]
    ledger.use(inner_left, "in")
    ledger.use(inner_right, "in")
    for dim in outer:
        ledger.use(dim, "out")
        dims.append(Dim(dim.layout))
    if op.overloadpacket in (aten.addmm, aten.baddbmm):
        bias = ledger.read(args["self"])
        for dim, target in zip(reversed(bias), reversed(dims), strict=False):
            ledger.tie(target, dim)
            ledger.use(dim, "out")
    ledger.works.append(Work(ledger.module, 1, tuple(dim.layout for dim in (*dims, inner_left))))
    ledger.write(result, dims)


@rule(aten.convolution)
def convolution(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Convolutions of any dimension, plain, grouped, depthwise and transposed."""
    x, weight = ledger.read(args["input"]), ledger.read(args["weight"])
    groups = args["groups"]
    made, summed = (weight[1], weight[0]) if args["transposed"] else (weight[0], weight[1])
    if groups == 1:
        ledger.tie(x[1], summed)
        ledger.use(summed, "in")
        ledger.use(made, "out")
        ledger.norms.reads(summed.origin, args["input"])
        out: Layout = made.layout
    else:
        out = _grouped(ledger, args, x[1], weight, made, summed)
    if args["bias"] is not None:
        (bias,) = ledger.read(args["bias"])
        unify(bias.layout, out)
        # The bias of a depthwise convolution goes along with its channels; every other one makes them.
        follows = groups > 1 and args["weight"].shape[1] == 1 and not args["transposed"]
        ledger.use(bias, "follow" if follows else "out", "zero")
    kernel = math.prod(args["weight"].shape[2:])
    positions = math.prod((args["input"] if args["transposed"] else result).shape[2:])
    # weight[0] x weight[1] x kernel multiplications for each position, whatever the groups.
    ledger.works.append(Work(ledger.module, kernel * positions, (x[0].layout, weight[0].layout, weight[1].layout)))
    spatial = [Dim(fixed(size, "a position in the image")) for size in result.shape[2:]]
    ledger.write(result, [x[0], Dim(out), *spatial])


def _grouped(ledger: Ledger, args: dict[str, Any], x: Dim, weight: Label, made: Dim, summed: Dim) -> Layout:
    """Ties of a grouped convolution; returns the layout of the channels that it makes.

    With one input channel a group (depthwise) the number of groups is free and each output channel follows its
    input. Otherwise the number of groups is kept, and channels come in sets of one for each group.
    """
    groups = args["groups"]
    if args["transposed"]:
        ledger.forbid([x, made, summed], "a grouped transposed convolution is not supported,")
        return fixed(made.size * groups, f"a grouped transposed convolution in {ledger.place}")
    per_group = made.size // groups
    if summed.size == 1:
        group = x.layout if per_group == 1 else single(Axis(groups))
        unify(x.layout, group)
        inner = () if per_group == 1 else (Axis(per_group, f"a depthwise multiplier in {ledger.place}"),)
        layout: Layout = tuple((*term, *inner) for term in group)
        unify(made.layout, layout)
        ledger.use(made, "follow", "draw")
        ledger.norms.scaling.update([made.origin] if made.origin is not None else [])
        ledger.forbid([summed], "a depthwise filter sees one channel")
        ledger.counts.append((ledger.module, "groups", x.layout))
        return made.layout
    reason = f"a grouped convolution in {ledger.place} keeps its {groups} groups"
    unify(x.layout, ((Axis(groups, reason), summed.layout[0][0]),) if len(summed.layout) == 1 else x.layout)
    unify(made.layout, ((Axis(groups, reason), Axis(per_group)),))
    ledger.use(summed, "in")
    ledger.use(made, "out")
    return made.layout


@rule(
    aten.native_batch_norm, aten._native_batch_norm_legit, aten._native_batch_norm_legit_no_training,
    aten.cudnn_batch_norm, aten.miopen_batch_norm, aten._batch_norm_with_update, aten._batch_norm_no_update,
)  # fmt: skip
def batch_norm(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """Each channel is normalised by itself: everything of one entry a channel goes along."""
    x = ledger.read(args["input"])
    starts = {"weight": "one", "running_var": "one"}
    for name in ("weight", "bias", "running_mean", "running_var"):
        if args.get(name) is not None:
            (dim,) = ledger.read(args[name])
            ledger.tie(x[1], dim)
            ledger.use(dim, "follow", starts.get(name, "zero"))
            ledger.norms.scaling.update([dim.origin] if dim.origin is not None else [])
    _write_with_statistics(ledger, result, x)


# Older versions of torch make a norm by the root mean square of smaller operations.
_RMS_NORM = [aten._fused_rms_norm] if hasattr(aten, "_fused_rms_norm") else []


@rule(aten.native_layer_norm, *_RMS_NORM)
def layer_norm(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """The statistics run over the channels: ``norms.py`` says how there can be more of them."""
    x = ledger.read(args["input"])
    normalised = x[-len(args["normalized_shape"]) :]
    for name in ("weight", "bias"):
        if args.get(name) is not None:
            for target, dim in zip(normalised, ledger.read(args[name]), strict=True):
                ledger.tie(target, dim)
                ledger.use(dim, "follow", "one" if name == "weight" else "zero")
    if len(normalised) == 1:
        ledger.norms.add(ledger, args, centred=op.overloadpacket is aten.native_layer_norm)
    else:
        ledger.forbid(normalised, "a layer norm takes its statistics over these channels and positions,")
    _write_with_statistics(ledger, result, x)


@rule(aten.native_group_norm)
def group_norm(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """Each group is normalised by itself, so whole groups may be added: a block of channels at a time."""
    x = ledger.read(args["input"])
    groups = args["group"]
    members = x[1].size // groups
    inner = () if members == 1 else (Axis(members, f"a group norm in {ledger.place} keeps its groups whole"),)
    group = x[1].layout if members == 1 else single(Axis(groups))
    unify(x[1].layout, tuple((*term, *inner) for term in group))
    for name in ("weight", "bias"):
        if args.get(name) is not None:
            (dim,) = ledger.read(args[name])
            ledger.tie(x[1], dim)
            ledger.use(dim, "follow", "one" if name == "weight" else "zero")
    ledger.counts.append((ledger.module, "num_groups", group))
    ledger.counts.append((ledger.module, "num_channels", x[1].layout))
    _write_with_statistics(ledger, result, x)


def _write_with_statistics(ledger: Ledger, result: Any, label: Label) -> None:
    """Label a result whose dimensions are those of a label, and what the operation keeps beside it."""
    out, *statistics = tensors_in(result)
    ledger.write(out, [Dim(dim.layout) for dim in label])
    for tensor in statistics:
        ledger.write(tensor, [Dim(fixed(size, "saved statistics")) for size in tensor.shape])


@rule(aten.embedding)
def embedding(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """Rows are looked up by the input, columns are channels."""
    weight = ledger.read(args["weight"])
    ledger.forbid(weight[:1], "its rows are looked up by number")
    ledger.use(weight[1], "out")
    ledger.write(result, [*(Dim(dim.layout) for dim in ledger.read(args["indices"])), Dim(weight[1].layout)])


@rule(
    aten._scaled_dot_product_flash_attention_for_cpu, aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_efficient_attention, aten._scaled_dot_product_cudnn_attention,
)  # fmt: skip
def attention(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """Heads are independent; the size of a query is summed over and scales the scores.

    Fewer keys than queries are shared by groups of queries: head h reads key h // queries a key.
    """
    query, key, value = (ledger.read(args[name]) for name in ("query", "key", "value"))
    shared = query[1].size // key[1].size
    for other in (key, value):
        ledger.tie(query[0], other[0])
    ledger.tie(key[1], value[1])
    if shared == 1:
        ledger.tie(query[1], key[1])
    else:
        queries = Axis(shared)
        # Models of Hugging Face repeat the keys themselves where they are called with a mask.
        ledger.counts.append((ledger.module, "num_key_value_groups", single(queries)))
        unify(query[1].layout, tuple((*term, queries) for term in key[1].layout))
    ledger.tie(key[2], value[2])
    ledger.tie(query[3], key[3])
    ledger.forbid([query[3]], "queries and keys are multiplied over it, and it scales the scores,")
    mask = args.get("attn_mask") if args.get("attn_mask") is not None else args.get("attn_bias")
    if mask is not None:  # a bias for each head, or one for all
        scores = [query[0], query[1], query[2], key[2]]
        for dim, target in zip(reversed(ledger.read(mask)), reversed(scores), strict=False):
            ledger.tie(target, dim)
            ledger.use(dim, "follow")
    one = [query[0].layout, query[1].layout, query[2].layout, key[2].layout]
    ledger.works += [Work(ledger.module, 1, (*one, query[3].layout)), Work(ledger.module, 1, (*one, value[3].layout))]
    _write_with_statistics(ledger, result, [*query[:3], value[3]])


@rule(aten._softmax, aten._log_softmax, aten._safe_softmax, aten.cumsum)
def normalise(ledger: Ledger, op: Any, args: dict[str, Any], result: Tensor) -> None:
    """The entries along one dimension depend on each other."""
    label = ledger.read(args["self"])
    ledger.forbid([label[args["dim"]]], f"{op.overloadpacket.__name__.strip('_')} runs over it")
    ledger.write(result, [Dim(dim.layout) for dim in label])


@rule(aten.mean, aten.sum, aten.amax, aten.amin, aten.var, aten.std, aten.norm, aten.linalg_vector_norm, aten.max,
      aten.min, aten.argmax, aten.any, aten.all, aten.prod)  # fmt: skip
def reduction(ledger: Ledger, op: Any, args: dict[str, Any], result: Any) -> None:
    """What is reduced without weights may not change: no outgoing weight could make up for a copy."""
    if args.get("other") is not None:
        return follow(ledger, op, args, result)
    label = ledger.read(args["self"])
    wanted = args.get("dim")
    reduced = range(len(label)) if wanted in (None, []) else [wanted] if isinstance(wanted, int) else wanted
    places = {place % len(label) for place in reduced} if label else set()
    if not ledger.norms.begin(ledger, op, args, result):
        ledger.forbid([label[place] for place in sorted(places)], f"{op.overloadpacket.__name__} runs over it")
    keep = args.get("keepdim", False)
    dims = [
        Dim(fixed(1, "a reduced dimension")) if place in places else Dim(dim.layout, dim.origin)
        for place, dim in enumerate(label)
        if keep or place not in places
    ]
    for tensor in tensors_in(result):
        ledger.write(tensor, dims)
    return None
