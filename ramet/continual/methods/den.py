"""Dynamically expandable networks: retrain what a task needs, add neurons if that fails, split those that drifted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ramet.continual.methods.master_method import MasterMethod
from ramet.continual.methods.optimizers import ProximalSgd, Sparse
from ramet.continual.networks.draft_widths import with_new, with_only
from ramet.continual.networks.master import Draft
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Held, Saves, classification, train
from ramet.errors import ConfigError
from ramet.seeding import derive_seed, seeded_globally
from ramet.training import output_of


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

    Of a module, neurons are the units that ``MasterMethod`` names. What holds none is trained by the first task alone,
    and a head of attention is one neuron, however many weights it has. A trained network is where the first task
    begins.

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
        self.master.add(draft)
        notes["widths"] = self.master.widths
        self._said.append(self._sentence(task.info.name, notes))
        return notes

    def _first(self, task: TaskData, saves: Saves) -> tuple[Draft, dict[str, Any]]:
        draft = self._whole(task, saves)
        penalties = [Sparse(param, l1=self.l1) for param in draft.matrices(head=True).values()]
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
        shared = set(draft.wiring.shared)
        self._fit(
            draft,
            task,
            saves,
            "head",
            rate=lambda name: float(name not in shared),
            penalties=[Sparse(draft.head_weight, l1=self.l1)],
        )
        _, *selected = reachable(draft)
        matrices, held, chosen = draft.matrices(), [], []
        for name, param in draft.params().items():
            picked = draft.wiring.mask(name, selected, param.device)
            if name in matrices:
                picked = picked & _read_inputs(draft, name, selected)
                chosen.append((param, picked.expand_as(param)))
            held.append(Held(param, ~picked if draft.wiring.dims(name) else torch.ones_like(picked)))
        self._fit(
            draft,
            task,
            saves,
            "selected",
            held=held,
            penalty=lambda: self.l2 * sum((weight * pairs).square().sum() for weight, pairs in chosen),
        )
        return sum(int(rows.sum()) for rows in selected)

    def _expand(self, draft: Draft, task: TaskData, saves: Saves) -> tuple[Draft, int, int]:
        """Algorithm 3: new neurons, of which the useless ones go; how many stay and how many went."""
        with seeded_globally(self.seed, "new", len(self.tasks)):
            wide = with_new(draft, [self.new_units] * len(draft.widths))
        held, penalties = wide.held(), []
        locked = {id(entry.param): entry.mask for entry in held}
        wiring, is_old = wide.wiring, wide.locked()
        for name, weight in wide.matrices().items():
            free = ~locked[id(weight)].expand_as(weight)
            makes = 0 in wiring.dims(name) and (name, 0) not in wiring.readers
            rows = ~wiring.marked(name, 0, is_old) if makes else torch.zeros(len(weight), dtype=torch.bool)
            penalties.append(Sparse(weight, l1=self.l1, group=self.group, rows=rows.to(weight.device), mask=free))
        self._fit(wide, task, saves, "expanded", held=held, penalties=penalties)
        keep = []
        for place, old in enumerate(is_old):
            incoming = _incoming(wide, place, wide.matrices())
            keep.append(old | incoming.any(1).cpu())
        grown = with_only(wide, keep)
        added = sum(grown.widths) - sum(draft.widths)
        return grown, added, sum(wide.widths) - sum(grown.widths)

    def _split(self, draft: Draft, task: TaskData, saves: Saves) -> int:
        """Algorithm 4: train near the old weights, and copy the neurons that went too far; how many."""
        # In Eq. 5 the old weights are those before this task, not those after its selective retraining.
        before = self._old_weights(draft)
        # What holds no neuron could not be copied, and stays.
        held = [entry for entry in draft.held() if entry.mask.numel() == 1]
        self._fit(draft, task, saves, "drift", held=held, penalty=lambda: self.drift * _distance(draft, before))
        moves = {
            name: (weight.detach() - old) * draft.old(name)
            for (name, weight), old in zip(draft.matrices().items(), before, strict=True)
        }
        moved = [_incoming(draft, place, moves).norm(dim=1).cpu() for place in range(len(draft.origins))]
        num_split = 0
        for origin, distance in zip(draft.origins, moved, strict=True):
            split = (origin >= 0) & (distance > self.split_threshold)
            # The old neuron is in the master, as it was; this one is a new one from now on.
            origin[split] = -1
            num_split += int(split.sum())
        if num_split:
            self._fit(draft, task, saves, "split", held=held, penalty=lambda: self.drift * _distance(draft, before))
        return num_split

    def _old_weights(self, draft: Draft) -> list[Tensor]:
        """The weights before this task, in the shape of a draft's; zero where there were none."""
        chosen = [origin[origin >= 0] for origin in draft.origins]
        firsts = [torch.arange(len(units)) for units in chosen]  # old neurons come first in a draft that was widened
        before = []
        for name, param in draft.matrices().items():
            old = torch.zeros_like(param.detach())
            source = draft.wiring.take(name, self.master.tensors[name], self.master.widths, chosen)
            draft.wiring.put(name, old, draft.widths, firsts, source)
            before.append(old)
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
        return float(cross_entropy(output_of(draft.network.eval()(task.train.x)), task.train.y))

    def _sentence(self, name: str, notes: dict[str, Any]) -> str:
        return (
            f"{name} retrains {notes['selected']} neurons, keeps {notes['added']} of "
            f"{notes['added'] + notes['removed']} new ones and splits {notes['split']} that drifted."
        )


