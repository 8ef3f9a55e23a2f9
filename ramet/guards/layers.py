"""The products inside torch's layers: which weights they use, and how these are to be read.

A linear layer, a convolution, a recurrent layer, attention and an embedding all multiply a weight matrix with columns
of inputs. Once the columns are known, a guard that works on inputs needs no other knowledge of layers. What is known
here is known before a network runs, for the plan of the memory; ``listening`` sees all products as they happen, whoever
makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ramet.guards.convolutions import conv_columns
from ramet.guards.matrices import Marker, key_of
from ramet.guards.meetings import with_bias
from ramet.guards.names import plain_names
from ramet.guards.precision import precise
from ramet.guards.recurrent import cell_inputs, recurrent_inputs

Kind = Literal["matrix", "rows", "entries"]
"""Whether inputs are columns for a matrix, indices of its rows, or one for each entry of a parameter."""

CONVOLUTIONS = nn.Conv1d | nn.Conv2d | nn.Conv3d
RECURRENT = nn.RNNBase | nn.RNNCellBase
TRANSPOSED_CONVOLUTIONS = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
SCALED = nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm | nn.RMSNorm | nn.PReLU
"""Layers that multiply each channel with a scale and may add a shift."""


@dataclass(frozen=True)
class Product:
    """One product of one layer.

    Attributes:
        key: names the product, see ``key_of``; layers that share weight and bias are one product.
        local: the weight's name inside its layer; ``weight`` and ``bias`` are the parameters' own.
        bias: None where there is none. A bias is a weight whose input is 1.
        groups: independent products side by side, as in grouped convolutions.
        width: inputs of each group, the bias's among them.
        kind: what the inputs are.
        transposed: whether the weight is stored as [inputs, outputs].
    """

    key: str
    local: str
    weight: str
    bias: str | None
    groups: int
    width: int
    kind: Kind = "matrix"
    transposed: bool = False

    @property
    def one_hot(self) -> bool:
        """Whether inputs are indices, as in an embedding."""
        return self.kind == "rows"

    @property
    def slot(self) -> tuple[str, Kind, bool]:
        """What there can be only one product for: updates on one side of a weight are projected once."""
        return self.weight, self.kind, self.transposed


@dataclass(frozen=True)
class _Shape:
    """A product before its parameters have their names."""

    weight: str
    bias: str | None
    groups: int
    width: int
    kind: Kind = "matrix"
    transposed: bool = False


def products_of(root: nn.Module) -> Iterator[tuple[nn.Module, list[Product]]]:
    """The layers of torch's kinds in a module that multiply trainable weights with inputs, each with its products.

    Layers of one's own are not here; their products are seen when they run. Two layers with one weight are one product,
    and the bias in it is that of the first.
    """
    raw = [name for name, _ in root.named_parameters(remove_duplicate=False)]
    plain = dict(zip(raw, plain_names(raw), strict=True))
    owner: dict[int, str] = {}
    for name, param in root.named_parameters(remove_duplicate=False):
        owner.setdefault(id(param), plain[name])
    found: dict[tuple[str, Kind, bool], Product] = {}
    for prefix, layer in root.named_modules():
        products = []
        for shape in _shapes(layer):
            param, own = getattr(layer, shape.weight), plain[f"{prefix}.{shape.weight}" if prefix else shape.weight]
            name = owner[id(param)]
            bias_param = getattr(layer, shape.bias) if shape.bias else None
            marker: Marker = "^E" if shape.kind == "entries" else "^T" if shape.transposed else ""
            product = Product(
                key=key_of(own, name, bias_param is not None, marker),
                local=shape.weight,
                weight=name,
                bias=None if bias_param is None else owner[id(bias_param)],
                groups=shape.groups,
                width=shape.width + (bias_param is not None),
                kind=shape.kind,
                transposed=shape.transposed,
            )
            products.append(found.setdefault(product.slot, product))
        if products:
            yield layer, products


def unknown_before_they_run(root: nn.Module) -> list[str]:
    """The trainable parameters of a module that belong to no layer of torch's kinds, by plain name."""
    products = [product for _, products in products_of(root) for product in products]
    known = {product.weight for product in products} | {product.bias for product in products}
    named = [(name, param) for name, param in root.named_parameters() if param.requires_grad]
    return [name for name in plain_names(name for name, _ in named) if name not in known]


