"""Tasks that arrive one after the other, and data that are gone when their task is finished."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ramet.data import DataSet, InputForm, Split
from ramet.errors import ConfigError, DataError, RunError


class GoneDataError(RunError):
    """A method touched the data of a finished task in the streaming scenario."""


_TOLD = ("class_names", "mean", "deviation", "target_mean", "target_deviation")
"""What whoever runs a task's network should know, beside the form of its inputs."""


@dataclass(frozen=True)
class TaskInfo:
    """What is known of a task without its data: enough to build a network for it.

    Attributes:
        name: Unique within a stream.
        num_classes: Labels run from 0 to ``num_classes - 1``; where targets are numbers, how many an input has.
        form: What an input is: an image, a vector or a text.
        class_names: What each label stands for; empty where nobody named them, or in a network of an earlier version.
        mean: What was subtracted from each channel of an image; empty where that is not known.
        deviation: What each channel was divided by afterwards.
        target_mean: What was subtracted from targets that are numbers; empty where nothing was, or it is not known.
        target_deviation: What each was divided by afterwards.
    """

    name: str
    num_classes: int
    form: InputForm
    class_names: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    target_mean: tuple[float, ...] = ()
    target_deviation: tuple[float, ...] = ()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input, [channels, height, width] of an image."""
        return self.form.shape

    def to_json(self) -> dict[str, Any]:
        """JSON values; what is not known is left out, as in earlier versions."""
        told = {name: list(getattr(self, name)) for name in _TOLD if getattr(self, name)}
        return {"name": self.name, "num_classes": self.num_classes, **self.form.to_json(), **told}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TaskInfo:
        """The inverse of ``to_json``."""
        told = {name: tuple(values.get(name, ())) for name in _TOLD}
        return cls(values["name"], values["num_classes"], InputForm.from_json(values), **told)


class TaskData:
    """What a method is given of a task: training and validation data, or a ``GoneDataError`` once the task is closed.

    The tensors are copies. Closing fills them with NaN and with labels and tokens that no layer accepts, so that a
    tensor that was put aside is of no use either; a method may keep copies of its own (replay does), and these count
    as stored.
    """

    def __init__(self, info: TaskInfo, train: Split | None, validation: Split | None, device: str = "cpu") -> None:
        self.info = info
        self._train = None if train is None else _copied(train, device)
        self._validation = None if validation is None else _copied(validation, device)

    @property
    def train(self) -> Split:
        """What weights are fitted to."""
        return self._given(self._train, "training")

    @property
    def validation(self) -> Split:
        """What choices are made on."""
        return self._given(self._validation, "validation")

    @property
    def is_closed(self) -> bool:
        """Whether the data are gone."""
        return self._train is None

    def close(self) -> None:
        """Let the data go, also where somebody kept a reference to them."""
        for split in (self._train, self._validation):
            if split is not None:
                for tensor in (split.x, split.y):
                    tensor.fill_(float("nan") if tensor.is_floating_point() else -1)
        self._train = self._validation = None

    def _given(self, split: Split | None, role: str) -> Split:
        if split is None:
            raise GoneDataError(
                f"in the streaming scenario the data of a finished task are gone, but the {role} data of "
                f"{self.info.name!r} were asked for."
            )
        return split


@dataclass(frozen=True, eq=False)
class Task:
    """One task of a stream, with all its data; the evaluator holds it, a method only ever sees ``data()``.

    Raises:
        ConfigError: The name is empty.
        DataError: The task has fewer than two classes, or an empty split.
    """

    name: str
    dataset: DataSet

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigError(f"a task must have a name, but got {self.name!r}.")
        if self.dataset.num_classes < 2 and not self.dataset.is_numeric:
            raise DataError(
                f"a task must have at least 2 classes, but {self.name!r} has {max(self.dataset.num_classes, 0)}."
            )
        splits = {"training": self.dataset.train, "validation": self.dataset.validation, "test": self.dataset.test}
        for role, split in splits.items():
            if len(split) < (2 if role == "training" else 1):
                rows = {"image": "images", "text": "texts"}.get(self.dataset.form.kind, "rows")
                raise DataError(f"a task must have {role} {rows}, but {self.name!r} has {len(split)}.")

    @property
    def info(self) -> TaskInfo:
        """What is known of the task without its data."""
        data = self.dataset
        return TaskInfo(
            self.name,
            data.num_outputs,
            data.form,
            class_names=data.class_names,
            mean=data.mean,
            deviation=data.deviation,
            target_mean=data.target_mean,
            target_deviation=data.target_deviation,
        )

    def data(self, device: str = "cpu") -> TaskData:
        """What a method learns from."""
        return TaskData(self.info, self.dataset.train, self.dataset.validation, device)

    def gone(self) -> TaskData:
        """What a method has of the task once it is finished in the streaming scenario."""
        return TaskData(self.info, None, None)


class Stream(Sequence[Task]):
    """Tasks in the order in which they arrive; all of one form of inputs, with classes and names of their own.

    Raises:
        ConfigError: There is no task, or two have one name.
        DataError: The tasks' images differ in shape (``fit_together`` makes them alike where that is possible), texts
            in their vocabulary, or some have classes as targets and some numbers.

    Example:
        >>> from ramet.continual import make_stream
        >>> stream = make_stream("split-digits:5")
        >>> [task.name for task in stream]
        ['digits 0 1', 'digits 2 3', 'digits 4 5', 'digits 6 7', 'digits 8 9']
    """

    def __init__(self, name: str, tasks: Sequence[Task]) -> None:
        if not tasks:
            raise ConfigError(f"a stream must have at least one task, but {name!r} has none.")
        names: set[str] = set()
        for task in tasks:
            if task.name in names:
                raise ConfigError(f"the tasks of a stream must have different names, but {task.name!r} occurs twice.")
            names.add(task.name)
        first, data = tasks[0].info, tasks[0].dataset
        kind = data.is_numeric, data.train.y.ndim
        for task in tasks[1:]:
            form = task.info.form
            if form.shape != first.input_shape:
                inputs = "images" if form.kind == "image" else "inputs"
                raise DataError(
                    f"the {inputs} of a stream must have one shape, but {first.name!r} has {first.input_shape} and "
                    f"{task.name!r} {form.shape}."
                )
            if form != first.form:
                raise DataError(
                    f"the texts of a stream must have one vocabulary, but {first.name!r} has {first.form} and "
                    f"{task.name!r} {form}."
                )
            if (task.dataset.is_numeric, task.dataset.train.y.ndim) != kind:
                raise DataError(
                    "the targets of a stream must be of one kind, classes or numbers, but those of "
                    f"{first.name!r} and {task.name!r} differ."
                )
        self.name = name
        self.tasks = tuple(tasks)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.input_shape))
        return f"Stream({self.name}: {len(self)} tasks, inputs of {shape})"

    def __getitem__(self, index: Any) -> Any:
        return self.tasks[index]

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    @property
    def names(self) -> list[str]:
        """The tasks' names, in order."""
        return [task.name for task in self.tasks]

    @property
    def form(self) -> InputForm:
        """What an input of every task is."""
        return self.tasks[0].info.form

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input of every task, [channels, height, width] of an image."""
        return self.form.shape

    @property
    def rows(self) -> str:
        """What is counted where a share of them is right: images, rows, or the tokens of texts."""
        return self.tasks[0].dataset.rows

    def in_channels_of(self, form: InputForm) -> Stream:
        """The stream with grey images repeated for the channels of a form; itself where that changes nothing."""
        if self.form.kind != "image" or form.kind != "image" or self.input_shape[0] != 1 or form.shape[0] == 1:
            return self
        return Stream(self.name, [Task(task.name, _repeated(task.dataset, form.shape[0])) for task in self.tasks])

    def fingerprint(self) -> str:
        """A sha256 of the names and the content of all tasks, in order."""
        digest = hashlib.sha256(b"ramet stream 1")
        for task in self.tasks:
            digest.update(f"\n{task.name}\n{task.dataset.fingerprint()}".encode())
        return digest.hexdigest()


def fit_together(datasets: Sequence[tuple[str, DataSet]]) -> list[tuple[str, DataSet]]:
    """Give all data sets the channels of the one that has most: a grey image is repeated for each channel.

    Raises:
        DataError: A data set has neither one channel nor the most that occur.
    """
    if any(data.form.kind != "image" for _, data in datasets):
        return list(datasets)
    most = max(data.in_channels for _, data in datasets)
    fitted = []
    for name, data in datasets:
        if data.in_channels not in (1, most):
            raise DataError(
                f"a task must have 1 channel, or the {most} of its stream, but {name!r} has {data.in_channels}."
            )
        fitted.append((name, data if data.in_channels == most else _repeated(data, most)))
    return fitted


def _repeated(data: DataSet, channels: int) -> DataSet:
    wide = changed(data, lambda split: Split(split.x.repeat(1, channels, 1, 1), split.y))
    return replace(wide, mean=data.mean * channels, deviation=data.deviation * channels)


def changed(data: DataSet, change: Callable[[Split], Split]) -> DataSet:
    """A data set with a change of each of its splits."""
    return replace(data, train=change(data.train), validation=change(data.validation), test=change(data.test))


def _copied(split: Split, device: str) -> Split:
    # What is read as it is asked for is read now.
    x, y = (values if isinstance(values, Tensor) else values[:] for values in (split.x, split.y))
    return Split(x.to(device, copy=True), y.to(device, copy=True))
