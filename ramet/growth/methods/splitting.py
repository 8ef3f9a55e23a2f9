"""Steepest-descent splitting: split the neurons whose splitting matrix has the most negative eigenvalue.

Liu, Wu and Wang, *Splitting steepest descent for growing neural architectures* (NeurIPS 2019): splitting neuron theta_i
into two equal halves at theta_i +- s_i changes the loss by s_i' S_i s_i / 2 + O(|s_i|^3), where the splitting matrix
S_i is E[dL/dsigma d2sigma/dtheta2 (x, theta_i)]. The best direction is the eigenvector of its smallest eigenvalue, and
only neurons whose smallest eigenvalue is negative are worth a split.

The matrices are never formed. With every neuron split by a step s_i of its own, the Hessian of the loss in all steps at
zero is block-diagonal with the S_i as blocks, because each neuron's effect is even in its step. One Hessian-vector
product therefore multiplies all the matrices by a vector each, and a Lanczos iteration runs for all neurons at once,
whatever the layers are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.growth.base import Edit, Growth, GrowthContext, MiniBatches, Proposal
from ramet.growth.methods.candidate_network import CandidateBlock, CandidateNetwork
from ramet.growth.methods.slopes import smooth_relu


class Splitting(Growth):
    """Splits the neurons whose splitting matrix has the most negative eigenvalue.

    Args:
        epsilon: the length of a step along the eigenvector.
        num_iterations: of Lanczos; each costs one Hessian-vector product for all neurons.
        num_batches: mini-batches that the splitting matrices are averaged over.
        sharpness: ReLU has no second derivative, so that of a softplus with this sharpness takes its place.

    Departs from the paper: the eigenvector comes from Lanczos instead of a dense eigen-decomposition; both give the
    same where the iteration may run to the matrix's size. The Hessian is that of the network in evaluation mode.
    """

    def __init__(
        self, *, epsilon: float = 1e-2, num_iterations: int = 8, num_batches: int = 4, sharpness: float = 10.0
    ) -> None:
        if not (epsilon > 0 and sharpness > 0) or min(num_iterations, num_batches) < 1:
            raise ConfigError(
                "epsilon and sharpness must be positive, iterations and batches at least 1, but got "
                f"{epsilon}, {sharpness}, {num_iterations} and {num_batches}."
            )
        self.epsilon, self.num_iterations = epsilon, num_iterations
        self.num_batches, self.sharpness = num_batches, sharpness

    def propose(self, context: GrowthContext) -> Proposal:
        """Every unit of every group."""
        over = CandidateNetwork(context, split=True)
        over.big.eval()
        return Proposal(over.candidates, notes={"over": over})

    def score(self, context: GrowthContext, proposal: Proposal) -> Tensor:
        """Minus the smallest eigenvalue; minus infinity where it is not negative."""
        over: CandidateNetwork = proposal.notes["over"]
        if not over.candidates:
            return torch.zeros(0)
        batches = list(context.batches(self.num_batches, "score"))
        with smooth_relu(self.sharpness):
            values, vectors = smallest_eigenpairs(
                lambda vector: hessian_product(context, over, batches, vector),
                random_blocks(over, context.generator("lanczos")),
                self.num_iterations,
            )
        for part, rows in zip(over.parts, vectors, strict=True):
            part.write(part.incoming, rows)
        return torch.where(values < 0, -values, torch.full_like(values, -torch.inf))

    def apply(self, context: GrowthContext, proposal: Proposal, chosen: Sequence[int]) -> Edit:
        """Steps along the eigenvectors."""
        over: CandidateNetwork = proposal.notes["over"]
        return over.edit(chosen, over.step_sizes(self.epsilon))


Blocks = list[Tensor]
"""A vector for each neuron: for each group a tensor of shape [units, weights of a unit]."""


def _shape(part: CandidateBlock) -> tuple[int, int]:
    return part.count, sum(d.value.numel() for d in part.incoming.values()) // part.count


def random_blocks(over: CandidateNetwork, generator: torch.Generator) -> Blocks:
    """A random vector for each neuron."""
    return [torch.randn(_shape(part), generator=generator).to(over.device, over.dtype) for part in over.parts]


def hessian_product(context: GrowthContext, over: CandidateNetwork, batches: MiniBatches, vectors: Blocks) -> Blocks:
    """Each neuron's splitting matrix times its vector, by differentiating twice through the over-grown network."""
    leaves = over.directions()
    with torch.no_grad():
        for leaf in leaves:
            leaf.zero_()  # the matrices are those at a step of zero
    ones = over.step_sizes(1.0)
    spread = [part.spread(part.incoming, rows) for part, rows in zip(over.parts, vectors, strict=True)]
    flat = [tensor for tensors in spread for tensor in tensors]
    totals = [torch.zeros_like(leaf) for leaf in leaves]
    for x, y in batches:
        gradients = torch.autograd.grad(context.loss(over(x, ones), y), leaves, create_graph=True)
        product = sum((g * v).sum() for g, v in zip(gradients, flat, strict=True))
        assert isinstance(product, Tensor)
        if product.requires_grad:  # a network that is linear in every step has no second derivative
            second = torch.autograd.grad(product, leaves, allow_unused=True)
            totals = [t if s is None else t + s / len(batches) for t, s in zip(totals, second, strict=True)]
    rest = iter(totals)
    return [torch.cat([d.rows(next(rest)) for d in part.incoming.values()], 1).detach() for part in over.parts]


