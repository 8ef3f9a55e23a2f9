"""The matrix products inside layers: which weights they use, and which inputs those weights are multiplied with.

A linear layer, a convolution, a recurrent layer and an embedding all multiply a weight matrix with columns of inputs.
Once the columns are known, a guard that works on inputs needs no other knowledge of layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import is_lazy

from ramet.errors import ConfigError
from ramet.guards.matrices import key_of
from ramet.guards.names import plain_names
from ramet.guards.recurrent import cell_inputs, recurrent_inputs


@dataclass(frozen=True)
class Product:
    """One matrix product of one layer.

    Attributes:
        key: names the product, see ``key_of``; layers that share weight and bias are one product.
        local: the weight's name inside its layer.
        weight: the name of the weight parameter.
        bias: the name of the bias parameter, or None. A bias is a weight whose input is 1.
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

    Args:
        layer: a layer that ``products_of`` gave.
        args: what it is called with.
        kwargs: likewise.
        products: its products.
        mean: one column, the mean over samples and positions, instead of all of them.

    Returns:
        [groups, width, n] with a last row of ones for a bias, in at least float32; for an embedding the number of times
        that each index occurs, [num_embeddings].
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
