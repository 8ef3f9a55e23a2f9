"""Dynamically expandable networks: retrain what a task needs, add neurons if that fails, split those that drifted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ramet.continual.methods.master_method import MasterMethod
from ramet.continual.methods.optimizers import ProximalSgd, Sparse
from ramet.continual.networks.draft_widths import with_new, with_only
from ramet.continual.networks.master import Draft, like
from ramet.continual.networks.skeletons import weights_of
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Held, Saves, classification, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed, seeded_globally


@dataclass(kw_only=True, eq=False)
class ExpandableNetwork(MasterMethod):
    """Selective retraining, dynamic expansion, and splitting of drifted neurons (Algorithms 1 to 4).

    The first task is trained with a penalty on magnitudes, so that its network is sparse (Eq. 2). A later one

    1. trains its head alone, sparsely (Eq. 3); from the neurons that the head reads it walks down along weights that
       are not zero, and retrains what it finds (Algorithm 2);
    2. if the training loss is still above ``loss_threshold``, adds ``new_units`` neurons to each layer and trains them
       alone under mu |W|_1 + gamma times the norms of new neurons' incoming weights; neurons whose incoming weights all
       became zero are removed (Eq. 4, Algorithm 3);
    3. trains everything with lambda |W - W'|^2 added to the loss, W' being the weights before the task (Eq. 5); a
       neuron whose incoming weights moved by more than ``split_threshold`` is duplicated, the old one put back, and
       training goes on (Algorithm 4).

    A neuron carries its time: each task sees the neurons that were there when it was learned, and no later ones.
    Weights of neurons that were not split stay shared and move a little, so that earlier tasks may forget a little.

    Sparsity comes from the proximal map, so that zeros are exact; the released code cuts small weights off instead. The
    strengths are that code's where the argument does not say otherwise.

    Departs from the paper: the task that splits a neuron reads the copy alone, where the paper lets it read both,
    because the copy then begins with what the task had learned. Batch norm, which the paper does not have, is each
    task's own.

    Args:
        l1: Mu of the first network, of a later task's first head and of new neurons; the released code's is 1e-5, for
            much longer trainings.
        l2: The weight of squares in the selective retraining.
        group: Gamma; the released code's is 1e-3, for much longer trainings.
        drift: Lambda.
        new_units: Neurons that an expansion adds to each layer before it removes the useless ones.
        loss_threshold: The training loss above which a task expands.
        split_threshold: How far a neuron's incoming weights may move.

    Reference: Yoon et al., Lifelong learning with dynamically expandable networks, 2018.
    """

    name: ClassVar[str] = "den"
    needs_chain: ClassVar[str] = "it splits the neurons of a chain's layers"
    l1: float = 1e-4
    l2: float = 1e-4
    group: float = 0.03
    drift: float = 0.5
    new_units: int = 10
    loss_threshold: float = 0.01
    split_threshold: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        strengths = (self.l1, self.l2, self.group, self.drift, self.loss_threshold, self.split_threshold)
        if min(strengths) < 0 or self.new_units < 1:
            raise ConfigError(
                "strengths and thresholds must not be negative and new_units must be at least 1, but got "
                f"{', '.join(map(str, strengths))} and {self.new_units}."
            )

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        draft, notes = self._first(task, saves) if not self.tasks else self._later(task, saves)
        for place, origin in enumerate(draft.origins):
            old = origin >= 0
            self.master.biases[place][origin[old]] = weights_of(draft.network[place]).bias.detach()[old]
        self.master.add(draft)
        notes["widths"] = self.master.widths
        self._said.append(self._sentence(task.info.name, notes))
        return notes

    def _first(self, task: TaskData, saves: Saves) -> tuple[Draft, dict[str, Any]]:
        network = self.skeleton.make_network(task.info.num_classes, self.seed, "first").to(self.device)
        draft = Draft.of_own(self.skeleton, network)
        penalties = [Sparse(weights_of(layer).weight, l1=self.l1) for layer in network]
        self._fit(draft, task, saves, "first", penalties=penalties)
        return draft, {"selected": 0, "added": 0, "removed": 0, "split": 0}

    def _later(self, task: TaskData, saves: Saves) -> tuple[Draft, dict[str, Any]]:
        place = len(self.tasks)
        with seeded_globally(self.seed, "head", place):
            # What the task before sees is all there is but for neurons that were replaced by their copies.
            draft = self.master.draft([mask.nonzero()[:, 0] for mask in self.master.masks[-1]], task.info.num_classes)
        notes: dict[str, Any] = {"selected": self._select(draft, task, saves), "added": 0, "removed": 0}
        loss = self._loss_of(draft, task)
        if loss > self.loss_threshold:
            draft, notes["added"], notes["removed"] = self._expand(draft, task, saves)
        notes["split"] = self._split(draft, task, saves)
        return draft, notes | {"loss_before_expansion": loss}

    def _select(self, draft: Draft, task: TaskData, saves: Saves) -> int:
        """Algorithm 2: a sparse head, then the weights that it depends on; the number of neurons retrained."""
        network = draft.network
        head = weights_of(network[-1]).weight
        self._fit(
            draft,
            task,
            saves,
            "head",
            rate=lambda name: float(name.startswith("head.") or ".norm." in name),
            penalties=[Sparse(head, l1=self.l1)],
        )
        selected = reachable(draft)
        held, chosen = [], []
        for place, (rows, inputs) in enumerate(zip(selected[1:], selected, strict=False)):
            weights = weights_of(network[place])
            pairs = _pairs(rows, inputs, weights.weight)
            held += [Held(weights.weight, ~pairs), Held(weights.bias, ~rows.to(weights.bias.device))]
            chosen.append((weights.weight, pairs))
        self._fit(
            draft,
            task,
            saves,
            "selected",
            held=held,
            penalty=lambda: self.l2 * sum((weight * pairs).square().sum() for weight, pairs in chosen),
        )
        return sum(int(rows.sum()) for rows in selected[1:])

    def _expand(self, draft: Draft, task: TaskData, saves: Saves) -> tuple[Draft, int, int]:
        """Algorithm 3: new neurons, of which the useless ones go; how many stay and how many went."""
        with seeded_globally(self.seed, "new", len(self.tasks)):
            wide = with_new(draft, [self.new_units] * len(draft.widths))
        held, penalties = wide.held(), []
        locked = {id(entry.param): entry.mask for entry in held}
        for place, origin in enumerate(wide.origins):
            weight = weights_of(wide.network[place]).weight
            free = ~locked[id(weight)].expand_as(weight)
            rows = (origin < 0).to(weight.device)
            penalties.append(Sparse(weight, l1=self.l1, group=self.group, rows=rows, mask=free))
        self._fit(wide, task, saves, "expanded", held=held, penalties=penalties)
        keep = []
        for place, origin in enumerate(wide.origins):
            read = weights_of(wide.network[place]).weight.detach().flatten(1).any(1).cpu()
            keep.append((origin >= 0) | read)
        grown = with_only(wide, keep)
        added = sum(grown.widths) - sum(draft.widths)
        return grown, added, sum(wide.widths) - sum(grown.widths)

    def _split(self, draft: Draft, task: TaskData, saves: Saves) -> int:
        """Algorithm 4: train near the old weights, and copy the neurons that went too far; how many."""
        # In Eq. 5 the old weights are those before this task, not those after its selective retraining.
        before = self._old_weights(draft)
        self._fit(draft, task, saves, "drift", penalty=lambda: self.drift * _distance(draft, before))
        moved = []
        for place, old in enumerate(before):
            weight = weights_of(draft.network[place]).weight.detach()
            moved.append(((weight - old) * _old_pairs(draft, place)).flatten(1).norm(dim=1).cpu())
        num_split = 0
        for origin, distance in zip(draft.origins, moved, strict=True):
            split = (origin >= 0) & (distance > self.split_threshold)
            # The old neuron is in the master, as it was; this one is a new one from now on.
            origin[split] = -1
            num_split += int(split.sum())
        if num_split:
            self._fit(draft, task, saves, "split", penalty=lambda: self.drift * _distance(draft, before))
        return num_split

    def _old_weights(self, draft: Draft) -> list[Tensor]:
        """The weights before this task, in the shape of a draft's; zero where there were none."""
        with seeded_globally(0, "shapes"):
            chosen = [origin[origin >= 0] for origin in draft.origins]
            old = self.master.draft(chosen, 1)
        before = []
        for place in range(len(draft.origins)):
            weight = torch.zeros_like(weights_of(draft.network[place]).weight.detach())
            # Old neurons come first in a draft that was widened.
            source = weights_of(old.network[place]).weight.detach()
            weight[: source.shape[0], : source.shape[1]] = source
            before.append(weight)
        return before

    def _fit(
        self,
        draft: Draft,
        task: TaskData,
        saves: Saves,
        phase: str,
        *,
        rate: Callable[[str], float] = lambda name: 1.0,
        held: Sequence[Held] = (),
        penalties: Sequence[Sparse] = (),
        penalty: Callable[[], Tensor | float] | None = None,
    ) -> None:
        train(
            draft.network,
            *classification(draft.network, task.train, self.settings, penalty),
            self.settings,
            seed=derive_seed(self.seed, "task", len(self.tasks), phase),
            rate=rate,
            held=held,
            optimizer=(lambda groups: ProximalSgd(groups, penalties, self.settings)) if penalties else None,
            saves=saves,
            phase=phase,
        )

    @torch.no_grad()
    def _loss_of(self, draft: Draft, task: TaskData) -> float:
        return float(cross_entropy(draft.network.eval()(task.train.x), task.train.y))

    def _sentence(self, name: str, notes: dict[str, Any]) -> str:
        return (
            f"{name} retrains {notes['selected']} neurons, keeps {notes['added']} of "
            f"{notes['added'] + notes['removed']} new ones and splits {notes['split']} that drifted."
        )


