"""The Kronecker factors of one product: the second moments of its inputs and of its output gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ramet.guards.closing import finite_columns, gram_of
from ramet.guards.listening import SeenProduct
from ramet.guards.precision import precise
from ramet.guards.ranks import sum_over_ranks


def output_columns(gradient: Tensor, seen: SeenProduct) -> tuple[Tensor, int]:
    """The gradients of a product's outputs in columns, [groups, outputs / groups, n], and the number of samples.

    The gradient of a mean over N samples is a sample's own gradient divided by N, which is undone here. It is [batch,
    ..., outputs] for a linear layer, [batch, outputs, ...] for a convolution; n is samples times positions.
    """
    gradient = precise(gradient)
    if seen.axis == -1:
        gradient = gradient.unsqueeze(0) if gradient.dim() == 1 else gradient
        num_samples = seen.num_samples or gradient.shape[0]
        columns = gradient.reshape(-1, gradient.shape[-1]).mT
    else:
        gradient = gradient if gradient.dim() == seen.num_axes else gradient.unsqueeze(0)
        num_samples = gradient.shape[0]
        columns = gradient.transpose(0, 1).reshape(gradient.shape[1], -1)
    groups = seen.product.groups
    return finite_columns(columns.reshape(groups, -1, columns.shape[-1]) * num_samples), num_samples


class Factors:
    """The second moments of one product's inputs and output gradients, gathered by the names of ``PARTS``."""

    PARTS: ClassVar[tuple[str, ...]] = ("input_sum", "gradient_sum", "num_inputs", "num_gradients", "num_samples")

    def __init__(self, key: str, sums: dict[str, Tensor] | None = None) -> None:
        self.key = key
        self.sums = dict(sums or {})

    def add_inputs(self, columns: Tensor, num_repeats: int = 1) -> None:
        """Take the inputs of one forward pass, [groups, width, n], which ``num_repeats`` ranks take alike."""
        self._add("input_sum", gram_of(finite_columns(columns)) / num_repeats)
        self._add("num_inputs", torch.tensor(columns.shape[-1] / num_repeats, dtype=torch.float64))

    def add_gradients(self, columns: Tensor, num_samples: int, num_repeats: int = 1) -> None:
        """Take the samples' output gradients of one backward pass, [groups, outputs, n], likewise."""
        self._add("gradient_sum", gram_of(columns) / num_repeats)
        self._add("num_gradients", torch.tensor(columns.shape[-1] / num_repeats, dtype=torch.float64))
        self._add("num_samples", torch.tensor(num_samples / num_repeats, dtype=torch.float64))

    def _add(self, part: str, value: Tensor) -> None:
        kept = self.sums.get(part)
        self.sums[part] = value if kept is None else kept.to(value.device) + value

    def moments(self, group: Any | None) -> tuple[Tensor, Tensor] | None:
        """A, summed over positions and averaged over samples, and G, averaged over both; None without a backward."""
        if len(self.sums) < len(self.PARTS):
            return None
        sum_over_ranks([self.sums[part] for part in self.PARTS], group)
        positions = float(self.sums["num_gradients"] / self.sums["num_samples"])
        inputs = self.sums["input_sum"] * (positions / float(self.sums["num_inputs"]))
        outputs = self.sums["gradient_sum"] / float(self.sums["num_gradients"])
        return _bounded(inputs), _bounded(outputs)


def _bounded(moments: Tensor) -> Tensor:
    """The matrix scaled down where its values are so large that products of them would overflow in float32."""
    return moments * (1e15 / moments.abs().amax().clamp(min=1e15))
