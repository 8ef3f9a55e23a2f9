"""What the network of every task looks like: a chain of named layers, and a head for each task."""

from __future__ import annotations

import copy
import math
from abc import ABC
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, Literal, Protocol, cast

from torch import Tensor, nn

from ramet.continual.networks import SKELETONS
from ramet.continual.networks.template import Template, seeded
from ramet.continual.networks.wiring import Wiring
from ramet.continual.streams.stream import TaskInfo
from ramet.costs import count_parameters
from ramet.data import InputForm
from ramet.errors import ConfigError, DataError
from ramet.tracing.axes import Axis, Layout, fixed, single


class Weights(Protocol):
    """What a linear map and a convolution have in common; those of a layer always have a bias."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class Layer:
    """One layer: a linear map or a convolution, batch norm if the skeleton has it, ReLU, and max-pooling if wanted.

    Attributes:
        name: How the layer is called in networks, records and explanations.
        kind: What its weights are.
        width: Its neurons, or channels.
        kernel: Height and width of a convolution's kernel.
        pool: Whether the image is halved afterwards by the maximum of 2 x 2 pixels; one of a single pixel is left.
    """

    name: str
    kind: Literal["linear", "conv"]
    width: int
    kernel: int = 1
    pool: bool = False


class LearnableNetwork(ABC):  # noqa: B024 - modules are none by inheritance
    """What a name or a function may give: a skeleton, or any module."""


LearnableNetwork.register(nn.Module)


@dataclass(frozen=True)
class Skeleton(Template, LearnableNetwork):
    """The chain of layers that every task has a copy of, or shares; heads are linear layers on top of it.

    A layer is a plain ``nn.Sequential`` with the parts ``flatten`` (where an image meets a linear layer), ``weights``,
    ``norm``, ``relu`` and ``pool``; a task's network is an ``nn.Sequential`` of layers by their names and ``head``.
    So a network that leaves ramet needs torch alone.

    Args:
        layers: The layers, in order.
        in_channels: The channels of an image.
        image_size: Its height and width.
        batch_norm: Whether each layer has batch norm between its weights and its ReLU.
        shared_head: Whether all tasks have one head, as permuted MNIST usually has, instead of one each.

    Raises:
        ConfigError: There is no layer, a width is not positive, two layers have one name, or a linear layer comes
            before a convolution.
        DataError: The images are too small for the convolutions.

    Example:
        >>> skeleton = mlp(100, 100, in_channels=1, image_size=(8, 8))
        >>> sum(parameter.numel() for parameter in skeleton.make_network(num_classes=2, seed=0).parameters())
        16802
    """

    layers: tuple[Layer, ...]
    in_channels: int
    image_size: tuple[int, int]
    batch_norm: bool = False
    shared_head: bool = False

    def __post_init__(self) -> None:
        if not self.layers:
            raise ConfigError("a network must have at least one layer below its heads, but got none.")
        if len({layer.name for layer in self.layers}) < len(self.layers):
            raise ConfigError(f"layers must have different names, but got {[layer.name for layer in self.layers]}.")
        kinds = [layer.kind for layer in self.layers]
        if kinds != sorted(kinds):  # conv < linear
            raise ConfigError(f"convolutions must come before linear layers, but got {kinds}.")
        for layer in self.layers:
            if layer.width < 1 or layer.kernel < 1:
                raise ConfigError(
                    f"the width and the kernel of a layer must be at least 1, but {layer.name} has others."
                )
        for place, layer in enumerate(self.layers):
            if layer.kind == "conv" and min(self.shape_before(place)[1:]) < layer.kernel:
                size = " x ".join(map(str, self.image_size))
                raise DataError(
                    f"images must leave a pixel for each convolution, but {size} is too small for {layer.name}."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The layers."""
        return tuple(layer.name for layer in self.layers)

    @property
    def form(self) -> InputForm:
        """An image; what reads one of a single pixel reads vectors."""
        return InputForm((self.in_channels, *self.image_size))

    def check(self, task: TaskInfo) -> None:
        """Refuse a task whose inputs are of another form; a vector is an image of a single pixel."""
        if task.form.kind != "vector" or task.form.pixels != self.form.shape or self.layers[0].kind != "linear":
            super().check(task)

    def shape_before(self, place: int) -> tuple[int, int, int]:
        """What layer ``place`` takes for one image: neurons, height and width; the head's place is ``len(layers)``."""
        neurons, height, width = self.in_channels, *self.image_size
        for layer in self.layers[:place]:
            if layer.kind == "linear":
                neurons, height, width = layer.width, 1, 1
                continue
            neurons, height, width = layer.width, height - layer.kernel + 1, width - layer.kernel + 1
            if layer.pool and min(height, width) > 1:
                height, width = height // 2, width // 2
        return neurons, height, width

    def spread(self, place: int) -> int:
        """How many inputs of layer ``place`` come from a neuron before it: the pixels, where an image is flattened."""
        is_conv = place < len(self.layers) and self.layers[place].kind == "conv"
        return 1 if is_conv else math.prod(self.shape_before(place)[1:])

    @cached_property
    def wiring(self) -> Wiring:
        """The neurons that each tensor of a network holds; weights and biases of layers are what tasks may share."""
        axes = tuple(Axis(layer.width) for layer in self.layers)
        layouts: dict[str, tuple[Layout, ...]] = {}
        for place in range(len(axes) + 1):
            inputs = self.shape_before(place)[0] * self.spread(place)
            pixels = fixed(self.spread(place), "pixels")[0]
            before = fixed(inputs, "an image") if place == 0 else ((axes[place - 1], *pixels),)
            is_head = place == len(axes)
            made = fixed(1, "classes") if is_head else single(axes[place])
            kernel = 1 if is_head else self.layers[place].kernel
            name = "head" if is_head else self.layers[place].name
            is_conv = not is_head and self.layers[place].kind == "conv"
            layouts[f"{name}.weights.weight"] = (made, before, *[fixed(kernel, "a kernel")] * (2 if is_conv else 0))
            layouts[f"{name}.weights.bias"] = (made,)
            if self.batch_norm and not is_head:
                of_norms = ("weight", "bias", "running_mean", "running_var")
                layouts |= {f"{name}.norm.{each}": (made,) for each in of_norms}
                layouts[f"{name}.norm.num_batches_tracked"] = ()
        weights = [f"{layer.name}.weights.weight" for layer in self.layers]
        shared = tuple(f"{name}.weights.{kind}" for name in self.names for kind in ("weight", "bias"))
        readers = frozenset((name, 1) for name in (*weights[1:], "head.weights.weight"))
        return Wiring(self.names, axes, layouts, readers, shared, "head.weights.weight")

    def make_layer(self, place: int, *, in_width: int | None = None, width: int | None = None) -> nn.Sequential:
        """A layer of fresh weights from the global generator (see ``seeded_globally``), of other widths if given."""
        layer = self.layers[place]
        neurons, height, size = self.shape_before(place)
        in_width, width = in_width or neurons, width or layer.width
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        if layer.kind == "conv":
            parts["weights"] = nn.Conv2d(in_width, width, layer.kernel)
            after = min(height, size) - layer.kernel + 1
        else:
            if self._meets_an_image(place):
                parts["flatten"] = nn.Flatten()
            parts["weights"] = nn.Linear(in_width * self.spread(place), width)
            after = 1
        if self.batch_norm:
            parts["norm"] = nn.BatchNorm2d(width) if layer.kind == "conv" else nn.BatchNorm1d(width)
        parts["relu"] = nn.ReLU()
        if layer.pool and after > 1:
            parts["pool"] = nn.MaxPool2d(2)
        return nn.Sequential(parts)

    def make_head(self, num_classes: int, *, in_width: int | None = None) -> nn.Sequential:
        """A fresh head: a linear layer on the last layer's output."""
        place = len(self.layers)
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        if self._meets_an_image(place):
            parts["flatten"] = nn.Flatten()
        parts["weights"] = nn.Linear((in_width or self.layers[-1].width) * self.spread(place), num_classes)
        return nn.Sequential(parts)

    def make_body(self, seed: int, *role: str | int) -> list[nn.Sequential]:
        """All layers afresh; layer i depends on the seed, the role and i alone."""
        return [seeded(partial(self.make_layer, place), seed, *role, place) for place in range(len(self.layers))]

    def make_features(self, seed: int, *role: str | int) -> nn.Sequential:
        """All layers afresh, one after the other."""
        return nn.Sequential(*self.make_body(seed, *role))

    def make_network(self, num_classes: int, seed: int, *role: str | int) -> nn.Sequential:
        """A whole fresh network of one task."""
        head = seeded(lambda: self.make_head(num_classes), seed, *role, "head")
        return self.assemble(self.make_body(seed, *role), head)

    def make_of_widths(self, widths: Sequence[int], num_classes: int) -> nn.Sequential:
        """A fresh network whose layers have other widths, drawn from the global generator."""
        return self.assemble(self.make_layers(widths), self.make_head_of_widths(widths, num_classes))

    def make_head_of_widths(self, widths: Sequence[int], num_classes: int) -> nn.Sequential:
        """A fresh head on a last layer of another width."""
        return self.make_head(num_classes, in_width=widths[-1])

    def make_layers(self, widths: Sequence[int]) -> list[nn.Sequential]:
        """Fresh layers of other widths, drawn from the global generator."""
        before = [None, *widths]
        return [self.make_layer(place, in_width=before[place], width=width) for place, width in enumerate(widths)]

    def assemble(self, layers: Sequence[nn.Module], head: nn.Module) -> nn.Sequential:
        """Layers and a head as one network, which shares their weights."""
        names = [layer.name for layer in self.layers]
        return nn.Sequential(OrderedDict([*zip(names, layers, strict=True), ("head", head)]))

    def joined(self, body: nn.Module, head: nn.Module) -> nn.Sequential:
        """A copy of layers that follow each other, and of a head."""
        return copy.deepcopy(self.assemble(list(body.children()), head))

    def body_of(self, network: nn.Module) -> nn.Sequential:
        """A copy of a network's layers, one after the other."""
        return nn.Sequential(*(copy.deepcopy(network.get_submodule(name)) for name in self.names))

    def head_of(self, network: nn.Module) -> nn.Module:
        """A copy of a network's head."""
        return copy.deepcopy(network.get_submodule("head"))

    def layer_sizes(self) -> list[int]:
        """The parameters of each layer."""
        return [count_parameters(self.make_layer(place)) for place in range(len(self.layers))]

    def to_json(self) -> dict[str, Any]:
        """JSON values, for a saved network; ``ramet.fields.from_json`` reads them."""
        return asdict(self)

    def _meets_an_image(self, place: int) -> bool:
        return place == 0 or self.layers[place - 1].kind == "conv"


