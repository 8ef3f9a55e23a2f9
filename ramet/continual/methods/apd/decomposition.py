"""Weights as a shared part that each task gates, plus a sparse part of the task's own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import softshrink

GATE_START = 2.0
"""Where gates begin: the sigmoid is 0.88, so that a task begins with nearly all of the shared weights."""


def compose(shared: Tensor, gate: Tensor, adaptive: Tensor) -> Tensor:
    r"""A task's weights, :math:`\theta = \sigma \otimes \mathrm{sigmoid}(v) + \tau` (section 3.1, Eq. 1).

    Args:
        shared: Sigma, [out, ...].
        gate: v, one for each output, [out].
        adaptive: Tau, [out, ...].
    """
    return shared * gate.sigmoid().reshape(-1, *[1] * (shared.ndim - 1)) + adaptive


def retroactive_adaptive(residual: Tensor, sparsity: float, drift: float) -> Tensor:
    r"""The best own part of an earlier task: argmin over tau of :math:`\lambda_1 |\tau| + \lambda_2 (r - \tau)^2`.

    Args:
        residual: What the task's old weights were, less what it now has of the shared ones.
        sparsity: Lambda 1.
        drift: Lambda 2.

    >>> retroactive_adaptive(torch.tensor([1.0, -0.2, 3.0]), sparsity=1.0, drift=1.0)
    tensor([0.5000, -0.0000, 2.5000])
    """
    return softshrink(residual, sparsity / (2 * drift))


def retroactive_penalty(residual: Tensor, sparsity: float, drift: float) -> Tensor:
    r"""The value of that minimum, summed: what keeping an earlier task costs, as a function of the shared weights.

    Where :math:`|r| \le \lambda_1 / 2 \lambda_2` it is :math:`\lambda_2 r^2`, elsewhere
    :math:`\lambda_1 |r| - \lambda_1^2 / 4 \lambda_2`; its slope is never above lambda 1, so that a step is stable
    however strong the drift is punished.
    """
    size = residual.abs()
    inner, outer = drift * residual.square(), sparsity * size - sparsity**2 / (4 * drift)
    return torch.where(size <= sparsity / (2 * drift), inner, outer).sum()


class DecomposedNetwork(nn.Module):
    """The network of the present task, and the gates of earlier ones, which move along with the shared weights.

    Args:
        network: A chain of layers and a head. Its biases, batch norms and head are the task's own; the weights of its
            layers are not used.
        shared: Sigma of each layer; copied.
        gates: For each earlier task the gates of each layer; copied.
    """

    def __init__(self, network: nn.Sequential, shared: Sequence[Tensor], gates: Sequence[Sequence[Tensor]]) -> None:
        super().__init__()
        self.network = network
        self.shared = nn.ParameterList([nn.Parameter(sigma.clone()) for sigma in shared])
        self.adaptive = nn.ParameterList([nn.Parameter(torch.zeros_like(sigma)) for sigma in shared])
        fresh = [torch.full((len(sigma),), GATE_START, device=sigma.device) for sigma in shared]
        self.gates = nn.ModuleList(
            [nn.ParameterList([nn.Parameter(gate.clone()) for gate in own]) for own in [*gates, fresh]]
        )
        for layer in list(network)[:-1]:
            layer.get_parameter("weights.weight").requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the present task, [batch, classes]."""
        *layers, head = self.network
        parts = zip(layers, self.shared, self._gates(len(self.gates) - 1), self.adaptive, strict=True)
        for layer, sigma, gate, tau in parts:
            x = functional_call(layer, {"weights.weight": compose(sigma, gate, tau)}, (x,))
        logits: Tensor = head(x)
        return logits

    def residuals(self, targets: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """For each earlier task and layer, its old weights less what it now has of the shared ones.

        Args:
            targets: The weights that each earlier task had when the present one began.
        """
        return [
            [
                target - compose(sigma, gate, torch.zeros_like(sigma))
                for target, sigma, gate in zip(old, self.shared, self._gates(task), strict=True)
            ]
            for task, old in enumerate(targets)
        ]

    def _gates(self, task: int) -> nn.ParameterList:
        gates = self.gates[task]
        assert isinstance(gates, nn.ParameterList)
        return gates
