"""The matrix products inside layers: which weights they use, and which inputs those weights are multiplied with.

A linear layer, a convolution, a recurrent layer and an embedding all multiply a weight matrix with columns of inputs.
Once the columns are known, a guard that works on inputs needs no other knowledge of layers.

Recurrent weights see the sequence or the previous states. torch returns the states of the last layer only, so that
those of each layer are computed again, one layer at a time. Departs from what ran where dropout lies between the
layers: the states are those without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.parameter import is_lazy
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ramet.errors import ConfigError
from ramet.guards.matrices import key_of
from ramet.guards.names import plain_names


@dataclass(frozen=True)
class Product:
    """One matrix product of one layer.

    Attributes:
        key: names the product, see ``key_of``; layers that share weight and bias are one product.
        local: the weight's name inside its layer; ``weight`` and ``bias`` are the parameters' own.
        bias: None where there is none. A bias is a weight whose input is 1.
        groups: independent products side by side, as in grouped convolutions.
        width: inputs of each group, the bias's among them.
        one_hot: whether inputs are indices, as in an embedding.
    """

    key: str
    local: str
    weight: str
    bias: str | None
    groups: int
    width: int
    one_hot: bool = False


def products_of(root: nn.Module) -> Iterator[tuple[nn.Module, list[Product]]]:
    """The layers of a module that multiply trainable weights with inputs, each with its products.

    Covered are linear layers, convolutions of one to three dimensions, embeddings, recurrent layers and recurrent
    cells. Others, such as norms, transposed convolutions, attention's fused projections and parametrised weights,
    are not; see ``uncovered``.

    Raises:
        ConfigError: for two layers with one weight and different biases, whose updates cannot be told apart.
    """
    raw = [name for name, _ in root.named_parameters(remove_duplicate=False)]
    plain = dict(zip(raw, plain_names(raw), strict=True))
    owner: dict[int, str] = {}
    for name, param in root.named_parameters(remove_duplicate=False):
        owner.setdefault(id(param), plain[name])
    keys: dict[str, str] = {}
    for prefix, layer in root.named_modules():
        products = []
        for weight, bias, groups, width, one_hot in _shapes(layer):
            param, own = getattr(layer, weight), plain[f"{prefix}.{weight}" if prefix else weight]
            name = owner[id(param)]
            bias_param = getattr(layer, bias) if bias else None
            key = key_of(own, name, bias_param is not None)
            if not one_hot and keys.setdefault(name, key) != key:
                if bias_param is not None or keys[name].partition("=")[0].endswith("+bias"):
                    raise ConfigError(f"layers that share a weight must have no bias of their own, but {key} has one.")
                key = keys[name]
            products.append(
                Product(
                    key=key,
                    local=weight,
                    weight=name,
                    bias=None if bias_param is None else owner[id(bias_param)],
                    groups=groups,
                    width=width + (bias_param is not None),
                    one_hot=one_hot,
                )
            )
        if products:
            yield layer, products


def uncovered(root: nn.Module) -> list[str]:
    """The trainable parameters of a module that belong to no product, by plain name."""
    products = [product for _, products in products_of(root) for product in products]
    covered = {product.weight for product in products} | {product.bias for product in products}
    named = [(name, param) for name, param in root.named_parameters() if param.requires_grad]
    return [name for name in plain_names(name for name, _ in named) if name not in covered]


def _shapes(layer: nn.Module) -> Iterator[tuple[str, str | None, int, int, bool]]:
    """Weight, bias, groups, width without the bias, and whether inputs are indices, for each product of a layer."""
    own = layer._parameters
    trainable = {n for n, p in own.items() if p is not None and p.requires_grad and not is_lazy(p)}
    if isinstance(layer, nn.Linear) and not isinstance(layer, nn.modules.linear.NonDynamicallyQuantizableLinear):
        if "weight" in trainable:
            yield "weight", "bias" if "bias" in trainable else None, 1, layer.in_features, False
    elif isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        if "weight" in trainable:
            width = layer.weight[0].numel()  # in / groups * kernel
            yield "weight", "bias" if "bias" in trainable else None, layer.groups, width, False
    elif isinstance(layer, nn.Embedding):
        if "weight" in trainable:
            yield "weight", None, 1, layer.num_embeddings, True
    elif isinstance(layer, nn.RNNBase | nn.RNNCellBase):
        for name in sorted(trainable):
            if name.startswith(("weight_ih", "weight_hh")):
                bias = name.replace("weight", "bias")
                yield name, bias if bias in trainable else None, 1, int(getattr(layer, name).shape[1]), False


def input_columns(
    layer: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], products: list[Product], *, mean: bool
) -> dict[str, Tensor]:
    """The inputs that each product of a layer is multiplied with in one call, in columns, by the product's key.

    They are [groups, width, n] with a last row of ones for a bias, in at least float32; ``mean`` gives one column, the
    mean over samples and positions. For an embedding it is the number of times that each index occurs,
    [num_embeddings].
    """
    x_given = args[0] if args else kwargs["input"]
    state = args[1] if len(args) > 1 else kwargs.get("hx")
    if isinstance(layer, nn.Embedding):
        counts = torch.bincount(x_given.reshape(-1), minlength=layer.num_embeddings)
        # Departs from "mean": the mean of one-hot inputs is dense and would close no single row; counts are as cheap.
        return {products[0].key: counts.to(torch.promote_types(layer.weight.dtype, torch.float32))}
    if isinstance(layer, nn.RNNBase):
        found = recurrent_inputs(layer, x_given, state)
    elif isinstance(layer, nn.RNNCellBase):
        found = cell_inputs(layer, x_given, state)
    elif isinstance(layer, nn.Linear):
        found = {"weight": precise(x_given).reshape(-1, layer.in_features).mT.unsqueeze(0)}
    else:
        assert isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        found = {"weight": _patches(layer, x_given, mean=mean)}
    columns = {}
    for product in products:
        x = found[product.local]
        x = x.mean(-1, keepdim=True) if mean and x.shape[-1] > 1 else x
        if product.bias is not None:
            x = torch.cat([x, x.new_ones(x.shape[0], 1, x.shape[2])], dim=1)
        columns[product.key] = x
    return columns


def precise(x: Tensor) -> Tensor:
    """The tensor without its graph, in at least float32."""
    return x.detach().to(torch.promote_types(x.dtype, torch.float32))


def _patches(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, *, mean: bool) -> Tensor:
    """What a convolution's filters see, [groups, in / groups * kernel, n]; the mean only over samples."""
    dims = len(layer.kernel_size)
    x = precise(x if x.dim() == dims + 2 else x.unsqueeze(0))
    if mean:
        # Taking patches is linear, so that the mean may be taken first, at a fraction of the cost.
        x = x.mean(0, keepdim=True)
    # torch keeps the padding that forward applies, also for 'same', in the order that pad wants.
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    x = functional.pad(x, layer._reversed_padding_repeated_twice, mode=mode)
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    if dims == 1:
        x, kernel, stride, dilation = x.unsqueeze(2), (1, *kernel), (1, *stride), (1, *dilation)
    if dims < 3:
        patches = functional.unfold(x, kernel, dilation=dilation, stride=stride)  # [batch, in * kernel, positions]
    else:
        patches = _unfold_3d(x, kernel, stride, dilation)
    batch, width, positions = patches.shape
    patches = patches.reshape(batch, layer.groups, width // layer.groups, positions)
    return patches.permute(1, 2, 0, 3).reshape(layer.groups, width // layer.groups, batch * positions)


def _unfold_3d(x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> Tensor:
    """``functional.unfold`` for volumes, which torch lacks: [batch, in * kernel, positions]."""
    for axis, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True), start=2):
        reach = gap * (size - 1) + 1
        x = x.unfold(axis, reach, step)[..., ::gap]  # the window becomes a last axis of its own
    batch, channels = x.shape[:2]
    return x.permute(0, 1, 5, 6, 7, 2, 3, 4).reshape(batch, channels * kernel[0] * kernel[1] * kernel[2], -1)


def cell_inputs(cell: nn.RNNCellBase, x: Tensor, state: Any) -> dict[str, Tensor]:
    """The input and the previous state of one step of a cell, [1, width, n] each, by the weight's name."""
    hidden = state[0] if isinstance(state, tuple) else state
    x = precise(x).reshape(-1, cell.input_size)
    hidden = x.new_zeros(x.shape[0], cell.hidden_size) if hidden is None else precise(hidden)
    return {"weight_ih": x.mT.unsqueeze(0), "weight_hh": hidden.reshape(-1, cell.hidden_size).mT.unsqueeze(0)}


def recurrent_inputs(layer: nn.RNNBase, x: Tensor | PackedSequence, state: Any) -> dict[str, Tensor]:
    """The inputs of every weight matrix of an ``nn.RNN``, ``nn.LSTM`` or ``nn.GRU``, of any depth and direction.

    ``x`` is a batch, a single sequence, or packed sequences; ``state`` the initial state as it was given to the layer.
    For each ``weight_ih_l0``, ``weight_hh_l0`` and so on it gives the columns [1, width, n], one a sample and time
    step.
    """
    sequence, lengths = _time_major(layer, x)  # [time, batch, features], [batch]
    time, batch, _ = sequence.shape
    hidden, memory = _initial(layer, state, batch, sequence)
    directions = 2 if layer.bidirectional else 1
    valid = torch.arange(time, device=sequence.device).unsqueeze(1) < lengths.to(sequence.device)  # [time, batch]
    found: dict[str, Tensor] = {}
    for depth in range(layer.num_layers):
        places = slice(depth * directions, (depth + 1) * directions)
        start = hidden[places]  # [directions, batch, hidden]
        first = (start, memory[places]) if memory is not None else start
        states = _run_layer(layer, depth, sequence, lengths, first)  # [time, batch, directions * hidden]
        for direction, own in enumerate(states.chunk(directions, dim=-1)):
            name = f"l{depth}" + ("_reverse" if direction else "")
            previous = _previous(own, start[direction], lengths, backwards=bool(direction))
            found[f"weight_ih_{name}"] = sequence[valid].mT.unsqueeze(0)  # [1, width, n]
            found[f"weight_hh_{name}"] = previous[valid].mT.unsqueeze(0)
        sequence = states
    return found


def _time_major(layer: nn.RNNBase, x: Tensor | PackedSequence) -> tuple[Tensor, Tensor]:
    """The sequences as [time, batch, features], and their lengths on the CPU."""
    if isinstance(x, PackedSequence):
        sequence, lengths = pad_packed_sequence(x)
        return precise(sequence), lengths
    sequence = precise(x.unsqueeze(1) if x.dim() == 2 else x.transpose(0, 1) if layer.batch_first else x)
    return sequence, torch.full((sequence.shape[1],), sequence.shape[0])


def _initial(layer: nn.RNNBase, state: Any, batch: int, like: Tensor) -> tuple[Tensor, Tensor | None]:
    """The initial hidden state, [layers * directions, batch, hidden], and an LSTM's initial memory."""
    places = layer.num_layers * (2 if layer.bidirectional else 1)
    hidden_size = layer.proj_size or layer.hidden_size
    is_lstm = isinstance(layer, nn.LSTM)
    if state is None:
        memory = like.new_zeros(places, batch, layer.hidden_size) if is_lstm else None
        return like.new_zeros(places, batch, hidden_size), memory
    hidden = precise(state[0] if is_lstm else state).reshape(places, batch, hidden_size)
    return hidden, precise(state[1]).reshape(places, batch, layer.hidden_size) if is_lstm else None


def _run_layer(layer: nn.RNNBase, depth: int, sequence: Tensor, lengths: Tensor, first: Any) -> Tensor:
    """The states of one layer alone, [time, batch, directions * hidden]."""
    options: dict[str, Any] = {"proj_size": layer.proj_size} if isinstance(layer, nn.LSTM) else {}
    if isinstance(layer, nn.RNN):
        options["nonlinearity"] = layer.nonlinearity
    kind: Any = type(layer)
    alone = kind(
        sequence.shape[-1],
        layer.hidden_size,
        bias=layer.bias,
        bidirectional=layer.bidirectional,
        device="meta",
        dtype=sequence.dtype,
        **options,
    )
    weights = {}
    for name, _ in alone.named_parameters():
        weights[name] = precise(getattr(layer, name.replace("_l0", f"_l{depth}")))
    packed = pack_padded_sequence(sequence, lengths, enforce_sorted=False)
    states, _ = functional_call(alone, weights, (packed, first))
    return pad_packed_sequence(states, total_length=sequence.shape[0])[0]


def _previous(states: Tensor, start: Tensor, lengths: Tensor, *, backwards: bool) -> Tensor:
    """The state before each step, [time, batch, hidden]; the initial one before a sequence's first step."""
    if not backwards:
        return torch.cat([start.unsqueeze(0), states[:-1]])
    shifted = torch.cat([states[1:], start.unsqueeze(0)])
    last = (lengths - 1).to(states.device)
    shifted[last, torch.arange(len(last), device=states.device)] = start
    return shifted
