"""Compacting, picking and growing: prune the present task, pick from earlier ones, widen where that is not enough."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ramet.continual.method import Method
from ramet.continual.methods.optimizers import SgdAndAdam
from ramet.continual.methods.packnet import MAX_TASKS, largest
from ramet.continual.networks.keeping import copied, num_trained, packed, unpacked
from ramet.continual.networks.matrices import body_matrices
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Held, Saves, classification, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import Settings, accuracy, output_of

START, THRESHOLD = 0.01, 0.005
"""Where scores begin and above which a weight is picked, as in Piggyback, which the paper takes its masks from."""


def picked(scores: Tensor) -> Tensor:
    """1 where a score is above the threshold and 0 elsewhere; its gradient passes straight through to the scores.

    >>> picked(torch.tensor([0.01, 0.004])).tolist()
    [1.0, 0.0]
    """
    return (scores > THRESHOLD).to(scores.dtype) + scores - scores.detach()


class PickedNetwork(nn.Module):
    """A network of which the weights that are ``maskable``, booleans by the name of a matrix, have a learned mask."""

    def __init__(self, network: nn.Module, maskable: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.network = network
        self._maskable = dict(maskable)
        # Scores of the weights that are picked from, and of no others: [number of such weights].
        self.scores = nn.ParameterList(
            [nn.Parameter(torch.full((int(mask.sum()),), START, device=mask.device)) for mask in maskable.values()]
        )

    @property
    def weights(self) -> list[nn.Parameter]:
        """The matrices that tasks share, in order."""
        return [self.network.get_parameter(name) for name in self._maskable]

    def effective(self) -> dict[str, Tensor]:
        """The matrices with what is not picked left out, by name."""
        found = {}
        for (name, mask), weight, scores in zip(self._maskable.items(), self.weights, self.scores, strict=True):
            found[name] = weight * torch.ones_like(weight).masked_scatter(mask, picked(scores))
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Logits, [batch, classes]."""
        return output_of(functional_call(self.network, self.effective(), (x,)))

    @torch.no_grad()
    def picks(self) -> list[Tensor]:
        """For each layer whether each weight that is picked from is used, [number of such weights]."""
        return [scores > THRESHOLD for scores in self.scores]


