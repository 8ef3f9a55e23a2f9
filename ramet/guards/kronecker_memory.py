"""What Kronecker plasticity keeps of one product: factors, an anchor, and the eigenbases that its step needs."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ramet.guards.interaction import Bases, eigenbasis, interaction
from ramet.guards.matrices import bias_of, joined, parts_of, weight_of
from ramet.params import Params

Acting = tuple[Tensor, Tensor, float]
"""A, G, and how many models they are the mean of."""


class KroneckerMemory:
    """What is kept of one product: A, G, the anchor, and how many models they are the mean of.

    The eigenbases that the proximal step needs are costly, and one more model among many hardly changes a mean. So they
    are renewed when there are a tenth more models than they were made of: with each of the first ten, and ever more
    rarely then. In between the proximal step is that of ``acting``, the A and G that they were made of.
    """

    PARTS: ClassVar[tuple[str, ...]] = ("inputs", "outputs", "anchor", "count")
    ACTING: ClassVar[tuple[str, ...]] = ("acting_inputs", "acting_outputs", "acting_count")
    RENEWAL: ClassVar[float] = 1.1

    def __init__(
        self, key: str, inputs: Tensor, outputs: Tensor, anchor: Tensor, count: float, acting: Acting | None = None
    ) -> None:
        self.key = key
        self.inputs = inputs.to(anchor.dtype)
        self.outputs = outputs.to(anchor.dtype)
        self.anchor = anchor
        self.count = count
        self.acting = acting or (self.inputs, self.outputs, count)
        self._bases: Bases | None = None
        self._alone: KroneckerMemory | None = None

    def learn(self, inputs: Tensor, outputs: Tensor, anchor: Tensor) -> None:
        """Take the next model into the means, and its weights as the anchor."""
        self.count += 1
        self.inputs = torch.lerp(self.inputs, inputs.to(self.inputs), 1.0 / self.count)
        self.outputs = torch.lerp(self.outputs, outputs.to(self.outputs), 1.0 / self.count)
        self.anchor = anchor
        self._alone = None
        if self.count >= self.RENEWAL * self.acting[2]:
            self.acting, self._bases = (self.inputs, self.outputs, self.count), None

    def within(self, params: Params) -> KroneckerMemory:
        """This, or without the bias where that is not among the parameters: what does not train has not moved."""
        bias = bias_of(self.key)
        if bias is None or bias in params:
            return self
        if self._alone is None:
            names = parts_of(self.key)
            key, inputs = names.weight + names.marker, self.inputs[..., :-1, :-1]
            self._alone = KroneckerMemory(key, inputs, self.outputs, self.anchor[..., :-1], self.count)
        return self._alone

    def change(self, params: Params) -> Tensor:
        """How far the parameters are from the anchor, [groups, outputs, width]."""
        self._move(params[weight_of(self.key)].device)
        return self.matrix(params) - self.anchor

    def matrix(self, tensors: Params) -> Tensor:
        """Tensors of the parameters' shapes as one, [groups, outputs, width]."""
        return joined(self.key, self.anchor.shape[0], self.anchor.shape[-1], tensors)

    def _move(self, device: torch.device) -> None:
        if self.anchor.device != device:
            self.inputs, self.outputs, self.anchor = (t.to(device) for t in (self.inputs, self.outputs, self.anchor))
            inputs, outputs, count = self.acting
            self.acting, self._bases = (inputs.to(device), outputs.to(device), count), None

    def penalty(self, params: Params) -> Tensor:
        """The term v' Omega v of the parameters."""
        return self.count * interaction(self.change(params), self.inputs, self.outputs)

    def trace(self) -> float:
        """The sum of Omega's diagonal, for all models: of a Kronecker product it is the product of the traces."""
        factors = (self.inputs, self.outputs)
        inputs, outputs = (factor.diagonal(dim1=-2, dim2=-1).double().sum(-1) for factor in factors)  # [groups]
        return self.count * float((inputs * outputs).sum())

    def bases(self) -> Bases:
        """The eigenbases of the acting factors, computed when those have changed."""
        if self._bases is None:
            self._bases = eigenbasis(*self.acting[:2])
        return self._bases

    def tensors(self) -> dict[str, Tensor]:
        """The parts by name."""
        count = torch.tensor(float(self.count))
        found = {"inputs": self.inputs, "outputs": self.outputs, "anchor": self.anchor, "count": count}
        if self.acting[2] != self.count:
            acting = (*self.acting[:2], torch.tensor(float(self.acting[2])))
            found.update(zip(self.ACTING, acting, strict=True))
        return found