SkeletonSource = str | Skeleton | Callable[..., Skeleton]
"""What names a skeleton: a text, a skeleton, or a function that makes one."""


def mlp(
    *widths: int, in_channels: int, image_size: tuple[int, int], batch_norm: bool = False, shared_head: bool = False
) -> Skeleton:
    """Linear layers: two of 100, or as many as widths are given, as in mlp:300,300,300; the rest is ``Skeleton``'s.

    Raises:
        ConfigError: A width is no positive whole number.
    """
    checked = _checked("mlp", widths) or (100, 100)
    layers = tuple(Layer(f"layer{i}", "linear", width) for i, width in enumerate(checked, start=1))
    return Skeleton(layers, in_channels, image_size, batch_norm, shared_head)


def conv(
    *widths: int, in_channels: int, image_size: tuple[int, int], batch_norm: bool = False, shared_head: bool = False
) -> Skeleton:
    """The paper's network for CIFAR: three max-pooled convolutions and two linear layers; or five widths after a colon.

    The paper's widths are 64 (4 x 4), 128 (3 x 3), 256 (2 x 2), 2048 and 2048; the rest is ``Skeleton``'s.

    Raises:
        ConfigError: A width is no positive whole number, or there are not five.
    """
    checked, kernels = _checked("conv", widths) or (64, 128, 256, 2048, 2048), (4, 3, 2)
    if len(checked) != 5:
        raise ConfigError(f"a network must be conv or conv: and five widths, but got {len(checked)}.")
    layers = [Layer(f"conv{i + 1}", "conv", checked[i], kernels[i], pool=True) for i in range(3)]
    layers += [Layer(f"linear{i - 2}", "linear", checked[i]) for i in (3, 4)]
    return Skeleton(tuple(layers), in_channels, image_size, batch_norm, shared_head)


