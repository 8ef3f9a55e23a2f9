"""Weight plasticity with a Fisher information that knows which weights act together: Kronecker factors of layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.coverage import STATE_PARTS, Coverage
from ramet.guards.factors import Factors, output_columns
from ramet.guards.finite import all_finite
from ramet.guards.interaction import interaction_gradient, proximal_in_metric, proximal_interaction
from ramet.guards.kronecker_memory import KroneckerMemory
from ramet.guards.layers import RECURRENT, Product
from ramet.guards.listening import (
    Ears,
    SeenProduct,
    Slot,
    listening,
    planned_products,
)
from ramet.guards.matrices import bias_of, joined, names_of, parted, parts_of, weight_of
from ramet.guards.names import StepSizes, matches, patterns, require_state, sizes_of
from ramet.guards.placing import Place
from ramet.guards.precision import precise
from ramet.guards.quadratic import Form, Unit, check_penalty
from ramet.guards.ranks import part_of, process_group_of, world_size
from ramet.guards.turns import Turns
from ramet.guards.walking import Named, Walk, signature_of
from ramet.params import Params


class KroneckerPlasticity(Guard):
    """Weight plasticity by whole layers: a direction of the weights that no input excites costs nothing.

    The interaction term v' Omega v of Eq. 3 with a Kronecker-factored Fisher information. The diagonal of Eq. 7 takes
    every weight for itself. Here each layer has a full matrix in the form of a Kronecker product, Omega of A = E[a a'],
    the second moments of its inputs, and G = E[g g'], those of its output gradients. For a layer's weights W with
    anchor W^ the penalty alpha / 2 v' Omega v is alpha / 2 tr(V' G V A), V = W - W^: a direction that no input excites
    costs nothing, even when every single weight matters. With layers taken as independent, the block H_1s between one
    model's own layers and the shared ones is zero, and so Omega = H_ss, as with the diagonal. For a convolution, ``A``
    sums over positions and ``G`` averages. Both factors come from the forward and backward passes inside ``watch``; the
    loss must be a mean over the batch.

    Args:
        strength: alpha, how firmly earlier models are held.
        form: "implicit", the penalty's proximal step after the optimizer's, solved exactly in the factors' eigenbases;
            or "explicit", its gradient; see ``WeightPlasticity``.
        protect: shell patterns of the weight names that are guarded.
        unit: what the strength is measured in; see ``WeightPlasticity``. The mean of Omega is over the diagonals of all
            layers.
        max_width: the widest layer, in inputs or outputs, that is guarded; wider ones are refused.
        freeze_uncovered: hold still what a finished model uses and the guard does not cover.

    Raises:
        ConfigError: for a value outside its range; from ``watch`` for a layer that is too wide.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> guard, params = KroneckerPlasticity(1.0), dict(layer.named_parameters())
    >>> with guard.watch(layer):
    ...     layer(torch.tensor([[1.0, 1.0]])).mean().backward()
    >>> guard.remember(params)
    >>> [round(guard.penalty({"weight": layer.weight + torch.tensor([v])}).item(), 3) for v in ([1.0, 1], [1, -1])]
    [4.0, 0.0]

    Covered are the products of whole weight matrices with their biases: linear layers, attention's, matrix products,
    convolutions and bilinear forms. What is not, such as norms, embeddings, recurrent layers, and attention between two
    sequences, is named in an ``UncoveredWarning``, once. A sum of Kronecker products is none, so after several
    models ``A`` and ``G`` are means over them, times their number, and the anchor is the model finished last.

    Reference: Benyahia, Yu et al., Overcoming Multi-model Forgetting, 2019, Eq. 3, which leaves this open. Factors
    after Martens and Grosse, 2015, and Grosse and Martens, 2016, for convolutions.
    """

    least_turn = 2
    what_is_void = "Kronecker plasticity holds weights where the model trained last left them"

    needs_gradients = False

    def __init__(
        self,
        strength: float = 60.0,
        *,
        form: Form = "implicit",
        unit: Unit = "fisher",
        protect: str | Sequence[str] = "*",
        max_width: int = 4096,
        freeze_uncovered: bool = False,
    ) -> None:
        check_penalty(strength, form, unit)
        self.unit: Unit = unit
        self._mean: float | None = None
        if max_width < 1:
            raise ConfigError(f"max_width must be at least 1, but got {max_width}.")
        self.strength, self.form, self.protect, self.max_width = strength, form, patterns(protect), max_width
        self._group: Any | None = None
        self.freeze_uncovered = freeze_uncovered
        self._coverage = Coverage("Kronecker plasticity", freeze=freeze_uncovered)
        self._products: dict[Slot, Product] = {}
        self._places: dict[Any, Place | None] = {}
        self._walk = Walk()
        self._signature: list[Any] | None = None
        self._layers: dict[str, KroneckerMemory] = {}
        self._gathered: dict[str, Factors] = {}
        self._added: list[tuple[Tensor, Tensor]] = []
        self._before: dict[str, Tensor] = {}
        self._is_adaptive = False
        self._turns = Turns()

    @contextmanager
    def watch(self, module: nn.Module) -> Iterator[None]:
        """Gather the factors of the products that are made forward and backward inside the block."""
        layers, named = self._walk.over(module)
        signature = signature_of(named)
        if signature != self._signature:
            self._plan(module, named)
            self._signature = signature
        self._group, part = process_group_of(module), part_of(module)
        num_repeats = world_size(self._group) if part is not None and part.repeated else 1

        def on_product(seen: SeenProduct) -> None:
            if seen.output is None or not torch.is_grad_enabled():
                return
            factors = self._gathered.setdefault(seen.product.key, Factors(seen.product.key))
            self._check_width(seen.product, seen.output.shape[seen.axis])
            factors.add_inputs(seen.inputs, num_repeats)
            # A hook that held the output which it is on would keep it, and all of its graph, for good.
            told = seen._replace(output=None, inputs=seen.inputs.new_empty(0))

            def on_gradient(gradient: Tensor) -> None:
                # The loss of a part is a share of the mean over the whole mini-batch, not a mean of its own.
                columns, num_samples = output_columns(gradient if part is None else gradient / part.weight, told)
                factors.add_gradients(columns, num_samples, num_repeats)

            if seen.output.requires_grad:
                seen.output.register_hook(on_gradient)  # type: ignore[no-untyped-call]

        ears = Ears(
            self._products,
            on_product,
            self._is_wanted,
            kinds=("matrix",),
            with_outputs=True,
            places=self._places,
            missed=self._coverage.missed,
        )
        with listening(layers, named, ears):
            yield

    def _plan(self, module: nn.Module, named: Named) -> None:
        """Refuse layers that are too wide; what is remembered of a layer stays, with the bias that it had."""
        params = dict(named)
        planned = planned_products(module, self._is_wanted)
        hidden = {id(p) for layer in module.modules() if isinstance(layer, RECURRENT) for p in layer.parameters()}
        for slot, product in planned.items():
            weight = params[product.weight]
            if slot in self._products and self._products[slot].key in self._layers:
                planned[slot] = self._products[slot]
            elif product.kind == "matrix" and not product.transposed and id(weight) not in hidden:
                self._check_width(product, weight.shape[0])
        self._products = {**self._products, **planned}

    def _check_width(self, product: Product, num_outputs: int) -> None:
        widest = max(product.width, num_outputs // product.groups)
        if widest > self.max_width:
            raise ConfigError(
                f"a layer may be at most max_width={self.max_width} wide, but {product.key} is {widest} wide."
            )

    def _is_wanted(self, name: str) -> bool:
        return matches(name, self.protect)

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Fold the gathered factors in; the anchor becomes the finished model."""
        self._turns.finish(self)
        self._mean = None
        for key, factors in self._gathered.items():
            moments = factors.moments(self._group)
            if moments is None or weight_of(key) not in path:
                continue
            inputs, outputs = moments
            anchor = precise(joined(key, inputs.shape[0], inputs.shape[-1], path)).clone()
            if (bias := bias_of(key)) is not None and bias not in path and key in self._layers:
                anchor[..., -1] = self._layers[key].anchor[..., -1]  # it does not train, and is where it was
            if key in self._layers:
                self._layers[key].learn(inputs, outputs, anchor)
            else:
                self._layers[key] = KroneckerMemory(key, inputs, outputs, anchor, count=1)
        self._gathered = {}
        covered = [names_of(key, path) for key in self._layers]
        self._coverage.finish(path, covered, self._is_wanted)

    def discard(self) -> None:
        """Drop the factors gathered since the last ``remember``."""
        self._gathered = {}
        self._coverage.discard()

    def penalty(self, params: Params) -> Tensor:
        """The sum over layers of v' Omega v, Eq. 3's interaction term without its factor; autograd goes through it."""
        terms = [layer.penalty(params) for layer in self._on(params)]
        return torch.stack(terms).sum() if terms else torch.zeros(())

    def before_step(self, path: Params) -> None:
        """In the explicit form, add the penalty's gradient."""
        self._coverage.note(path)
        self._added, self._before = [], {}
        if self._is_adaptive:
            self._before = {layer.key: layer.change(path) for layer in self._on(path)}
        if self.form == "implicit" or self.strength == 0:
            return
        for layer in self._on(path):
            gradient = interaction_gradient(layer.change(path), layer.inputs, layer.outputs)
            limit = torch.finfo(gradient.dtype).max / 100
            gradient = (self.strength / self._scale() * layer.count * gradient).clamp(-limit, limit)
            for name, part in parted(layer.key, gradient, path).items():
                target = path[name].grad
                assert target is not None, "the path holds only parameters with a gradient"
                self._added.append((target, part.to(target.dtype)))
        if self._added:
            torch._foreach_add_([target for target, _ in self._added], [part for _, part in self._added])

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """In the implicit form, take the penalty's proximal step; in the explicit one, take its gradient back."""
        self.undo_step(path)
        self._turns.step()
        layers = self._on(path)
        if self.form == "implicit" and self.strength > 0 and layers:
            self._pull(layers, path, step_sizes)
        self._coverage.hold(path)

    def _pull(self, layers: list[KroneckerMemory], path: Params, step_sizes: StepSizes) -> None:
        # As for weight plasticity: a step that a gradient scaler skipped must stay skipped.
        enabled = all_finite([param.grad for param in path.values() if param.grad is not None])
        names = [weight_of(layer.key) for layer in layers]
        biases = [bias for layer in layers if (bias := bias_of(layer.key)) is not None]
        sizes = dict(zip(names + biases, sizes_of(step_sizes, names + biases), strict=True))
        self._is_adaptive = any(isinstance(size, Tensor) for size in sizes.values())
        for layer, name in zip(layers, names, strict=True):
            change, size, alpha = layer.change(path), sizes[name], self.strength / self._scale() * layer.count
            if self.unit == "hold":
                pulled = proximal_interaction(change, layer.bases(), alpha / (1.0 - self.strength))
            elif isinstance(size, Tensor):
                metric = layer.matrix(
                    {n: torch.as_tensor(sizes[n]).expand_as(path[n]) for n in names_of(layer.key, path)}
                )
                start = self._before.get(layer.key, change)
                pulled = proximal_in_metric(change, *layer.acting[:2], alpha * metric, start)
            else:
                pulled = proximal_interaction(change, layer.bases(), size * alpha)
            moves = parted(layer.key, torch.where(enabled > 0, pulled - change, 0.0), path)
            torch._foreach_add_([path[name] for name in moves], [part.to(path[name]) for name, part in moves.items()])

    def _scale(self) -> float:
        """What Omega is divided by: its mean diagonal over all layers."""
        if self.unit == "fisher":
            return 1.0
        if self._mean is None:
            layers = self._layers.values()
            total, values = sum(one.trace() for one in layers), sum(one.anchor.numel() for one in layers)
            self._mean = max(total / max(values, 1), torch.finfo(torch.float32).tiny)
        return self._mean

    def undo_step(self, path: Params) -> None:
        """Take the penalty's gradient back."""
        if self._added:
            torch._foreach_sub_([target for target, _ in self._added], [part for _, part in self._added])
            self._added = []

    def _on(self, path: Params) -> list[KroneckerMemory]:
        return [layer.within(path) for key, layer in self._layers.items() if weight_of(key) in path]

    def forget(self) -> None:
        """Drop factors and anchors."""
        self._layers, self._gathered, self._added = {}, {}, []
        self._products, self._signature, self._mean = {}, None, None
        self._coverage.forget()

    def report(self) -> dict[str, float]:
        """The strength, and how many values are guarded."""
        values = sum(layer.anchor.numel() for layer in self._layers.values())
        return {"alpha": self.strength, "guarded_values": float(values)}

    def held(self) -> set[str]:
        """The weights and biases of the products that it has factors of, and what no product was seen of."""
        names = {name for key in self._layers for name in (weight_of(key), bias_of(key)) if name is not None}
        return names | self._coverage.uncovered

    def state_dict(self) -> dict[str, Tensor]:
        """``inputs``, ``outputs``, ``anchor`` and ``count`` of each layer, and what was gathered for the next."""
        state = {f"{part}/{key}": t for key, layer in self._layers.items() for part, t in layer.tensors().items()}
        for key, factors in self._gathered.items():
            state.update({f"{part}/{key}": tensor for part, tensor in factors.sums.items()})
        state.update(self._coverage.state_dict())
        return {name: tensor.contiguous().clone() for name, tensor in state.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        require_state(state)
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            part, _, key = name.partition("/")
            if part in STATE_PARTS:
                continue
            if part not in KroneckerMemory.PARTS + KroneckerMemory.ACTING + Factors.PARTS:
                raise ConfigError(f"a Kronecker state has keys such as inputs/WEIGHT, but got {name!r}.")
            parts.setdefault(key, {})[part] = tensor.clone()
        self.forget()
        self._coverage.load_state_dict(state)
        for key, tensors in parts.items():
            if "anchor" in tensors:
                inputs, outputs, anchor, count = (tensors[part] for part in KroneckerMemory.PARTS)
                acting = [tensors[part] for part in KroneckerMemory.ACTING if part in tensors]
                made_of = (acting[0], acting[1], float(acting[2])) if acting else None
                self._layers[key] = KroneckerMemory(key, inputs, outputs, anchor, float(count), made_of)
            moments = next(tensors[part] for part in ("inputs", "input_sum") if part in tensors)
            names = parts_of(key)
            groups, width = moments.shape[:2]
            product = Product(key, "", names.weight, names.bias, groups, width, "matrix", names.transposed)
            self._products[product.slot] = product
            gathered = {part: tensor for part, tensor in tensors.items() if part in Factors.PARTS}
            if gathered:
                self._gathered[key] = Factors(key, gathered)
