"""Reinforced continual learning: a controller learns how many neurons each layer needs for a new task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ramet.continual.methods.master_method import MasterMethod
from ramet.continual.networks.draft_widths import with_new
from ramet.continual.networks.master import Draft
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves
from ramet.errors import ConfigError
from ramet.seeding import seeded_globally, torch_generator


@dataclass(kw_only=True, eq=False)
class Reinforced(MasterMethod):
    """Each task keeps the network of earlier ones and adds as many neurons to each layer as a controller decides.

    The controller proposes, the widened network is trained with all old weights fixed, and the reward is A less alpha
    times the neurons that all layers get, with A the accuracy on validation data. After some trials the network with
    the best reward is kept. A task sees the neurons that were there when it was learned.

    What was taken from where: expansion, reward and the actor-critic are those of section 3. We read the paper to train
    the controller anew for each task, and do so. It does not say what the value network looks like: here it is an LSTM
    like the controller. Each trial trains for as long as the settings say, so that a task costs ``trials`` trainings;
    the paper has far more. Batch norm, which the paper does not have, is each task's own. Of a module, a decision is
    on the units of a group that ``MasterMethod`` names; a trained network is where the first task begins.

    Args:
        trials: How many networks a task tries; one that was tried already costs nothing.
        max_units: The most neurons or channels that a layer gets; the paper's 30 on MNIST.
        alpha: What a neuron costs in the reward.
        controller_hidden: The size of the controller's LSTM.
        controller_rate: Its learning rate (Adam).

    Reference: Xu and Zhu, Reinforced continual learning, 2018.
    """

    name: ClassVar[str] = "rcl"
    forgets_nothing: ClassVar[bool] = True
    trials: int = 10
    max_units: int = 30
    alpha: float = 1e-3
    controller_hidden: int = 32
    controller_rate: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.trials, self.max_units, self.controller_hidden) < 1:
            raise ConfigError(
                "trials, max_units and controller_hidden must be at least 1, but got "
                f"{self.trials}, {self.max_units} and {self.controller_hidden}."
            )
        if self.alpha < 0 or self.controller_rate <= 0:
            raise ConfigError(
                "alpha must not be negative and controller_rate must be positive, but got "
                f"{self.alpha} and {self.controller_rate}."
            )

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        if not self.tasks:
            draft = self._whole(task, saves)
            notes: dict[str, Any] = {"added": draft.widths, "validation": self._trained(draft, task, saves, "first")}
        else:
            draft, notes = self._search(task, saves)
        self.master.add(draft)
        added = ", ".join(map(str, notes["added"]))
        self._said.append(f"{task.info.name} adds {added} neurons; {notes['validation']:.1%} on validation data.")
        return notes

    def _search(self, task: TaskData, saves: Saves) -> tuple[Draft, dict[str, Any]]:
        """Let the controller try, and keep the best."""
        place = len(self.tasks)
        with seeded_globally(self.seed, "controller", place):
            controller = ExpansionController(
                len(self.master.widths), self.max_units, hidden=self.controller_hidden, rate=self.controller_rate
            )
        generator = torch_generator(self.seed, "decisions", place)
        rewards: dict[tuple[int, ...], float] = {}
        trials: list[dict[str, Any]] = []
        best: tuple[float, Draft, dict[str, Any]] | None = None
        for _ in range(self.trials):
            counts = tuple(controller.propose(generator))
            if counts not in rewards:
                draft = self._draft(counts, task.info.num_classes)
                score = self._trained(draft, task, saves, "trial-" + "-".join(map(str, counts)))
                rewards[counts] = reward = score - self.alpha * sum(counts)
                trials.append({"added": list(counts), "validation": score, "reward": reward})
                if best is None or reward > best[0]:
                    best = (reward, draft, {"added": list(counts), "validation": score})
            controller.observe(counts, rewards[counts])
        assert best is not None
        return best[1], best[2] | {"trials": trials}

    def _draft(self, counts: Sequence[int], num_classes: int) -> Draft:
        """All neurons there are, and some new ones in each layer."""
        with seeded_globally(self.seed, "new", len(self.tasks)):
            draft = self.master.draft([torch.arange(width) for width in self.master.widths], num_classes)
            return with_new(draft, counts)


class ExpansionController(nn.Module):
    """An LSTM that decides layer by layer, each decision seeing the one before; a second one estimates the reward.

    Actor-critic: for decisions a with reward R, the policy follows the sum over layers l of grad log pi(a_l | a_1 ...
    a_(l-1)) (R - V_l), and the values V_l the square of R - V_l. A decision is a number from 0 to ``max_units``.
    Weights are drawn from the global generator (see ``seeded_globally``).
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