def _checked(name: str, widths: tuple[Any, ...]) -> tuple[int, ...]:
    if any(not isinstance(width, int) or isinstance(width, bool) or width < 1 for width in widths):
        shown = ", ".join(map(repr, widths))
        raise ConfigError(f"a network must be {name} or {name}: and widths of at least 1, but got {shown}.")
    return widths


def make_skeleton(
    network: SkeletonSource = "mlp",
    *,
    in_channels: int,
    image_size: tuple[int, int],
    batch_norm: bool = False,
    head: str = "own",
    trusted: bool = True,
) -> Skeleton:
    """A skeleton by name, for images of some channels and size.

    ``mlp`` has two hidden layers of 100, ``mlp:300,300,300`` those widths. ``conv`` is the network of the paper for
    CIFAR: convolutions of 64 (4 x 4), 128 (3 x 3) and 256 (2 x 2) channels, each max-pooled, and two linear layers of
    2048; ``conv:8,16,32,64,64`` the same with other widths. ``FILE.py:function``, or a function itself, is one's own:
    it takes any of ``in_channels``, ``image_size``, ``batch_norm`` and ``shared_head``. ``head`` is ``own``, one for
    each task, or ``shared``. Code that a text names runs if it is trusted.

    Raises:
        ConfigError: The name has another form.
    """
    if head not in ("own", "shared"):
        raise ConfigError(f"head must be own or shared, but got {head!r}.")
    made = SKELETONS.make(
        network,
        trusted=trusted,
        in_channels=in_channels,
        image_size=image_size,
        num_classes=1,
        batch_norm=batch_norm,
        shared_head=head == "shared",
    )
    if not isinstance(made, Skeleton):
        raise ConfigError(f"a chain of layers must be mlp, conv or a Skeleton, but {network} is {type(made).__name__}.")
    return made


def weights_of(layer: nn.Module) -> Weights:
    """The linear map or the convolution of a layer or a head."""
    weights = layer.get_submodule("weights")
    assert isinstance(weights, nn.Linear | nn.Conv2d) and weights.bias is not None
    return cast(Weights, weights)


def norm_of(layer: nn.Module) -> nn.BatchNorm1d | nn.BatchNorm2d | None:
    """The batch norm of a layer, if it has one."""
    norm = dict(layer.named_children()).get("norm")
    assert norm is None or isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
    return norm