def smallest_eigenpairs(
    product: Callable[[Blocks], Blocks], start: Blocks, num_iterations: int
) -> tuple[Tensor, Blocks]:
    """The smallest eigenvalue of many symmetric matrices at once, [matrices of all blocks], and eigenvectors of norm 1.

    Lanczos with full re-orthogonalisation: ``product`` multiplies each matrix by its vector, ``start`` has a vector for
    each, in blocks of shape [matrices, size]. No more iterations are done than the largest block's size.
    """
    basis = [[_normalised(block)] for block in start]
    diagonal: list[list[Tensor]] = [[] for _ in start]
    beside: list[list[Tensor]] = [[] for _ in start]
    for _ in range(min(num_iterations, max(block.shape[1] for block in start))):
        images = product([vectors[-1] for vectors in basis])
        for vectors, image, own, off in zip(basis, images, diagonal, beside, strict=True):
            own.append((vectors[-1] * image).sum(1))
            rest, length = image, image.norm(dim=1, keepdim=True)
            for _ in range(2):  # twice is enough to keep the basis orthogonal to rounding
                for vector in vectors:
                    rest = rest - (rest * vector).sum(1, keepdim=True) * vector
            # A space that is used up leaves rounding errors only, which must not become a direction.
            rest = torch.where(rest.norm(dim=1, keepdim=True) > 1e3 * torch.finfo(rest.dtype).eps * length, rest, 0.0)
            off.append(rest.norm(dim=1))
            vectors.append(_normalised(rest))
    values, vectors_out = [], []
    for vectors, own, off in zip(basis, diagonal, beside, strict=True):
        size = min(len(own), vectors[0].shape[1])
        tridiagonal = torch.diag_embed(torch.stack(own[:size], 1))
        if size > 1:
            side = torch.stack(off[: size - 1], 1)
            tridiagonal = tridiagonal + torch.diag_embed(side, 1) + torch.diag_embed(side, -1)
        eigenvalues, eigenvectors = torch.linalg.eigh(tridiagonal)
        values.append(eigenvalues[:, 0])
        combined = torch.einsum("kus,uk->us", torch.stack(vectors[:size]), eigenvectors[:, :, 0])
        vectors_out.append(_normalised(combined))
    return torch.cat(values), vectors_out


def _normalised(rows: Tensor) -> Tensor:
    norms = rows.norm(dim=1, keepdim=True)
    return torch.where(norms > 0, rows / norms.clamp(min=torch.finfo(rows.dtype).tiny), torch.zeros_like(rows))
