"""GradMax: new neurons that change nothing now and get the largest gradient next.

Evci, van Merriënboer, Unterthiner, Vladymyrov and Pedregosa, *GradMax: growing neural networks using gradient
information* (ICLR 2022). With incoming weights of zero a new neuron is silent whatever its outgoing weights u are, and
the gradient of its incoming weights is M' u with M = E[dL/dz h'], where h comes in and z is what it adds to. The
outgoing weights of a group's k new neurons with the largest gradient norm are the k leading left singular vectors of M.

M is never formed: it is the mixed second derivative of the loss in u and the incoming weights, and a block power
iteration needs its products only, for every kind of layer alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.base import Edit, Growth, GrowthContext, MiniBatches, Proposal
from ramet.growth.methods.candidate_network import CandidateBlock, CandidateNetwork, Direction
from ramet.growth.methods.slopes import open_relu


class GradMax(Growth):
    """New neurons that change nothing now and get the largest gradient next.

    Args:
        num_new: new candidates for each group.
        scale: the norm of a new neuron's outgoing weights.
        epsilon: the norm of its incoming weights, along minus their gradient. The paper has 0; but ReLU's slope at 0 is
            0 in torch, and such a neuron would never wake.
        num_iterations: of the power iteration; each costs two passes forward and backward.
        num_batches: mini-batches that M is averaged over.

    Raises:
        ConfigError: for a number out of its range, or a network none of whose activations is zero at zero; groups whose
            activation is not are left alone.
    """

    def __init__(
        self,
        *,
        num_new: int = 50,
        scale: float = 1.0,
        epsilon: float = 1e-3,
        num_iterations: int = 5,
        num_batches: int = 4,
    ) -> None:
        if min(num_new, num_iterations, num_batches) < 1 or scale <= 0 or epsilon < 0:
            raise ConfigError(
                "num_new, num_iterations and num_batches must be at least 1, scale positive and epsilon not negative, "
                f"but got {num_new}, {num_iterations}, {num_batches}, {scale} and {epsilon}."
            )
        self.num_new, self.scale, self.epsilon = num_new, scale, epsilon
        self.num_iterations, self.num_batches = num_iterations, num_batches

    def propose(self, context: GrowthContext) -> Proposal:
        """New units in every group."""
        over = CandidateNetwork(context, split=False, num_new=self.num_new)
        over.big.eval()
        return Proposal(over.candidates, notes={"over": over})

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """The norm of the gradient that a unit will get, from the power iteration."""
        over: CandidateNetwork = proposal.notes["over"]
        if not over.candidates:
            return torch.zeros(0)
        batches = list(context.batches(self.num_batches, "score"))
        with torch.no_grad():
            for part in over.parts:
                for direction in part.incoming.values():
                    direction.value.zero_()
        silent = [_is_silent(over, part, batches[0][0]) for part in over.parts]
        if not any(silent):
            raise ConfigError("GradMax needs activations that are zero at zero, but this network has none.")
        gradients: list[Tensor] = []
        with open_relu():
            for _ in range(self.num_iterations):
                _set_outgoing(over, [_orthonormal(_rows(part.outgoing.values())) for part in over.parts])
                gradients, images = _products(context, over, batches)
                _set_outgoing(over, images)
            _set_outgoing(over, [_orthonormal(_rows(part.outgoing.values())) for part in over.parts])
            gradients, _ = _products(context, over, batches)
        scores = []
        for part, rows, is_silent in zip(over.parts, gradients, silent, strict=True):
            norms = rows.norm(dim=1)
            scores.append(norms if is_silent else torch.full_like(norms, -torch.inf))
            wanted = -self.epsilon * rows / norms.clamp(min=torch.finfo(rows.dtype).tiny)[:, None]
            part.write(part.incoming, wanted)
            part.write(part.outgoing, self.scale * _rows(part.outgoing.values()))
        return torch.cat(scores)

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """The chosen units."""
        over: CandidateNetwork = proposal.notes["over"]
        return over.edit(chosen, over.step_sizes(1.0))


def _is_silent(over: CandidateNetwork, part: CandidateBlock, x: Tensor) -> bool:
    """Whether new units with incoming weights of zero change nothing."""
    alone = over.step_sizes(0.0)
    nothing = alone.clone()
    alone[part.first : part.first + part.count] = 1.0
    with torch.no_grad():
        return torch.allclose(over(x, alone), over(x, nothing), rtol=1e-4, atol=1e-5)


def _rows(directions: Iterable[Direction]) -> Tensor:
    """The tensors of a part as rows, a row a unit."""
    return torch.cat([direction.rows(direction.value.detach()) for direction in directions], 1)


def _set_outgoing(over: CandidateNetwork, rows: Sequence[Tensor]) -> None:
    for part, values in zip(over.parts, rows, strict=True):
        part.write(part.outgoing, values)


def _orthonormal(rows: Tensor) -> Tensor:
    """Orthonormal rows that span the same space; rows beyond the space's dimension are zero."""
    basis, _ = torch.linalg.qr(rows.T)  # [weights, min(weights, units)]
    result = torch.zeros_like(rows)
    result[: basis.shape[1]] = basis.T
    return result


def _products(
    context: GrowthContext, over: CandidateNetwork, batches: MiniBatches
) -> tuple[list[Tensor], list[Tensor]]:
    """For each part the rows of u M, the gradients of incoming weights, and of those times M transposed."""
    ones = over.step_sizes(1.0)
    incoming = [d.value for part in over.parts for d in part.incoming.values()]
    outgoing = [d.value for part in over.parts for d in part.outgoing.values()]
    totals = [torch.zeros_like(value) for value in incoming]
    for x, y in batches:
        gradients = torch.autograd.grad(context.loss(over(x, ones), y), incoming)
        totals = [total + gradient / len(batches) for total, gradient in zip(totals, gradients, strict=True)]
    images = [torch.zeros_like(value) for value in outgoing]
    for x, y in batches:
        gradients = torch.autograd.grad(context.loss(over(x, ones), y), incoming, create_graph=True)
        product = sum((g * t).sum() for g, t in zip(gradients, totals, strict=True))
        second = torch.autograd.grad(product, outgoing)  # type: ignore[arg-type]
        images = [image + gradient / len(batches) for image, gradient in zip(images, second, strict=True)]
    return _by_part(over, totals, "incoming"), _by_part(over, images, "outgoing")


def _by_part(over: CandidateNetwork, tensors: Sequence[Tensor], which: str) -> list[Tensor]:
    result, rest = [], iter(tensors)
    for part in over.parts:
        result.append(torch.cat([direction.rows(next(rest)) for direction in getattr(part, which).values()], 1))
    return result