@torch.no_grad()
def reachable(draft: Draft) -> list[Tensor]:
    """What the head depends on along weights that are not zero: booleans over the inputs, then over each place."""
    wiring, found = draft.wiring, [torch.zeros(width, dtype=torch.bool) for width in draft.widths]
    matrices, is_new = draft.matrices(head=True), True
    while is_new:  # a chain is walked down; in a module, units may be read in several places
        is_new = False
        for name, param in reversed(matrices.items()):
            used = (param != 0) & wiring.made(name, found, param.device)
            for place in range(len(found)):
                for dim in wiring.dims(name, place):
                    if (name, dim) in wiring.readers:
                        read = wiring.rows(name, dim, place, used, draft.widths).flatten(1).any(1).cpu()
                        is_new = is_new or bool((read & ~found[place]).any())
                        found[place] = found[place] | read
    first = next(iter(matrices))
    return [_read_inputs(draft, first, found).flatten().cpu(), *found]


@torch.no_grad()
def _read_inputs(draft: Draft, name: str, found: Sequence[Tensor]) -> Tensor:
    """Which inputs of a matrix some of the units that were found read; all, where inputs are units; broadcast."""
    weight = draft.params(head=True)[name]
    if 1 in draft.wiring.dims(name):
        return torch.ones([1] * weight.ndim, dtype=torch.bool, device=weight.device)
    used = (weight != 0) & draft.wiring.made(name, found, weight.device)
    return used.movedim(1, 0).flatten(1).any(1).reshape(1, -1, *[1] * (weight.ndim - 2))


def _incoming(draft: Draft, place: int, values: Mapping[str, Tensor]) -> Tensor:
    """The values of tensors that belong to the making of each unit of a place, [units, values]."""
    makers = [each for each in draft.wiring.holders(place, reading=False) if each[0] in values]
    rows = [draft.wiring.rows(name, dim, place, values[name].detach(), draft.widths) for name, dim in makers]
    return torch.cat([each.flatten(1) for each in rows], 1)


def _distance(draft: Draft, before: Sequence[Tensor]) -> Tensor:
    """The squared distance of the weights between old neurons from their old values."""
    terms = []
    for (name, weight), old in zip(draft.matrices().items(), before, strict=True):
        terms.append(((weight - old) * draft.old(name)).square().sum())
    return torch.stack(terms).sum()