def _shapes(layer: nn.Module) -> Iterator[_Shape]:
    """The products of a layer."""
    own = layer._parameters
    trainable = {n: p for n, p in own.items() if p is not None and p.requires_grad and not is_lazy(p)}
    if isinstance(layer, nn.MultiheadAttention):
        yield from _attention_shapes(layer, trainable)
    elif isinstance(layer, RECURRENT):
        for name in sorted(trainable):
            if name.startswith(("weight_ih", "weight_hh", "weight_hr")):
                bias = name.replace("weight", "bias")
                yield _Shape(name, bias if bias in trainable else None, 1, int(trainable[name].shape[1]))
    elif isinstance(layer, SCALED):
        for name, param in trainable.items():
            yield _Shape(name, None, param.numel(), 1, "entries")
    elif isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        if "weight" in trainable:
            yield _Shape("weight", None, 1, layer.num_embeddings, "rows")
    elif isinstance(layer, TRANSPOSED_CONVOLUTIONS):
        if "weight" in trainable:
            yield _Shape("weight", None, layer.groups, layer.in_channels // layer.groups, transposed=True)
        if "bias" in trainable:  # a pixel of the input reaches many of the output, so that no bias goes with it
            yield _Shape("bias", None, layer.out_channels, 1, "entries")
    elif isinstance(layer, nn.Linear | nn.Bilinear | CONVOLUTIONS) and "weight" in trainable:
        groups = layer.groups if isinstance(layer, CONVOLUTIONS) else 1
        width = trainable["weight"][0].numel()  # of a convolution: in / groups * kernel
        yield _Shape("weight", "bias" if "bias" in trainable else None, groups, width)


def _attention_shapes(layer: nn.MultiheadAttention, trainable: Mapping[str, Tensor]) -> Iterator[_Shape]:
    """Queries, keys and values have one matrix or three; ``out_proj`` is a layer of its own."""
    packed = "in_proj_weight" in trainable
    if packed:
        bias = "in_proj_bias" if "in_proj_bias" in trainable else None
        yield _Shape("in_proj_weight", bias, 1, layer.embed_dim)
    for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
        if name in trainable:
            yield _Shape(name, None, 1, int(trainable[name].shape[1]))
    for name in ("bias_k", "bias_v") if packed else ("in_proj_bias", "bias_k", "bias_v"):
        if name in trainable:
            yield _Shape(name, None, trainable[name].numel(), 1, "entries")


def input_columns(
    layer: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    products: list[Product],
    *,
    mean: bool,
    by_position: bool = False,
) -> dict[str, Tensor]:
    """What each matrix of a layer meets in one call if it meets the layer's own input, by the product's key.

    The columns are [groups, width, n] with a last row of ones for a bias, in at least float32; ``mean`` gives one
    column, the mean over samples and positions, or ``by_position`` one for each position of an image. This is for
    recurrent layers, whose products torch does not show, and for linear layers and convolutions with a kernel of their
    own.
    """
    x = args[0] if args else kwargs["input"]
    state = args[1] if len(args) > 1 else kwargs.get("hx")
    if isinstance(layer, nn.RNNBase):
        found = recurrent_inputs(layer, x, state)
    elif isinstance(layer, nn.RNNCellBase):
        found = cell_inputs(layer, x, state)
    elif isinstance(layer, nn.Linear):
        found = {"weight": precise(x).reshape(-1, layer.in_features).mT.unsqueeze(0)}
    else:
        assert isinstance(layer, CONVOLUTIONS)
        # torch keeps the padding that forward applies, also for 'same', in the order that pad wants.
        pads, mode = layer._reversed_padding_repeated_twice, layer.padding_mode
        geometry = (layer.kernel_size, layer.stride, layer.dilation, layer.groups)
        found = {"weight": conv_columns(x, *geometry, pads=pads, padding_mode=mode, mean=mean)}
    pooled = mean and not (by_position and isinstance(layer, CONVOLUTIONS))
    return {p.key: with_bias(found[p.local], p.bias is not None, mean=pooled) for p in products if p.local in found}