@torch.no_grad()
def reachable(draft: Draft) -> list[Tensor]:
    """What the head depends on along weights that are not zero: booleans over the inputs, then over each layer."""
    above = torch.ones(len(weights_of(draft.network[-1]).weight), dtype=torch.bool)
    found: list[Tensor] = []
    for place in reversed(range(len(draft.network))):
        weight = weights_of(draft.network[place]).weight.cpu()
        units = draft.widths[place - 1] if place else weight.shape[1]
        # [rows, units, weights of a unit]: a unit may have several, where an image is flattened or a kernel is wide.
        above = (weight != 0)[above].reshape(int(above.sum()), units, -1).any(2).any(0)
        found.insert(0, above)
    return found


def _old_pairs(draft: Draft, place: int) -> Tensor:
    """Which weights of a layer are between two old neurons, in the shape of the weights."""
    return _pairs(draft.origins[place] >= 0, draft.locked_in(place), weights_of(draft.network[place]).weight)


def _pairs(rows: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
    """Which weights go from some inputs or neurons to some rows, booleans in the shape of the weights."""
    inputs = inputs.repeat_interleave(weight.shape[1] // len(inputs))
    pairs = rows[:, None] & inputs[None, :]
    return like(pairs, weight).expand_as(weight)


def _distance(draft: Draft, before: Sequence[Tensor]) -> Tensor:
    """The squared distance of the weights between old neurons from their old values."""
    terms = []
    for place, old in enumerate(before):
        weight = weights_of(draft.network[place]).weight
        terms.append(((weight - old) * _old_pairs(draft, place)).square().sum())
    return torch.stack(terms).sum()
