"""Weight plasticity with a Fisher information that knows which weights act together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.kronecker_factors import (
    Factors,
    KroneckerMemory,
    interaction_gradient,
    output_columns,
    proximal_interaction,
)
from ramet.guards.layers import Product, precise
from ramet.guards.listening import Watched, listening, watched_layers
from ramet.guards.matrices import joined, parted, weight_of
from ramet.guards.names import StepSizes, matches, sizes_of
from ramet.guards.plasticity import Form, check_form, check_strength
from ramet.guards.quadratic import all_finite
from ramet.guards.ranks import part_of, process_group_of, world_size
from ramet.params import Params


class KroneckerPlasticity(Guard):
    r"""Weight plasticity by whole layers: a direction of the weights that no input excites costs nothing.

    The interaction term :math:`v^\top \Omega v` of Eq. 3 with a Kronecker-factored Fisher information. The diagonal of
    Eq. 7 takes every weight for itself. Here each layer has a full matrix in the form
    :math:`\Omega = A \otimes G`, with the second moments :math:`A = E[a a^\top]` of its inputs and
    :math:`G = E[g g^\top]` of its output gradients, so that for a layer's weights :math:`W` and anchor :math:`\hat W`

    .. math:: \frac\alpha2 v^\top \Omega v = \frac\alpha2 \operatorname{tr}(V^\top G V A), \qquad V = W - \hat W .

    A direction of the weights that no input excites costs nothing, even when every single weight matters. With layers
    taken as independent, the block :math:`H_{1s}` between one model's own layers and the shared ones is zero, and so
    :math:`\Omega = H_{ss}`, as with the diagonal. For a convolution, ``A`` sums over positions and ``G`` averages.

    Both factors come from the forward and backward passes inside ``watch``; the loss must be a mean over the batch.

    Args:
        strength: alpha, how firmly earlier models are held.
        form: "implicit", the penalty's proximal step after the optimizer's, solved exactly in the factors' eigenbases;
            or "explicit", its gradient; see ``WeightPlasticity``.
        protect: shell patterns of the weight names that are guarded.
        max_width: the widest layer, in inputs or outputs, that is guarded; wider ones are refused.

    Raises:
        ConfigError: for a value outside its range; from ``watch`` for a layer that is too wide.

    Example:
        >>> layer = nn.Linear(2, 1, bias=False)
        >>> guard, params = KroneckerPlasticity(1.0), dict(layer.named_parameters())
        >>> with guard.watch(layer):
        ...     layer(torch.tensor([[1.0, 1.0]])).mean().backward()
        >>> guard.remember(params)
        >>> [round(guard.penalty({"weight": layer.weight + torch.tensor([v])}).item(), 3) for v in ([1.0, 1], [1, -1])]
        [4.0, 0.0]

    Covered are linear layers and convolutions with their biases. A sum of Kronecker products is none, so after several
    models ``A`` and ``G`` are means over them, times their number, and the anchor is the model finished last.

    Reference: Benyahia, Yu et al., Overcoming Multi-model Forgetting, 2019, Eq. 3, which leaves this open. Factors
    after Martens and Grosse, 2015, and Grosse and Martens, 2016, for convolutions.
    """

    def __init__(
        self,
        strength: float = 60.0,
        *,
        form: Form = "implicit",
        protect: Sequence[str] = ("*",),
        max_width: int = 4096,
    ) -> None:
        check_strength(strength)
        check_form(form)
        if max_width < 1:
            raise ConfigError(f"max_width must be at least 1, but got {max_width}.")
        self.strength = strength
        self.form = form
        self.protect = tuple(protect)
        self.max_width = max_width
        self._group: Any | None = None
        self._layers: dict[str, KroneckerMemory] = {}
        self._gathered: dict[str, Factors] = {}
        self._added: list[tuple[Tensor, Tensor]] = []

    @contextmanager
    def watch(self, module: nn.Module) -> Iterator[None]:
        """Gather the factors of the layers that run forward and backward inside the block."""
        layers: Watched = [
            (layer, products)
            for layer, products in watched_layers(module, lambda product: matches(product.weight, self.protect))
            if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d)
        ]
        for layer, (product, *_) in layers:
            widest = max(product.width, getattr(layer, product.local).shape[0] // product.groups)
            if widest > self.max_width:
                raise ConfigError(
                    f"a layer may be at most max_width={self.max_width} wide, but {product.key} is {widest} wide."
                )
        self._group, part = process_group_of(module), part_of(module)
        num_repeats = world_size(self._group) if part is not None and part.repeated else 1

        def on_inputs(product: Product, columns: Tensor) -> None:
            if torch.is_grad_enabled():
                self._gathered.setdefault(product.key, Factors(product.key)).add_inputs(columns, num_repeats)

        def on_output_gradient(layer: nn.Module, products: list[Product], gradient: Tensor) -> None:
            # The loss of a part is a share of the mean over the whole mini-batch, not a mean of its own.
            columns, num_samples = output_columns(layer, gradient if part is None else gradient / part.weight)
            self._gathered[products[0].key].add_gradients(columns, num_samples, num_repeats)

        with listening(module, layers, on_inputs, mean=False, on_output_gradient=on_output_gradient):
            yield

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Fold the gathered factors in; the anchor becomes the finished model."""
        for key, factors in self._gathered.items():
            moments = factors.moments(self._group)
            if moments is None or weight_of(key) not in path:
                continue
            inputs, outputs = moments
            anchor = precise(joined(key, inputs.shape[0], inputs.shape[-1], path)).clone()
            if key in self._layers:
                self._layers[key].learn(inputs, outputs, anchor)
            else:
                self._layers[key] = KroneckerMemory(key, inputs, outputs, anchor, count=1)
        self._gathered = {}

    def penalty(self, params: Params) -> Tensor:
        """The sum over layers of v' Omega v, Eq. 3's interaction term without its factor; autograd goes through it."""
        terms = [layer.penalty(params) for layer in self._on(params)]
        return torch.stack(terms).sum() if terms else torch.zeros(())

    def before_step(self, path: Params) -> None:
        """In the explicit form, add the penalty's gradient."""
        self._added = []
        if self.form == "implicit" or self.strength == 0:
            return
        for layer in self._on(path):
            gradient = interaction_gradient(layer.change(path), layer.inputs, layer.outputs)
            limit = torch.finfo(gradient.dtype).max / 100
            gradient = (self.strength * layer.count * gradient).clamp(-limit, limit)
            for name, part in parted(layer.key, gradient, path).items():
                target = path[name].grad
                assert target is not None, "the path holds only parameters with a gradient"
                self._added.append((target, part.to(target.dtype)))
        if self._added:
            torch._foreach_add_([target for target, _ in self._added], [part for _, part in self._added])

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """In the implicit form, take the penalty's proximal step; in the explicit one, take its gradient back."""
        if self._added:
            torch._foreach_sub_([target for target, _ in self._added], [part for _, part in self._added])
            self._added = []
        if self.form == "explicit" or self.strength == 0:
            return
        layers = self._on(path)
        if not layers:
            return
        # As for weight plasticity: a step that a gradient scaler skipped must stay skipped.
        enabled = all_finite([param.grad for param in path.values() if param.grad is not None])
        sizes = sizes_of(step_sizes, [weight_of(layer.key) for layer in layers])
        for layer, size in zip(layers, sizes, strict=True):
            change = layer.change(path)
            pulled = proximal_interaction(change, layer.bases(), size * self.strength * layer.count)
            moves = parted(layer.key, torch.where(enabled > 0, pulled - change, 0.0), path)
            torch._foreach_add_([path[name] for name in moves], [part.to(path[name]) for name, part in moves.items()])

    def _on(self, path: Params) -> list[KroneckerMemory]:
        return [layer for key, layer in self._layers.items() if weight_of(key) in path]

    def forget(self) -> None:
        """Drop factors and anchors."""
        self._layers, self._gathered, self._added = {}, {}, []

    def report(self) -> dict[str, float]:
        """The strength, and how many values are guarded."""
        values = sum(layer.anchor.numel() for layer in self._layers.values())
        return {"alpha": self.strength, "guarded_values": float(values)}

    def state_dict(self) -> dict[str, Tensor]:
        """``inputs``, ``outputs``, ``anchor`` and ``count`` of each layer, and what was gathered for the next."""
        state = {f"{part}/{key}": t for key, layer in self._layers.items() for part, t in layer.tensors().items()}
        for key, factors in self._gathered.items():
            state.update({f"{part}/{key}": tensor for part, tensor in factors.sums.items()})
        return {name: tensor.contiguous().clone() for name, tensor in state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            part, _, key = name.partition("/")
            if part not in KroneckerMemory.PARTS + Factors.PARTS:
                raise ConfigError(f"a Kronecker state has keys such as inputs/WEIGHT, but got {name!r}.")
            parts.setdefault(key, {})[part] = tensor.clone()
        self.forget()
        for key, tensors in parts.items():
            if "anchor" in tensors:
                inputs, outputs, anchor, count = (tensors[part] for part in KroneckerMemory.PARTS)
                self._layers[key] = KroneckerMemory(key, inputs, outputs, anchor, float(count))
            gathered = {part: tensor for part, tensor in tensors.items() if part in Factors.PARTS}
            if gathered:
                self._gathered[key] = Factors(key, gathered)
