"""The ENAS controller: an LSTM that writes architectures, trained by REINFORCE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.searching.strategies.base import Strategy, cloned
from ramet.seeding import seeded_globally
from ramet.spaces import Arch, Space


class EnasController(Strategy):
    """An LSTM that takes decision after decision, trained by REINFORCE with a moving baseline.

    The policy pi is autoregressive: each decision's logits follow from those before it. For rewards R_k of n observed
    architectures a_k one step of Adam ascends the mean of (R_k + beta H(a_k) - b) log pi(a_k), where H is minus the
    log-probability of the sample, beta is ``entropy_weight``, and the baseline b moves towards the rewards:
    b <- d b + (1 - d) mean(R), d being ``baseline_decay``. Logits are divided by ``temperature`` and squashed to
    ``tanh_constant`` x tanh(logits), so that the policy cannot become certain too early.

    The defaults are those of the CNN micro search; ``EnasController.PRESETS`` has those of the other searches.

    Departs from the reference: every decision has a softmax head of its own, where ENAS points at earlier nodes by
    attention, because a space here is any list of decisions. The baseline starts at the first mean reward and not at 0,
    which would push the first samples up whatever they are.

    Args:
        hidden_size: width of the LSTM, 64.
        learning_rate: Adam's, 3.5e-3.
        tanh_constant: 1.1; none leaves logits as they are.
        temperature: none, or what logits are divided by.
        entropy_weight: 1e-4.
        baseline_decay: 0.99.
        weight_decay: of the controller; 5e-4 in *Disturbance-immune weight sharing*, none in ENAS.

    Reference: Pham et al., Efficient Neural Architecture Search via Parameter Sharing, 2018.
    """

    PRESETS: dict[str, dict[str, Any]] = {  # noqa: RUF012 - a table, never written to
        "micro": {},
        "macro": {"learning_rate": 1e-3, "tanh_constant": 1.5},
        "recurrent": {
            "hidden_size": 100,
            "learning_rate": 1e-3,
            "tanh_constant": 2.5,
            "temperature": 5.0,
            "entropy_weight": 1e-3,
        },
        "disturbance-immune": {"learning_rate": 3e-4, "weight_decay": 5e-4, "entropy_weight": 0.005},
    }

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hidden_size: int = 64,
        learning_rate: float = 3.5e-3,
        tanh_constant: float | None = 1.1,
        temperature: float | None = None,
        entropy_weight: float = 1e-4,
        baseline_decay: float = 0.99,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(space, seed=seed)
        if hidden_size < 1 or not learning_rate > 0:
            raise ConfigError(f"hidden_size and learning_rate must be positive, got {hidden_size}, {learning_rate}.")
        if (tanh_constant is not None and not tanh_constant > 0) or (temperature is not None and not temperature > 0):
            raise ConfigError(f"tanh_constant and temperature must be positive, got {tanh_constant}, {temperature}.")
        if not 0 <= baseline_decay < 1 or not entropy_weight >= 0:
            values = (baseline_decay, entropy_weight)
            raise ConfigError(f"baseline_decay must be in [0, 1) and entropy_weight not negative, but got {values}.")
        self.entropy_weight = entropy_weight
        self.baseline_decay = baseline_decay
        with seeded_globally(seed, "controller"):
            self.policy = Policy(space.num_options, hidden_size, tanh_constant, temperature)
        self._optimizer = torch.optim.Adam(self.policy.parameters(), lr=learning_rate, weight_decay=weight_decay)
        self._baseline: float | None = None
        self._entropy = float("nan")

    def draw(self, n: int) -> list[Arch]:
        """Samples of the policy."""
        with torch.no_grad():
            choices, _ = self.policy(n, generator=self.generator)
        return [tuple(row) for row in choices.tolist()]

    def learn(self, archs: list[Arch], rewards: list[float]) -> None:
        """One step of Adam on the REINFORCE objective."""
        _, log_probabilities = self.policy(len(archs), given=archs)  # [n]
        entropy = -log_probabilities.detach()
        reward = torch.tensor(rewards) + self.entropy_weight * entropy
        mean = float(reward.mean())
        if self._baseline is None:
            self._baseline = mean
        self._baseline = self.baseline_decay * self._baseline + (1 - self.baseline_decay) * mean
        loss = -((reward - self._baseline) * log_probabilities).mean()
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        self._optimizer.step()
        self._entropy = float(entropy.mean())

    def derive(self, n: int) -> list[Arch]:
        """Different samples of the policy, the most probable first."""
        archs = list(dict.fromkeys(self.propose(4 * n)))
        with torch.no_grad():
            _, log_probabilities = self.policy(len(archs), given=archs)
        order = torch.argsort(log_probabilities, descending=True, stable=True).tolist()
        return [archs[place] for place in order[:n]]

    def report(self) -> dict[str, float]:
        """``entropy`` of the samples observed last, in nats, and the ``baseline``."""
        if self._baseline is None:
            return {}
        return {"entropy": self._entropy, "baseline": self._baseline}

    def state(self) -> dict[str, Any]:
        """The generator, the policy, its optimizer and the baseline."""
        return {
            "generator": self.generator.get_state(),
            "policy": {name: tensor.clone() for name, tensor in self.policy.state_dict().items()},
            "optimizer": cloned(self._optimizer.state_dict()),
            "baseline": self._baseline,
            "entropy": self._entropy,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.generator.set_state(state["generator"])
        self.policy.load_state_dict(state["policy"])
        self._optimizer.load_state_dict(cloned(state["optimizer"]))
        self._baseline, self._entropy = state["baseline"], state["entropy"]


class Policy(nn.Module):
    """The LSTM: from the decisions taken so far to the logits of the next."""

    def __init__(
        self, num_options: Sequence[int], hidden_size: int, tanh_constant: float | None, temperature: float | None
    ) -> None:
        super().__init__()
        self.tanh_constant, self.temperature = tanh_constant, temperature
        self.start = nn.Parameter(torch.empty(hidden_size))
        self.embeddings = nn.ModuleList(nn.Embedding(options, hidden_size) for options in num_options[:-1])
        self.lstm = nn.LSTMCell(hidden_size, hidden_size)
        self.heads = nn.ModuleList(nn.Linear(hidden_size, options) for options in num_options)
        for param in self.parameters():
            nn.init.uniform_(param, -0.1, 0.1)  # the reference's range
        for head in self.heads:
            nn.init.zeros_(head.bias)  # type: ignore[arg-type]

    def forward(
        self, n: int, *, generator: torch.Generator | None = None, given: Sequence[Arch] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample ``n`` architectures, or take the given: choices, [n, decisions], and log-probabilities, [n]."""
        taken = None if given is None else torch.tensor(given, dtype=torch.long)
        x = self.start.expand(n, -1)  # [n, hidden]
        hidden, cell = torch.zeros_like(x), torch.zeros_like(x)
        choices, total = [], torch.zeros(n)
        for place, head in enumerate(self.heads):
            hidden, cell = self.lstm(x, (hidden, cell))
            logits = head(hidden)  # [n, options]
            if self.temperature is not None:
                logits = logits / self.temperature
            if self.tanh_constant is not None:
                logits = self.tanh_constant * torch.tanh(logits)
            log_probabilities = torch.log_softmax(logits, dim=1)
            if taken is None:
                choice = torch.multinomial(log_probabilities.exp(), 1, generator=generator)[:, 0]  # [n]
            else:
                choice = taken[:, place]
            choices.append(choice)
            total = total + log_probabilities.gather(1, choice[:, None])[:, 0]
            if place < len(self.embeddings):
                x = self.embeddings[place](choice)
        return torch.stack(choices, dim=1), total
