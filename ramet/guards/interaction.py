"""The interaction term v' Omega v with Omega a Kronecker product, and its proximal steps, as functions of tensors.

V is ``change``, [groups, outputs, width]; A is ``inputs``, [groups, width, width]; G is ``outputs``.
"""

from __future__ import annotations

import torch
from torch import Tensor

Bases = tuple[Tensor, Tensor, Tensor, Tensor]
"""Eigenvalues and eigenvectors of A, then of G."""


def interaction(change: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
    """The term v' Omega v with Omega the Kronecker product of A and G: the trace of V' G V A, summed over groups.

    V is ``change``, [groups, outputs, width]; A is ``inputs``, [groups, width, width]; G is ``outputs``.
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


def proximal_in_metric(
    change: Tensor, inputs: Tensor, outputs: Tensor, strengths: Tensor, start: Tensor, num_steps: int = 30
) -> Tensor:
    """The V that solves V + S (G V A) = ``change`` with a strength S for each value: ``proximal_interaction`` for Adam.

    There are no eigenbases for this. With U = V / sqrt(S) the system is symmetric and positive, and conjugate gradients
    come nearer to its solution in each of ``num_steps``, so that no strength can make it diverge. They begin at
    ``start``, where the weights were before the step: at rest that is the solution, and the rest is exact.
    """
    roots = strengths.clamp(min=torch.finfo(strengths.dtype).tiny).sqrt().to(change.dtype)

    def system(u: Tensor) -> Tensor:
        return u + roots * interaction_gradient(roots * u, inputs, outputs)

    goal, solution, tiny = change / roots, start / roots, torch.finfo(change.dtype).tiny
    rest = goal - system(solution)
    direction, energy = rest, rest.square().sum()
    for _ in range(num_steps):
        along = system(direction)
        curvature = (direction * along).sum()
        # Where nothing is left the step is 0, which needs no look at the device.
        length = torch.where(curvature > 0, energy / curvature.clamp(min=tiny), 0.0)
        solution = solution + length * direction
        rest = rest - length * along
        last, energy = energy, rest.square().sum()
        direction = rest + torch.where(last > 0, energy / last.clamp(min=tiny), 0.0) * direction
    return roots * solution
