"""Additive parameter decomposition: shared weights under a gate for each task, plus sparse weights of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import softshrink

from ramet.continual.method import Method
from ramet.continual.methods.optimizers import ProximalSgd, Sparse
from ramet.continual.networks.keeping import copied, num_trained
from ramet.continual.networks.matrices import body_matrices
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import output_of

GATE_START = 2.0
"""Where gates begin: the sigmoid is 0.88, so that a task begins with nearly all of the shared weights."""


def compose(shared: Tensor, gate: Tensor, adaptive: Tensor) -> Tensor:
    """A task's weights, sigma * sigmoid(v) + tau (section 3.1, Eq. 1): [out, ...], [out] and [out, ...]."""
    return shared * gate.sigmoid().reshape(-1, *[1] * (shared.ndim - 1)) + adaptive


def retroactive_adaptive(residual: Tensor, sparsity: float, drift: float) -> Tensor:
    """The best own part of an earlier task: argmin over tau of lambda_1 |tau| + lambda_2 (r - tau)^2.

    The residual r is what the task's old weights were, less what it now has of the shared ones; lambda_1 is
    ``sparsity`` and lambda_2 ``drift``.

    >>> retroactive_adaptive(torch.tensor([1.0, -0.2, 3.0]), sparsity=1.0, drift=1.0)
    tensor([0.5000, -0.0000, 2.5000])
    """
    return softshrink(residual, sparsity / (2 * drift))


def retroactive_penalty(residual: Tensor, sparsity: float, drift: float) -> Tensor:
    """The value of that minimum, summed: what keeping an earlier task costs, as a function of the shared weights.

    Where |r| <= lambda_1 / 2 lambda_2 it is lambda_2 r^2, elsewhere lambda_1 |r| - lambda_1^2 / 4 lambda_2; its slope
    is never above lambda_1, so that a step is stable however strong the drift is punished.
    """
    size = residual.abs()
    inner, outer = drift * residual.square(), sparsity * size - sparsity**2 / (4 * drift)
    return torch.where(size <= sparsity / (2 * drift), inner, outer).sum()


