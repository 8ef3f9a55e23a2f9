"""A controller that learns how many neurons each layer should get, from the rewards of what it tried."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ExpansionController(nn.Module):
    r"""An LSTM that decides layer by layer, each decision seeing the one before; a second one estimates the reward.

    Actor-critic: for decisions a with reward R, the policy follows
    :math:`\sum_l \nabla \log \pi(a_l | a_{<l}) (R - V_l)` and the values :math:`V_l` the square of :math:`R - V_l`.

    Weights are drawn from the global generator (see ``seeded_globally``).

    Args:
        num_layers: How many decisions there are.
        max_units: A decision is a number from 0 to this.
        hidden: The size of both LSTMs.
        rate: The learning rate of Adam.
    """

    def __init__(self, num_layers: int, max_units: int, *, hidden: int, rate: float) -> None:
        super().__init__()
        self.num_layers, self.start = num_layers, max_units + 1
        self.embedding = nn.Embedding(max_units + 2, hidden)
        self.actor, self.critic = nn.LSTMCell(hidden, hidden), nn.LSTMCell(hidden, hidden)
        self.policy, self.value = nn.Linear(hidden, max_units + 1), nn.Linear(hidden, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=rate)

    def evaluate(self, decisions: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The logarithm of each decision's probability, and the value before each: [layers] and [layers]."""
        logarithms, values = [], []
        actor = critic = None
        before = self.start
        for decision in decisions:
            embedded = self.embedding(torch.tensor([before]))  # [1, hidden]
            actor, critic = self.actor(embedded, actor), self.critic(embedded, critic)
            logarithms.append(self.policy(actor[0])[0].log_softmax(0)[decision])
            values.append(self.value(critic[0])[0, 0])
            before = decision
        return torch.stack(logarithms), torch.stack(values)

    @torch.no_grad()
    def propose(self, generator: torch.Generator) -> list[int]:
        """How many neurons each layer gets, drawn from the policy."""
        decisions: list[int] = []
        actor = None
        for _ in range(self.num_layers):
            embedded = self.embedding(torch.tensor([decisions[-1] if decisions else self.start]))
            actor = self.actor(embedded, actor)
            shares = self.policy(actor[0])[0].softmax(0)
            decisions.append(int(torch.multinomial(shares, 1, generator=generator)))
        return decisions

    def observe(self, decisions: Sequence[int], reward: float) -> None:
        """Make decisions likelier whose reward was above the estimate, and the estimate better."""
        logarithms, values = self.evaluate(decisions)
        advantage = reward - values
        loss = -(logarithms * advantage.detach()).sum() + advantage.square().sum()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