@dataclass(kw_only=True, eq=False)
class CompactPickGrow(Method):
    """Each task trains the free weights and a mask over those of earlier tasks, prunes its own, and keeps the rest.

    Picking (section 3.2): weights of earlier tasks stay as they are, and the task learns which of them to use. Growing:
    while the task misses its goal on validation data, all layers are made wider and it is trained again. Compacting:
    its own weights are pruned in steps, each followed by training, as long as the goal is met; what was pruned is free
    for the next task. A task's network has the widths that it was finished with, and never changes afterwards.

    The goal is the accuracy of a network that learns the task alone, as in the paper, or a given one. A task that
    misses it at every width keeps its best one, and is pruned as long as it stays that good. Biases and batch norm are
    each task's own. Who owns a weight is one byte and whether a task picks it one bit; both count as stored.

    Of a module, weights are the matrices of linear layers, convolutions and attention, and everything else is each
    task's own. Layers are the groups of channels, hidden units or heads that growth's trace finds; channels that a
    layer norm runs over keep their width. The weights of a trained network are where the first task begins.

    Departs from the paper: a width that does not help is not kept; pruning is a ladder of shares, each held while the
    rest is trained, where the paper raises the share within an epoch too; the shares are chosen on validation data,
    where the released code looks at test data.

    Args:
        goal: The validation accuracy that a task should reach; 0 for that of an individual network.
        prune_step: By how much the pruned share rises at a time.
        max_prune: The largest pruned share, the paper's 0.95.
        prune_epochs: Epochs after each pruning, at a tenth of the learning rate.
        grow_step: By which share of the skeleton's width a growth widens, the released code's 0.5.
        max_width: The largest width as a multiple of the skeleton's, the released code's 1.5.
        mask_rate: The learning rate of the masks' scores (Adam), the paper's 5e-4.

    Raises:
        ConfigError: A number is out of its range, or there are more than 255 tasks.

    Reference: Hung et al., Compacting, picking and growing for unforgetting continual learning, 2019.
    """

    name: ClassVar[str] = "cpg"
    needs_accuracy: ClassVar[str] = "its goal is one"
    needs_chain: ClassVar[str] = ""
    needs_units: ClassVar[bool] = True
    keeps_start: ClassVar[bool] = True
    forgets_nothing: ClassVar[bool] = True
    target_option: ClassVar[str] = "goal"
    goal: float = 0.0
    prune_step: float = 0.1
    max_prune: float = 0.95
    prune_epochs: int = 2
    grow_step: float = 0.5
    max_width: float = 1.5
    mask_rate: float = 5e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.goal <= 1 or not 0 < self.prune_step < 1 or not 0 <= self.max_prune < 1:
            raise ConfigError(
                "goal must lie in [0, 1], prune_step in (0, 1) and max_prune in [0, 1), but got "
                f"{self.goal}, {self.prune_step} and {self.max_prune}."
            )
        if self.prune_epochs < 1 or self.grow_step <= 0 or self.max_width < 1 or self.mask_rate <= 0:
            raise ConfigError(
                "prune_epochs and max_width must be at least 1, grow_step and mask_rate positive, but got "
                f"{self.prune_epochs}, {self.max_width}, {self.grow_step} and {self.mask_rate}."
            )

    def _begin(self) -> None:
        self.width = 1.0
        network = self._network(1.0, 1, "start")
        self._names = list(body_matrices(network, self.template.head_name))
        # Weights of all tasks, [neurons, inputs, ...]; owner 0 is free, k belongs to the k-th task.
        self._weights = [network.get_parameter(name).detach().clone() for name in self._names]
        self._owners = [torch.zeros_like(weights, dtype=torch.uint8) for weights in self._weights]
        self._widths: list[float] = []
        self._picks: list[list[Tensor]] = []
        self._own: list[dict[str, Tensor]] = []
        self._said: list[str] = []

    def _sizes(self, width: float) -> list[int]:
        """The units of each place at a width, which is a multiple of the template's."""
        return [max(1, round(size * width)) for size in self.template.wiring.sizes]

    def _network(self, width: float, num_classes: int, *role: str | int) -> nn.Module:
        """A fresh network of a width."""
        with seeded_globally(self.seed, "weights", *role):
            return self.template.make_of_widths(self._sizes(width), num_classes).to(self.device)

    def _firsts(self, width: float) -> list[Tensor]:
        """The units that were there at a width: they come first."""
        return [torch.arange(size) for size in self._sizes(width)]

    # Learning a task.

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place = len(self.tasks)
        if place >= MAX_TASKS:
            raise ConfigError(f"cpg takes at most {MAX_TASKS} tasks, but got one more.")
        goal = self.goal or self._individual(task, saves)
        width, (network, owners, reached) = self._grown(task, goal, saves)
        share, kept = self._compacted(network, owners, task, min(goal, reached), saves)
        # Nothing of the method has changed up to here, so that a failure leaves it as it was.
        self._take(network, owners, kept, width)
        picks = self._picks[-1]
        total = sum(len(pick) for pick in picks)
        notes = {
            "goal": goal,
            "validation": self._score(network, task),
            "width": width,
            "pruned_share": share,
            "picked_share": sum(int(pick.sum()) for pick in picks) / total if total else None,
            "free_share": sum(int((o == 0).sum()) for o in self._owners) / sum(o.numel() for o in self._owners),
        }
        self._said.append(self._sentence(task.info.name, notes))
        return notes

    def _individual(self, task: TaskData, saves: Saves) -> float:
        """The validation accuracy of a network that learns the task alone."""
        place = len(self.tasks)
        network = self.template.make_network(task.info.num_classes, self.seed, "alone", place).to(self.device)
        loss, seed = classification(network, task.train, self.settings), derive_seed(self.seed, "alone", place)
        train(network, *loss, self.settings, seed=seed, saves=saves, phase="alone")
        return accuracy(network, task.validation.x, task.validation.y)

    def _grown(
        self, task: TaskData, goal: float, saves: Saves
    ) -> tuple[float, tuple[PickedNetwork, list[Tensor], float]]:
        """The best network of all widths up to the first that meets the goal."""
        width, best_width, best = self.width, self.width, None
        while True:
            network, owners = self._draft(width, task.info.num_classes)
            self._fit(network, [owner != 0 for owner in owners], task, self.settings, saves, f"train-{width:g}")
            reached = self._score(network, task)
            if best is None or reached > best[2]:
                best_width, best = width, (network, owners, reached)
            if reached >= goal or width >= self.max_width:
                return best_width, best
            width = min(width + self.grow_step, self.max_width)

    def _draft(self, width: float, num_classes: int) -> tuple[PickedNetwork, list[Tensor]]:
        """A network of a width: the weights there are, new ones around them, biases and head of its own."""
        place = len(self.tasks)
        network, owners = self._network(width, num_classes, "task", place, f"{width:g}"), []
        sizes, firsts, wiring = self._sizes(width), self._firsts(self.width), self.template.wiring
        for name, old, old_owner in zip(self._names, self._weights, self._owners, strict=True):
            weight = network.get_parameter(name)
            owner = torch.zeros_like(weight, dtype=torch.uint8)
            with torch.no_grad():
                wiring.put(name, weight, sizes, firsts, old)
            wiring.put(name, owner, sizes, firsts, old_owner)
            owners.append(owner)
        with seeded_globally(self.seed, "head", place):
            head = self.template.make_head_of_widths(sizes, num_classes).to(self.device)
        network.set_submodule(self.template.head_name, head)
        maskable = {name: owner != 0 for name, owner in zip(self._names, owners, strict=True)}
        return PickedNetwork(network, maskable), owners

    def _fit(
        self,
        network: PickedNetwork,
        still: Sequence[Tensor],
        task: TaskData,
        settings: Settings,
        saves: Saves,
        phase: str,
    ) -> None:
        """Train everything but the weights that are to stay as they are."""
        scores = [scores for scores in network.scores if len(scores)]
        train(
            network,
            *classification(network, task.train, settings),
            settings,
            seed=derive_seed(self.seed, "task", len(self.tasks), phase),
            held=[Held(weight, mask) for weight, mask in zip(network.weights, still, strict=True)],
            optimizer=(lambda groups: SgdAndAdam(groups, scores, self.mask_rate, settings)) if scores else None,
            saves=saves,
            phase=phase,
        )

    def _compacted(
        self, network: PickedNetwork, owners: Sequence[Tensor], task: TaskData, goal: float, saves: Saves
    ) -> tuple[float, list[Tensor]]:
        """Prune the task's own weights while it meets the goal; the pruned share, and which weights are kept."""
        own = [owner == 0 for owner in owners]
        settings = replace(
            self.settings,
            epochs=self.prune_epochs,
            learning_rate=self.settings.learning_rate / 10,
            final_learning_rate=self.settings.final_learning_rate / 10,
        )
        best_share, best_kept, best = 0.0, own, copy.deepcopy(network.state_dict())
        for share in ladder(self.prune_step, self.max_prune):
            kept = []
            with torch.no_grad():
                for weight, mine in zip(network.weights, own, strict=True):
                    kept.append(largest(weight, mine, 1 - share))
                    weight[mine & ~kept[-1]] = 0.0
            self._fit(network, [~mask for mask in kept], task, settings, saves, f"prune-{share:g}")
            if self._score(network, task) < goal:
                break
            best_share, best_kept, best = share, kept, copy.deepcopy(network.state_dict())
        network.load_state_dict(best)
        return best_share, best_kept

    def _score(self, network: PickedNetwork, task: TaskData) -> float:
        return accuracy(network.eval(), task.validation.x, task.validation.y)

    def _take(self, network: PickedNetwork, owners: Sequence[Tensor], kept: Sequence[Tensor], width: float) -> None:
        """Keep what the task owns and picks; all else is free."""
        place = len(self.tasks)
        self.width = width
        for i, (owner, mask) in enumerate(zip(owners, kept, strict=True)):
            owner[mask] = place + 1
            weight = network.weights[i].detach().clone()
            weight[owner == 0] = 0.0
            self._weights[i], self._owners[i] = weight, owner
        self._widths.append(width)
        self._picks.append(network.picks())
        own = copied(network.network).items()
        self._own.append({name: tensor for name, tensor in own if name not in self._names})

    # What was learned.

    def network(self, name: str) -> nn.Module:
        """The task's weights, those of earlier tasks that it picked, and zeros."""
        place = self.place(name)
        network = self._network(self._widths[place], self.tasks[place].num_classes, "taken out")
        network.load_state_dict(self._own[place], strict=False)
        sizes, firsts, wiring = self._sizes(self.width), self._firsts(self._widths[place]), self.template.wiring
        with torch.no_grad():
            for i, matrix in enumerate(self._names):
                weight = wiring.take(matrix, self._weights[i], sizes, firsts)
                owner, picks = wiring.take(matrix, self._owners[i], sizes, firsts), self._picks[place][i]
                used = (owner == place + 1).to(weight.dtype)
                used = used.masked_scatter((owner > 0) & (owner <= place), picks.to(weight.dtype))
                network.get_parameter(matrix).copy_(weight * used)
        return network.eval()

    def num_parameters(self) -> int:
        """The weights of all layers, free ones too, and the biases, batch norms and heads of all tasks."""
        return sum(weights.numel() for weights in self._weights) + num_trained(self._own, self.template.untrained)

    def state(self) -> dict[str, Any]:
        """Weights, a byte for the owner of each, a bit for each pick, and what is each task's own."""
        return {
            "width": self.width,
            "weights": copied(self._weights),
            "owners": copied(self._owners),
            "widths": list(self._widths),
            "picks": packed(self._picks),
            "lengths": [[len(pick) for pick in picks] for picks in self._picks],
            "own": copied(self._own),
            "said": list(self._said),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self.width, self._widths, self._said = state["width"], list(state["widths"]), list(state["said"])
        self._weights, self._owners, self._own = (copied(state[k], self.device) for k in ("weights", "owners", "own"))
        self._picks = unpacked(state["picks"], state["lengths"], self.device)

    def explain(self) -> list[str]:
        """What each task picked, pruned and grew."""
        return list(self._said)

    def _sentence(self, name: str, notes: dict[str, Any]) -> str:
        picks = "" if notes["picked_share"] is None else f"picks {notes['picked_share']:.1%} of earlier weights, "
        return (
            f"{name} {picks}prunes {notes['pruned_share']:.0%} of its own at width {notes['width']:g}; "
            f"{notes['validation']:.1%} on validation data, where the goal was {notes['goal']:.1%}."
        )


def ladder(step: float, end: float) -> list[float]:
    """Shares from a step to an end, a step apart, the end included.

    >>> ladder(0.3, 0.95)
    [0.3, 0.6, 0.9, 0.95]
    """
    shares = [round(step * i, 6) for i in range(1, int(end / step) + 1)]
    shares = [share for share in shares if share < end]
    return [*shares, end] if end > 0 else []