class DecomposedNetwork(nn.Module):
    """The network of the present task, and the gates of earlier ones, which move along with the shared weights.

    Of ``network`` the matrices ``names`` are not used, and everything else is the task's own. ``shared``, sigma of each
    matrix, and ``gates``, for each earlier task those of each matrix, are copied.
    """

    def __init__(
        self, network: nn.Module, names: Sequence[str], shared: Sequence[Tensor], gates: Sequence[Sequence[Tensor]]
    ) -> None:
        super().__init__()
        self.network = network
        self._names = list(names)
        self.shared = nn.ParameterList([nn.Parameter(sigma.clone()) for sigma in shared])
        self.adaptive = nn.ParameterList([nn.Parameter(torch.zeros_like(sigma)) for sigma in shared])
        fresh = [torch.full((len(sigma),), GATE_START, device=sigma.device) for sigma in shared]
        self.gates = nn.ModuleList(
            [nn.ParameterList([nn.Parameter(gate.clone()) for gate in own]) for own in [*gates, fresh]]
        )
        for name in names:
            network.get_parameter(name).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the present task, [batch, classes]."""
        parts = zip(self._names, self.shared, self._gates(len(self.gates) - 1), self.adaptive, strict=True)
        composed = {name: compose(sigma, gate, tau) for name, sigma, gate, tau in parts}
        return output_of(functional_call(self.network, composed, (x,)))

    def residuals(self, targets: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """For each earlier task and layer, its old weights (``targets``) less what it now has of the shared ones."""
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


@dataclass(kw_only=True, eq=False)
class AdditiveDecomposition(Method):
    """Each task has the shared weights under a mask of its own, and sparse weights that are its own.

    Task i has the weights theta_i = sigma * sigmoid(v_i) + tau_i, tau being sparse. When task t comes, everything moves
    but the earlier tasks' weights, which are held where they were, theta_i' (Eq. 3): it minimises its loss
    + lambda_1 * (the sum over i <= t of |tau_i|) + lambda_2 * (the sum over i < t of |theta_i' - theta_i|^2).

    The shared weights thus follow the new task, and the own ones of earlier tasks take up what was changed. For given
    shared weights and gates the best tau of an earlier task has a closed form, so that it is put into the loss
    (``retroactive_penalty``) and solved for at the end: the minimum is the same, and no step can diverge. Each of an
    earlier task's weights then moves by at most lambda_1 / 2 lambda_2.

    The first task trains sigma and its gate alone. Biases, batch norms and heads, of which the paper says nothing, are
    each task's own. Own weights count as parameters, and are stored with their places, where they are not zero.

    Of a module, the matrices of linear layers, convolutions and attention are taken apart, and everything else (norms,
    tokens, positions) is each task's own. Of a trained one, sigma begins so that the first task begins with the trained
    matrices, and what is a later task's own begins as the first task left it.

    Left out: the hierarchical consolidation of section 3.2, which clusters the own weights of tasks. Departs from the
    paper: own weights are made sparse by a proximal map instead of a subgradient; gates begin at a sigmoid of 0.88.

    Args:
        sparsity: Lambda 1; 4e-4 is among the values that we read the paper to use. A stronger one saves own weights.
        drift: Lambda 2, which we read to be 100 in the paper.

    Reference: Yoon et al., Scalable and order-robust continual learning with additive parameter decomposition, 2020.
    """

    name: ClassVar[str] = "apd"
    needs_chain: ClassVar[str] = ""
    sparsity: float = 4e-4
    drift: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sparsity < 0 or self.drift <= 0:
            raise ConfigError(
                f"sparsity must not be negative and drift must be positive, but got {self.sparsity} and {self.drift}."
            )

    def _begin(self) -> None:
        body = self.template.make_features(self.seed, "shared")
        first = body_matrices(body, self.template.head_name).values()
        # What is trained already is divided by what the gates begin as.
        share = torch.tensor(GATE_START).sigmoid() if self.template.is_trained else torch.ones(())
        self._shared = [(weight.detach() / share).to(self.device) for weight in first]
        self._gates: list[list[Tensor]] = []
        self._adaptive: list[list[Tensor]] = []
        self._own: list[dict[str, Tensor]] = []

    def _network(self, num_classes: int, *role: str | int) -> tuple[nn.Module, list[str]]:
        """A network of a task, and the names of its matrices below the head, which are taken apart."""
        network = self.template.make_network(num_classes, self.seed, *role).to(self.device)
        return network, list(body_matrices(network, self.template.head_name))

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place = len(self.tasks)
        network, names = self._network(task.info.num_classes, "task", place)
        if place and self.template.is_trained:
            head = f"{self.template.head_name}."
            begun = {name: value for name, value in self._own[0].items() if not name.startswith(head)}
            network.load_state_dict(begun, strict=False)
        module = DecomposedNetwork(network, names, self._shared, self._gates).to(self.device)
        targets = [self._weights(old) for old in range(place)]
        penalties = [Sparse(tau, l1=self.sparsity) for tau in module.adaptive] if place else []

        loss, data = classification(module, task.train, self.settings)

        def retroactive_loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
            value = loss(x, y, indices)
            for residuals in module.residuals(targets):
                for residual in residuals:
                    value = value + retroactive_penalty(residual, self.sparsity, self.drift)
            return value

        train(
            module,
            retroactive_loss,
            data,
            self.settings,
            seed=derive_seed(self.seed, "task", place),
            rate=lambda name: float(place > 0 or not name.startswith("adaptive.")),
            optimizer=lambda groups: ProximalSgd(groups, penalties, self.settings),
            saves=saves,
        )
        self._take(module, names, targets)
        own = sum(int(tau.count_nonzero()) for tau in self._adaptive[place])
        return {"own_share": own / sum(tau.numel() for tau in self._adaptive[place])}

    @torch.no_grad()
    def _take(self, module: DecomposedNetwork, names: Sequence[str], targets: Sequence[Sequence[Tensor]]) -> None:
        """Keep what was trained, and give earlier tasks the own weights that bring them back to where they were."""
        residuals = module.residuals(targets)
        self._adaptive = [
            [retroactive_adaptive(residual, self.sparsity, self.drift) for residual in old] for old in residuals
        ] + [copied(module.adaptive.parameters())]
        self._shared = copied(module.shared.parameters())
        self._gates = [copied(gates.parameters()) for gates in module.gates]
        self._own.append({name: value for name, value in copied(module.network).items() if name not in names})

    @torch.no_grad()
    def _weights(self, place: int) -> list[Tensor]:
        """The weights of a task's layers."""
        parts = zip(self._shared, self._gates[place], self._adaptive[place], strict=True)
        return [compose(sigma, gate, tau) for sigma, gate, tau in parts]

    def network(self, name: str) -> nn.Module:
        """A plain network with the task's weights, composed."""
        place = self.place(name)
        with seeded_globally(0, "taken out"):  # fresh weights are drawn before the task's own are put in
            network, names = self._network(self.tasks[place].num_classes)
        network.load_state_dict(self._own[place], strict=False)
        with torch.no_grad():
            for matrix, weight in zip(names, self._weights(place), strict=True):
                network.get_parameter(matrix).copy_(weight)
        return network.eval()

    def num_parameters(self) -> int:
        """Shared weights, gates, own weights that are not zero, biases, batch norms and heads."""
        adaptive = sum(int(tau.count_nonzero()) for taus in self._adaptive for tau in taus)
        gates = sum(gate.numel() for gates in self._gates for gate in gates)
        return (
            sum(sigma.numel() for sigma in self._shared)
            + gates
            + adaptive
            + num_trained(self._own, self.template.untrained)
        )

    def state(self) -> dict[str, Any]:
        """The parts; own weights as places and values."""
        return {
            "shared": copied(self._shared),
            "gates": copied(self._gates),
            "places": [[_places(tau) for tau in taus] for taus in self._adaptive],
            "values": [[tau.flatten()[_places(tau).long()] for tau in taus] for taus in self._adaptive],
            "own": copied(self._own),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        state = copied(state, self.device)
        self._shared, self._gates, self._own = state["shared"], state["gates"], state["own"]
        self._adaptive = [
            [
                _dense(places, values, sigma)
                for places, values, sigma in zip(task_places, task_values, self._shared, strict=True)
            ]
            for task_places, task_values in zip(state["places"], state["values"], strict=True)
        ]

    def explain(self) -> list[str]:
        """How much of each task is its own."""
        total = sum(sigma.numel() for sigma in self._shared)
        lines = []
        for task, taus in zip(self.tasks, self._adaptive, strict=True):
            own = sum(int(tau.count_nonzero()) for tau in taus)
            lines.append(f"{task.name} has {own} weights of its own beside {total} shared ones.")
        return lines


def _places(tau: Tensor) -> Tensor:
    """Where a tensor is not zero, as numbers of its flattened form."""
    return tau.flatten().nonzero()[:, 0].to(torch.int32)


def _dense(places: Tensor, values: Tensor, like: Tensor) -> Tensor:
    tau = torch.zeros_like(like).flatten()
    tau[places.long()] = values
    return tau.reshape(like.shape)
