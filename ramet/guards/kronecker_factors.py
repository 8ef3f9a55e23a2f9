"""Kronecker factors of a layer's Fisher information: their moments, and the penalty, gradient and proximal step."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ramet.guards.closing import finite_columns, gram_of
from ramet.guards.layers import precise
from ramet.guards.matrices import joined, weight_of
from ramet.guards.ranks import sum_over_ranks
from ramet.params import Params

Bases = tuple[Tensor, Tensor, Tensor, Tensor]
"""Eigenvalues and eigenvectors of A, then of G."""


def interaction(change: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
    """The term v' Omega v with Omega the Kronecker product of A and G: the trace of V' G V A, summed over groups.

    Args:
        change: V, [groups, outputs, width].
        inputs: A, [groups, width, width].
        outputs: G, [groups, outputs, outputs].
    """
    return (change * interaction_gradient(change, inputs, outputs)).sum()


def interaction_gradient(change: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
    """Half the gradient of ``interaction``: G V A."""
    return outputs @ change @ inputs


def eigenbasis(inputs: Tensor, outputs: Tensor) -> Bases:
    """The eigenvalues, not below 0, and eigenvectors of both factors."""
    input_values, input_vectors = torch.linalg.eigh(inputs)
    output_values, output_vectors = torch.linalg.eigh(outputs)
    return input_values.clamp(min=0), input_vectors, output_values.clamp(min=0), output_vectors


def proximal_interaction(change: Tensor, bases: Bases, strength: float) -> Tensor:
    """The V that solves V + strength G V A = ``change``: the proximal step of ``strength / 2`` times ``interaction``.

    In the factors' eigenbases the equation falls apart into one for each value, and each shrinks by at most 1, so that
    no strength can make it diverge.
    """
    input_values, input_vectors, output_values, output_vectors = bases
    turned = output_vectors.mT @ change @ input_vectors  # [groups, outputs, width]
    pull = strength * output_values.unsqueeze(-1) * input_values.unsqueeze(-2)
    pulled: Tensor = output_vectors @ (turned / (1.0 + pull)) @ input_vectors.mT
    return pulled


def output_columns(layer: nn.Module, gradient: Tensor) -> tuple[Tensor, int]:
    """The gradients of a layer's outputs in columns, each sample's own, and the number of samples.

    The gradient of a mean over N samples is a sample's own gradient divided by N, which is undone here.

    Args:
        layer: a linear layer or a convolution.
        gradient: [batch, ..., outputs] for a linear layer, [batch, outputs, ...] for a convolution.

    Returns:
        [groups, outputs / groups, n]; n is samples times positions.
    """
    gradient = precise(gradient)
    groups = 1
    if isinstance(layer, nn.Linear):
        gradient = gradient.unsqueeze(0) if gradient.dim() == 1 else gradient
        num_samples = gradient.shape[0]
        columns = gradient.reshape(-1, gradient.shape[-1]).mT
    else:
        assert isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        groups = layer.groups
        gradient = gradient if gradient.dim() == len(layer.kernel_size) + 2 else gradient.unsqueeze(0)
        num_samples = gradient.shape[0]
        columns = gradient.transpose(0, 1).reshape(gradient.shape[1], -1)
    return finite_columns(columns.reshape(groups, -1, columns.shape[-1]) * num_samples), num_samples


class Factors:
    """The second moments of one product's inputs and output gradients, as they are gathered.

    Args:
        key: the product's key.
        sums: what was gathered before, by the names of ``PARTS``.
    """

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


class KroneckerMemory:
    """What is kept of one product: A, G, the anchor, and how many models they are the mean of."""

    PARTS: ClassVar[tuple[str, ...]] = ("inputs", "outputs", "anchor", "count")

    def __init__(self, key: str, inputs: Tensor, outputs: Tensor, anchor: Tensor, count: float) -> None:
        self.key = key
        self.inputs = inputs.to(anchor.dtype)
        self.outputs = outputs.to(anchor.dtype)
        self.anchor = anchor
        self.count = count
        self._bases: Bases | None = None

    def learn(self, inputs: Tensor, outputs: Tensor, anchor: Tensor) -> None:
        """Take the next model into the means, and its weights as the anchor."""
        self.count += 1
        self.inputs = torch.lerp(self.inputs, inputs.to(self.inputs), 1.0 / self.count)
        self.outputs = torch.lerp(self.outputs, outputs.to(self.outputs), 1.0 / self.count)
        self.anchor = anchor
        self._bases = None

    def change(self, params: Params) -> Tensor:
        """How far the parameters are from the anchor, [groups, outputs, width]."""
        self._move(params[weight_of(self.key)].device)
        return joined(self.key, self.anchor.shape[0], self.anchor.shape[-1], params) - self.anchor

    def _move(self, device: torch.device) -> None:
        if self.anchor.device != device:
            self.inputs, self.outputs, self.anchor = (t.to(device) for t in (self.inputs, self.outputs, self.anchor))
            self._bases = None

    def penalty(self, params: Params) -> Tensor:
        """The term v' Omega v of the parameters."""
        return self.count * interaction(self.change(params), self.inputs, self.outputs)

    def bases(self) -> Bases:
        """The eigenbases of the factors, computed when they have changed."""
        if self._bases is None:
            self._bases = eigenbasis(self.inputs, self.outputs)
        return self._bases

    def tensors(self) -> dict[str, Tensor]:
        """The parts by name."""
        count = torch.tensor(float(self.count))
        return {"inputs": self.inputs, "outputs": self.outputs, "anchor": self.anchor, "count": count}
