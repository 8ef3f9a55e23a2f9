"""A network for each task that begins with what an earlier one has learned, where that is worth more than nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from ramet.continual.method import Method
from ramet.continual.methods.feature_fit import FeatureFit, feature_fit
from ramet.continual.methods.head_fitting import FITTED, fit_head
from ramet.continual.networks.keeping import copied
from ramet.continual.networks.resizing import factor_for, network_size, resized
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template, seeded
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, classification, train
from ramet.costs import count_parameters
from ramet.data import Split
from ramet.errors import ConfigError
from ramet.fields import require_choices
from ramet.reports.formats import percent, significant
from ramet.seeding import derive_seed, torch_generator
from ramet.training import measure

JUDGING_SHARE, FEWEST = 0.1, 50
"""What judging earlier networks may cost, as a share of a task's training, and the images that it takes at least."""


@dataclass(kw_only=True, eq=False)
class WarmStart(Method):
    """Each task fine-tunes a copy of the network that serves it best, or begins anew at once if none does.

    The features of every earlier network are fitted to the new task by a ridge regression, on some of its images, and
    judged on its validation images; so are those of an untrained network. The best earlier network is copied and
    trained, with a head that is fitted to it first, unless the untrained one is better by ``margin`` standard errors: a
    task that fits nothing has its own first weights at once. Either way all layers are the task's own, so that nothing
    is forgotten, and each task costs about one training (docs/decisions/063).

    Where training is long, a copy may end behind fresh weights that learn as long. So the first ``both`` tasks that a
    copy serves are learned both ways, the better network on validation data is kept, and all later tasks begin in the
    way that was ahead over these (docs/decisions/111).

    With ``target`` a task that reaches it by a head on the unchanged layers of its relative gets no more than that.

    Args:
        margin: standard errors of the validation score by which an untrained network must be better than all earlier
            ones for a task to begin anew; negative to ask that an earlier one be better by so many.
        num_samples: the most images that features are fitted to, and as many that judge; fewer where that would cost
            more than a tenth of the training, but at least 50.
        head_weights: what the head of a copy begins with: ``fitted`` to the features that are copied, or ``fresh``.
        both: tasks that are learned as a copy and anew, each for the whole training; 0 to take every copy that serves.
        width: the multiple of the network's widths that each task's network has (mlp and conv).
        target: the validation score, in the metric of the recipe, at which a task gets no layers of its own; none for
            a network for every task.
        budget: the parameters of all tasks together, shared out evenly over the tasks still to come: the networks of
            mlp and conv are as much narrower as they must be; a task for which a module's copy is too large gets a
            head. 0 for no limit.
    """

    name: ClassVar[str] = "warm-start"
    forgets_nothing: ClassVar[bool] = True
    needs_chain: ClassVar[str] = ""
    needs_classes: ClassVar[str] = ""
    keeps_start: ClassVar[bool] = True
    target_option: ClassVar[str] = "target"
    budget_option: ClassVar[str] = "budget"

    margin: float = 1.0
    num_samples: int = 200
    head_weights: Literal["fitted", "fresh"] = "fitted"
    both: int = 3
    width: float = 1.0
    target: float | None = None
    budget: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choices(self)
        if not math.isfinite(self.margin) or not 0 < self.width < math.inf:
            raise ConfigError(
                f"margin must be finite, and width positive and finite, but got {self.margin} and {self.width}."
            )
        if self.num_samples < 2 or self.budget < 0 or self.both < 0:
            raise ConfigError(
                "num_samples must be at least 2, budget and both not negative, "
                f"but got {self.num_samples}, {self.budget} and {self.both}."
            )
        if self.target is not None and not math.isfinite(self.target):
            raise ConfigError(f"target must be finite, but got {self.target}.")

    def check_network(self, template: Template) -> None:
        """Refuse widths of a module, which has none that are known."""
        super().check_network(template)
        if self.width != 1 and not isinstance(template, Skeleton):
            raise ConfigError(f"{self.name}:width is for mlp and conv, but got {self.width:g} with a module.")

    def _begin(self) -> None:
        self._bodies: dict[int, nn.Module] = {}  # by the place of the task that they were made for
        self._factors: dict[int, float] = {}
        self._owners: list[int] = []
        self._heads: list[nn.Module] = []
        self._leads: list[float] = []  # of copies over fresh weights, where a task was learned both ways
        self._said: list[str] = []

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        name = task.info.name
        factor = self._factor(task.info.num_classes)
        fits = self._fits(task, saves)
        relative, notes = self._relative(fits), self._notes(fits)
        is_shared = False
        best = self._best(fits)
        if best is not None and (self.target is not None or factor is None):
            is_shared = self._try_head(task, best, saves, must=factor is None)
        if is_shared:
            relative = best
            said = f"{name!r} shares all layers of {self._name(best)!r}, and has a head of its own."
        else:
            if factor is None:
                raise ConfigError(f"a budget must leave a network for each task, but got {self.budget} for {name!r}.")
            copyable = relative is not None and self._factors.get(relative) == factor
            relative, said, lead = self._train_own(task, relative if copyable else None, factor, saves)
            notes["lead"] = lead
        self._said.append(said + self._reasons(fits))
        return notes | {"relative": self._name(relative), "shares_all": is_shared, "width": factor}

    def _factor(self, num_classes: int) -> float | None:
        """The width that a new network may have; None if there is no room for one."""
        if not self.budget:
            return self.width
        place = len(self.tasks)
        share = (self.budget - self.num_parameters()) / max(1, self.num_expected - place)
        if not isinstance(self.template, Skeleton):
            size = count_parameters(self.template.make_network(num_classes, self.seed))
            return 1.0 if size <= share or not place else None
        last = self._factors.get(self._owners[-1]) if self._owners else self.width
        if last is not None and network_size(resized(self.skeleton, last), num_classes) <= share:
            return last
        try:
            return min(self.width, factor_for(self.skeleton, [num_classes], share, at_most=True))
        except ConfigError:
            if not place:
                raise
            return None

    def _sized(self, factor: float) -> Template:
        return self.template if factor == 1 else resized(self.skeleton, factor)

    # Which earlier network serves a new task.

    def _fits(self, task: TaskData, saves: Saves) -> dict[int | None, FeatureFit]:
        """How well each earlier body serves the task, by its place; under None how well one does that knows nothing."""
        if not self._bodies:
            return {}
        place, classes, device = len(self.tasks), task.info.num_classes, task.train.x.device
        number = self._num_judging(len(task.train))
        seen, judging = self._some(task.train, "fit", number), self._some(task.validation, "judge", number)
        fits: dict[int | None, FeatureFit] = {}
        with saves.work.counted("features"):
            # What a task would begin with otherwise: untrained layers as wide as the last ones, or the trained network.
            first = self._sized(self._factors[self._owners[-1]]).make_features(self.seed, "untrained", place).to(device)
            fits[None] = feature_fit(first, seen, judging, classes)
            for owner, body in self._bodies.items():
                fits[owner] = feature_fit(body.to(device), seen, judging, classes)
        return fits

    def _num_judging(self, num_trained: int) -> int:
        """Images that features are fitted to, so that judging costs about a tenth of what the training will.

        A sample of a training goes forward and twice as far back; one of the fitting and one of the judging go forward
        through every earlier network and the first one.
        """
        passes = 3 * self.settings.epochs * num_trained / (2 * (1 + len(self._bodies)))
        return min(self.num_samples, max(FEWEST, int(JUDGING_SHARE * passes)))

    def _some(self, split: Split, role: str, most: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch_generator(self.seed, "samples", role, len(self.tasks))
        rows = torch.randperm(len(split.y), generator=generator)[:most].sort().values
        return split.x[rows.to(split.x.device)], split.y[rows.to(split.y.device)]

    def _best(self, fits: dict[int | None, FeatureFit]) -> int | None:
        """The place of the body that serves best, of equals the last."""
        owners = [owner for owner in fits if owner is not None]
        return max(owners, key=lambda owner: (fits[owner].score, owner), default=None)

    def _relative(self, fits: dict[int | None, FeatureFit]) -> int | None:
        """The place of the body that serves best, unless one that knows nothing serves clearly better."""
        best = self._best(fits)
        if best is None:
            return None
        needed = fits[None].score - self.margin * max(fits[best].error, fits[None].error)
        return best if fits[best].score >= needed else None

    def _name(self, owner: int | None) -> str | None:
        return None if owner is None else self.tasks[owner].name

    def _notes(self, fits: dict[int | None, FeatureFit]) -> dict[str, Any]:
        scores = {str(self._name(owner)): fit.score for owner, fit in fits.items() if owner is not None}
        return {"features": scores, "untrained": fits[None].score if fits else None}

    def _reasons(self, fits: dict[int | None, FeatureFit]) -> str:
        best = self._best(fits)
        if best is None:
            return ""
        start = self._first() if self.template.is_trained else "an untrained network"
        ours, theirs = fits[best], fits[None]
        return (
            f" A linear fit to the features of {self._name(best)!r} has {percent(ours.score)} on validation data, to "
            f"those of {start} {percent(theirs.score)} (standard error {percent(max(ours.error, theirs.error))})."
        )

    # Learning a task.

    def _fitted_head(self, body: nn.Module, template: Template, task: TaskData, saves: Saves, phase: str) -> nn.Module:
        classes, place = task.info.num_classes, len(self.tasks)
        head = seeded(lambda: template.make_head(classes), self.seed, "individual", place, "head")
        head.to(task.train.x.device)
        seed = derive_seed(self.seed, "head", task.info.name)
        fit_head(head, body, task.train, self.settings, seed=seed, most=FITTED, saves=saves, phase=phase)
        return head

    def _try_head(self, task: TaskData, relative: int, saves: Saves, *, must: bool) -> bool:
        """Learn a task by a head on a body that stays as it is; gives whether that is good enough, or must be."""
        template, body = self._sized(self._factors[relative]), self._bodies[relative].to(task.train.x.device)
        head = self._fitted_head(body, template, task, saves, "shared-head")
        value = self._validated(template.joined(body, head).eval(), task, saves)
        if not must and not self._reaches(value, self.settings.metric_for(task.train.y).higher_is_better):
            return False
        self._owners.append(relative)
        self._heads.append(head.eval())
        return True

    def _reaches(self, value: float, higher_is_better: bool) -> bool:
        assert self.target is not None
        return value >= self.target if higher_is_better else value <= self.target

    def _train_own(
        self, task: TaskData, relative: int | None, factor: float, saves: Saves
    ) -> tuple[int | None, str, float | None]:
        """Train a network that is the task's own.

        Returns:
            The place of the one that it began as a copy of, if any; what it began with, in words; and the copy's lead
            on validation data, if the task was learned both ways.
        """
        template, name, lead = self._sized(factor), task.info.name, None
        is_behind = len(self._leads) >= self.both and sum(self._leads) < 0
        network = self._trained(task, None if is_behind else relative, template, saves)
        if relative is None:
            said = f"{name!r} began with {self._first()}" + (
                ": no earlier network serves it as well." if self.tasks else "."
            )
        elif is_behind:
            said = f"{name!r} began with {self._first()}: that was ahead where tasks were learned both ways."
            relative = None
        elif len(self._leads) < self.both:
            anew = self._trained(task, None, template, saves, phase="anew")
            copied_value, anew_value = (self._validated(each, task, saves) for each in (network, anew))
            metric = self.settings.metric_for(task.train.y)
            lead = metric.score(copied_value) - metric.score(anew_value)
            self._leads.append(lead)
            form = percent if metric.is_share else significant
            said = (
                f"{name!r} was learned both ways, the better network is kept: as a copy of {self._name(relative)!r} it "
                f"has {form(copied_value)} on validation data, with {self._first()} {form(anew_value)}."
            )
            if lead < 0:
                network, relative = anew, None
        else:
            said = f"{name!r} began as a copy of {self._name(relative)!r}."
        place = len(self.tasks)
        self._bodies[place], self._factors[place] = template.body_of(network).eval(), factor
        self._heads.append(template.head_of(network).eval())
        self._owners.append(place)
        return relative, said, lead

    def _trained(
        self, task: TaskData, relative: int | None, template: Template, saves: Saves, phase: str = "train"
    ) -> nn.Module:
        """A network of the task, trained from a copy of an earlier one's body, or from the first weights."""
        place, device, classes = len(self.tasks), task.train.x.device, task.info.num_classes
        if relative is None:
            network = template.make_network(classes, self.seed, "individual", place).to(device)
        else:
            head = seeded(lambda: template.make_head(classes), self.seed, "individual", place, "head").to(device)
            network = template.joined(self._bodies[relative].to(device), head)
        if (relative is not None or self.template.is_trained) and self.head_weights == "fitted":
            body = template.body_of(network)
            head_phase = "head" if phase == "train" else f"head-{phase}"
            network = template.joined(body, self._fitted_head(body, template, task, saves, head_phase))
        seed, loss = derive_seed(self.seed, "task", place), classification(network, task.train, self.settings)
        train(network, *loss, self.settings, seed=seed, saves=saves, phase=phase)
        return network

    def _validated(self, network: nn.Module, task: TaskData, saves: Saves) -> float:
        """The metric of a trained network on the task's validation data."""
        split, metric = task.validation, self.settings.metric_for(task.train.y)
        with saves.work.counted("judging"):
            return measure(network, split.x, split.y, metric)

    def _first(self) -> str:
        return "the trained network" if self.template.is_trained else "fresh weights"

    # What is kept.

    def network(self, name: str) -> nn.Module:
        """A copy of the task's network."""
        place = self.place(name)
        owner = self._owners[place]
        template = self._sized(self._factors[owner])
        return template.joined(self._bodies[owner], self._heads[place]).eval()

    def num_parameters(self) -> int:
        """The networks of all tasks; layers that tasks share count once."""
        return sum(count_parameters(part) for part in (*self._bodies.values(), *self._heads))

    def explain(self) -> list[str]:
        """What each task began with, and why."""
        return [*self.template.notes, *self._said]

    def state(self) -> dict[str, Any]:
        """The bodies, who uses them, and the heads."""
        return {
            "bodies": copied(list(self._bodies.values())),
            "places": list(self._bodies),
            "factors": [self._factors[place] for place in self._bodies],
            "owners": list(self._owners),
            "heads": copied(self._heads),
            "leads": list(self._leads),
            "said": list(self._said),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self._begin()
        self._owners, self._said = list(state["owners"]), list(state["said"])
        self._leads = list(state.get("leads", []))  # saved networks of earlier versions have none
        for place, factor, tensors in zip(state["places"], state["factors"], state["bodies"], strict=True):
            body = self._sized(factor).make_features(self.seed).to(self.device)
            body.load_state_dict(tensors)
            self._bodies[place], self._factors[place] = body.eval(), factor
        for task, owner, tensors in zip(self.tasks, self._owners, state["heads"], strict=True):
            head = self._sized(self._factors[owner]).make_head(task.num_classes).to(self.device)
            head.load_state_dict(tensors)
            self._heads.append(head.eval())
