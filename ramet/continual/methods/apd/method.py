"""Additive parameter decomposition: shared weights under a gate for each task, plus sparse weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ramet.continual.method import Method
from ramet.continual.methods.apd.decomposition import (
    DecomposedNetwork,
    compose,
    retroactive_adaptive,
    retroactive_penalty,
)
from ramet.continual.methods.proximal import ProximalSgd, Sparse
from ramet.continual.networks.skeletons import weights_of
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed, seeded_globally


@dataclass(kw_only=True, eq=False)
class AdditiveDecomposition(Method):
    r"""Each task has the shared weights under a mask of its own, and sparse weights that are its own.

    Task i has the weights :math:`\theta_i = \sigma \otimes \mathrm{sigmoid}(v_i) + \tau_i`, tau being sparse.

    When task t comes, everything moves but the earlier tasks' weights, which are held where they were (Eq. 3):

    .. math:: L(\theta_t; D_t) + \lambda_1 \sum_{i \le t} \|\tau_i\|_1
              + \lambda_2 \sum_{i < t} \|\theta_i^* - \theta_i\|_2^2 .

    The shared weights thus follow the new task, and the own ones of earlier tasks take up what was changed. For given
    shared weights and gates the best :math:`\tau_i` of an earlier task has a closed form, so that it is put into the
    loss (``retroactive_penalty``) and solved for at the end: the minimum is the same, and no step can diverge. Each of
    an earlier task's weights then moves by at most :math:`\lambda_1 / 2 \lambda_2`.

    The first task trains sigma and its gate alone. Biases, batch norms and heads, of which the paper says nothing, are
    each task's own. Own weights count as parameters, and are stored with their places, where they are not zero.

    Left out: the hierarchical consolidation of section 3.2, which clusters the own weights of tasks. Departs from the
    paper: own weights are made sparse by a proximal map instead of a subgradient; gates begin at a sigmoid of 0.88.

    Args:
        sparsity: Lambda 1; 4e-4 is among the values that we read the paper to use. A stronger one saves own weights.
        drift: Lambda 2, which we read to be 100 in the paper.

    Raises:
        ConfigError: A number is out of its range.

    Reference: Yoon et al., Scalable and order-robust continual learning with additive parameter decomposition, 2020.
    """

    name: ClassVar[str] = "apd"
    sparsity: float = 4e-4
    drift: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sparsity < 0 or self.drift <= 0:
            raise ConfigError(
                f"sparsity must not be negative and drift must be positive, but got {self.sparsity} and {self.drift}."
            )

    def _begin(self) -> None:
        layers = self.skeleton.make_body(self.seed, "shared")
        self._shared = [weights_of(layer).weight.detach().clone().to(self.device) for layer in layers]
        self._gates: list[list[Tensor]] = []
        self._adaptive: list[list[Tensor]] = []
        self._own: list[dict[str, Tensor]] = []

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place, data = len(self.tasks), task.train
        network = self.skeleton.make_network(task.info.num_classes, self.seed, "task", place).to(self.device)
        module = DecomposedNetwork(network, self._shared, self._gates).to(self.device)
        targets = [self._weights(old) for old in range(place)]
        penalties = [Sparse(tau, l1=self.sparsity) for tau in module.adaptive] if place else []

        def loss(indices: Tensor) -> Tensor:
            value = cross_entropy(module(data.x[indices]), data.y[indices])
            for residuals in module.residuals(targets):
                for residual in residuals:
                    value = value + retroactive_penalty(residual, self.sparsity, self.drift)
            return value

        train(
            module,
            loss,
            len(data),
            self.settings,
            seed=derive_seed(self.seed, "task", place),
            rate=lambda name: float(place > 0 or not name.startswith("adaptive.")),
            optimizer=lambda groups: ProximalSgd(groups, penalties, self.settings),
            saves=saves,
        )
        self._take(module, targets)
        own = sum(int(tau.count_nonzero()) for tau in self._adaptive[place])
        return {"own_share": own / sum(tau.numel() for tau in self._adaptive[place])}

    @torch.no_grad()
    def _take(self, module: DecomposedNetwork, targets: Sequence[Sequence[Tensor]]) -> None:
        """Keep what was trained, and give earlier tasks the own weights that bring them back to where they were."""
        residuals = module.residuals(targets)
        own = [tau.detach().clone() for tau in module.adaptive]
        self._adaptive = [
            [retroactive_adaptive(residual, self.sparsity, self.drift) for residual in old] for old in residuals
        ] + [own]
        self._shared = [sigma.detach().clone() for sigma in module.shared]
        self._gates = [[gate.detach().clone() for gate in gates.parameters()] for gates in module.gates]
        state = module.network.state_dict()
        self._own.append({name: value.clone() for name, value in state.items() if _is_own(name)})

    @torch.no_grad()
    def _weights(self, place: int) -> list[Tensor]:
        """The weights of a task's layers."""
        parts = zip(self._shared, self._gates[place], self._adaptive[place], strict=True)
        return [compose(sigma, gate, tau) for sigma, gate, tau in parts]

    def network(self, name: str) -> nn.Module:
        """A plain network with the task's weights, composed."""
        place = self.place(name)
        with seeded_globally(0, "taken out"):  # fresh weights are drawn before the task's own are put in
            network = self.skeleton.make_network(self.tasks[place].num_classes, 0).to(self.device)
        network.load_state_dict(self._own[place], strict=False)
        with torch.no_grad():
            for layer, weight in zip(network, self._weights(place), strict=False):
                weights_of(layer).weight.copy_(weight)
        return network.eval()

    def num_parameters(self) -> int:
        """Shared weights, gates, own weights that are not zero, biases, batch norms and heads."""
        running = ("running_mean", "running_var", "num_batches_tracked")
        own = sum(t.numel() for tensors in self._own for name, t in tensors.items() if not name.endswith(running))
        adaptive = sum(int(tau.count_nonzero()) for taus in self._adaptive for tau in taus)
        gates = sum(gate.numel() for gates in self._gates for gate in gates)
        return sum(sigma.numel() for sigma in self._shared) + gates + adaptive + own

    def state(self) -> dict[str, Any]:
        """The parts; own weights as places and values."""
        return {
            "shared": [sigma.clone() for sigma in self._shared],
            "gates": [[gate.clone() for gate in gates] for gates in self._gates],
            "places": [[_places(tau) for tau in taus] for taus in self._adaptive],
            "values": [[tau.flatten()[_places(tau).long()] for tau in taus] for taus in self._adaptive],
            "own": [{name: tensor.clone() for name, tensor in tensors.items()} for tensors in self._own],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self._shared = [sigma.to(self.device) for sigma in state["shared"]]
        self._gates = [[gate.to(self.device) for gate in gates] for gates in state["gates"]]
        self._adaptive = [
            [
                _dense(places.to(self.device), values.to(self.device), sigma)
                for places, values, sigma in zip(task_places, task_values, self._shared, strict=True)
            ]
            for task_places, task_values in zip(state["places"], state["values"], strict=True)
        ]
        self._own = [{name: tensor.to(self.device) for name, tensor in tensors.items()} for tensors in state["own"]]

    def explain(self) -> list[str]:
        """How much of each task is its own."""
        total = sum(sigma.numel() for sigma in self._shared)
        lines = []
        for task, taus in zip(self.tasks, self._adaptive, strict=True):
            own = sum(int(tau.count_nonzero()) for tau in taus)
            lines.append(f"{task.name} has {own} weights of its own beside {total} shared ones.")
        return lines


def _is_own(name: str) -> bool:
    return name.startswith("head.") or not name.endswith("weights.weight")


def _places(tau: Tensor) -> Tensor:
    """Where a tensor is not zero, as numbers of its flattened form."""
    return tau.flatten().nonzero()[:, 0].to(torch.int32)


def _dense(places: Tensor, values: Tensor, like: Tensor) -> Tensor:
    tau = torch.zeros_like(like).flatten()
    tau[places.long()] = values
    return tau.reshape(like.shape)
