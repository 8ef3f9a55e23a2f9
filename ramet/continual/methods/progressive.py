"""Progressive networks: a new column for each task, which reads the columns before it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, fx, nn

from ramet.continual.method import Method
from ramet.continual.methods.progressive_columns import ModuleColumn, make_column, traced
from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.keeping import copied
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.streams.stream import TaskData
from ramet.continual.training import Saves, train
from ramet.costs import count_parameters
from ramet.seeding import derive_seed, seeded_globally


class Lateral(nn.Module):
    """The adapter from some earlier columns into one layer of some width, U sigma(V alpha h).

    Each input is what that column's layer ``place`` takes; the head's place is ``len(skeleton.layers)``.
    """

    def __init__(self, skeleton: Skeleton, place: int, num_columns: int, width: int) -> None:
        super().__init__()
        neurons = skeleton.shape_before(place)[0]
        is_image = place == 0 or skeleton.layers[place - 1].kind == "conv"
        self.scales = nn.Parameter(torch.full((num_columns,), 1.0))
        # V keeps the number of features of one column, however many columns there are (section 2.1, adapters).
        self.reduce: nn.Module = (
            nn.Conv2d(neurons * num_columns, neurons, 1) if is_image else nn.Linear(neurons * num_columns, neurons)
        )
        self.relu = nn.ReLU()
        is_conv = place < len(skeleton.layers) and skeleton.layers[place].kind == "conv"
        self.flatten: nn.Module = nn.Flatten() if is_image and not is_conv else nn.Identity()
        self.expand: nn.Module = (
            nn.Conv2d(neurons, width, skeleton.layers[place].kernel, bias=False)
            if is_conv
            else nn.Linear(neurons * skeleton.spread(place), width, bias=False)
        )

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """What is added to the layer before its activation."""
        scaled = [feature * self.scales[column] for column, feature in enumerate(features)]
        result: Tensor = self.expand(self.flatten(self.relu(self.reduce(torch.cat(scaled, 1)))))
        return result


class ProgressiveColumn(nn.Module):
    """The layers, the head and the adapters of one task, before which there were some columns."""

    def __init__(self, skeleton: Skeleton, num_classes: int, num_columns: int) -> None:
        super().__init__()
        layers = [skeleton.make_layer(place) for place in range(len(skeleton.layers))]
        self.layers = nn.ModuleList([*layers, skeleton.make_head(num_classes)])
        widths = [*(layer.width for layer in skeleton.layers[1:]), num_classes]
        # The first layer reads the image, which every column sees anyway.
        self.laterals = nn.ModuleList(
            [Lateral(skeleton, place, num_columns, width) for place, width in enumerate(widths, start=1)]
            if num_columns
            else []
        )

    def forward(self, x: Tensor, earlier: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """What each layer takes, and at last the logits; from images, and what layers of each column before took."""
        inputs = [x]
        for place, layer in enumerate(self.layers):
            value = inputs[-1]
            for name, part in layer.named_children():
                value = part(value)
                if name == "weights" and place and len(self.laterals):
                    value = value + self.laterals[place - 1]([column[place] for column in earlier])
            inputs.append(value)
        return inputs


class Columns(nn.Module):
    """Columns in the order of the tasks, up to that of one; gives its logits."""

    def __init__(self, columns: Sequence[ProgressiveColumn | ModuleColumn]) -> None:
        super().__init__()
        self.columns = nn.ModuleList(columns)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the last column's task, [batch, classes]."""
        taken: list[list[Tensor]] = []
        for column in self.columns:
            taken.append(column(x, taken))
        return taken[-1][-1]


@dataclass(kw_only=True, eq=False)
class Progressive(Method):
    """A column for each task, frozen when it is learned; later columns read it through adapters.

    Layer i of column k is h_i = sigma(W_i h_(i-1) + U_i sigma(V_i alpha_(i-1) h_(i-1) of all columns before k)), the
    non-linear adapter of the paper. The number of parameters grows with the square of the number of tasks.

    Departs from the paper: the scales alpha begin at 1, where the paper draws small random values, because a few
    hundred steps do not raise them again.

    Of a module, a column is a copy of it, trained or fresh, and adapters stand behind its blocks: what a block gives
    and what earlier columns give there go on together. They begin at zero, so that a column begins as if it were alone.
    A task's network that reads other columns is exported as a graph of torch's operations.

    Reference: Rusu et al., Progressive neural networks, 2016.
    """

    name: ClassVar[str] = "progressive"
    needs_chain: ClassVar[str] = ""
    keeps_start: ClassVar[bool] = True
    forgets_nothing: ClassVar[bool] = True

    def _begin(self) -> None:
        self.columns: list[ProgressiveColumn | ModuleColumn] = []

    def _made(self, num_classes: int, place: int) -> ProgressiveColumn | ModuleColumn:
        """A fresh column of a task, drawn from the global generator."""
        if isinstance(self.template, Backbone):
            return make_column(self.template, num_classes, place, self.seed, self.device)
        return ProgressiveColumn(self.skeleton, num_classes, place).to(self.device)

    def _learn(self, task: TaskData, earlier: Sequence[TaskData], saves: Saves) -> dict[str, Any]:
        place, data = len(self.tasks), task.train
        with seeded_globally(self.seed, "column", place):
            column = self._made(task.info.num_classes, place)

        of_outputs = self.settings.loss_for(data.y)

        def loss(x: Tensor, y: Tensor, indices: Tensor) -> Tensor:
            taken: list[list[Tensor]] = []
            with torch.no_grad():
                for old in self.columns:
                    taken.append(old(x, taken))
            return of_outputs(column(x, taken)[-1], y)

        seed = derive_seed(self.seed, "task", place)
        train(column, loss, data, self.settings, seed=seed, saves=saves)
        self.columns.append(column)
        return {"own_parameters": count_parameters(column)}

    def network(self, name: str) -> nn.Module:
        """The columns up to the task's own, traced into torch's own classes."""
        columns = Columns(copy.deepcopy(self.columns[: self.place(name) + 1])).eval()
        if isinstance(self.template, Backbone):
            only = columns.columns[0]
            return only.network if len(columns.columns) == 1 else traced(columns, self.template)  # type: ignore[return-value]
        graph = fx.Tracer().trace(columns)
        for node in graph.nodes:
            node.type = None  # A pickle would carry an annotation that is a string, where nothing resolves it.
        return fx.GraphModule(columns, graph, class_name="Columns").eval()

    def view(self, name: str) -> nn.Module:
        """The columns themselves, up to the task's own."""
        return Columns(self.columns[: self.place(name) + 1]).eval()

    def units(self) -> dict[str, Any] | None:
        """Which neurons each task reads: those of its own column and of all before it."""
        if isinstance(self.template, Backbone):
            return None
        layers = self.skeleton.layers
        return self._units(lambda place: [[layer.width] * (place + 1) for layer in layers])

    def num_parameters(self) -> int:
        """All columns and adapters."""
        return sum(count_parameters(column) for column in self.columns)

    def state(self) -> dict[str, Any]:
        """The weights of each column; which one reads which earlier follows from the skeleton and the tasks."""
        return {"columns": copied(self.columns)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of ``state``."""
        self.columns = []
        for place, (task, tensors) in enumerate(zip(self.tasks, state["columns"], strict=True)):
            column = self._made(task.num_classes, place)
            column.load_state_dict(tensors)
            self.columns.append(column.eval())
