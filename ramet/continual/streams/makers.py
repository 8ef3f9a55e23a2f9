"""Streams by name: split, permuted and rotated versions of any data set, several domains, and the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ramet.continual.streams.stream import Stream, Task, changed, fit_together
from ramet.data import DataSet, Split, load
from ramet.data.table import is_table
from ramet.data.text import is_text, read_texts
from ramet.errors import ConfigError, DataError
from ramet.runs.regular import read_regular
from ramet.seeding import torch_generator

DOMAINS = ("digits", "usps", "mnist", "fashion-mnist", "notmnist", "omniglot", "gtsrb", "cifar10")
"""The data sets of the stream ``domains``, in the manner of the visual decathlon."""

FORMS = (
    "split-DATA:TASKS, split-DATA:TASKS:superclass, permuted-DATA:TASKS, rotated-DATA:TASKS, "
    "families-DATA:FAMILIESxTASKS, domains or a .json file"
)


def make_stream(
    source: str | Path,
    *,
    seed: int = 0,
    data_dir: str | Path | None = None,
    image_size: int | None = None,
    train_size: int | None = None,
    eval_size: int | None = None,
    validation_fraction: float = 0.2,
    trusted: bool = False,
) -> Stream:
    """A stream by its name.

    ``split-DATA:T`` deals the classes out to T tasks: in their order for data sets of up to 10 classes, as everybody
    does with MNIST, and at random otherwise. ``split-cifar100:20:superclass`` makes a task of each superclass, which is
    another benchmark than 20 random tasks. ``permuted-DATA:T`` shuffles the pixels, the first task excepted;
    ``rotated-DATA:T`` turns the images by steps of 180 / T degrees. ``families-DATA:FxT`` has F orders of the pixels,
    deals out the classes of each to T tasks, and lets the families take turns: each task has relatives, and strangers
    between them. ``domains`` takes eight data sets one after the other. A file holds a JSON list of ``{"name": NAME,
    "data": SOURCE}``, each with the options of ``ramet.data.load`` as further entries if wanted. The data may be tables
    (``FILE.csv:target=COLUMN``), or texts (``text:FILE:length=64``), which then have one vocabulary.

    Args:
        source: The name, or the path of a ``.json`` file.
        seed: What splits, permutations and random classes are drawn from.
        data_dir: Where named data sets lie.
        image_size: Height and width that all images are average-pooled to; where data sets of different sizes
            meet, by default the smallest of them.
        train_size: Training images of each data set (not task) to keep.
        eval_size: The same for validation and for test images.
        validation_fraction: The part of the training images that validates.
        trusted: Whether code that a ``.json`` file names as data, ``FILE.py:function``, may run.

    Raises:
        ConfigError: The name has another form, or the number of tasks does not fit the classes.
        DataError: The data are missing or damaged, or a task of them would not do.

    Example:
        >>> stream = make_stream("permuted-digits:3")
        >>> stream.names
        ['digits as they are', 'digits permutation 1', 'digits permutation 2']
    """
    if not isinstance(source, str | Path):
        raise ConfigError(f"a stream must be {FORMS}, but got {source!r:.80}.")
    options: dict[str, Any] = {
        "seed": seed,
        "data_dir": data_dir,
        "image_size": image_size,
        "train_size": train_size,
        "eval_size": eval_size,
        "validation_fraction": validation_fraction,
    }
    if isinstance(source, Path) or source.endswith(".json"):
        return _from_file(Path(source), options | {"trusted": trusted})
    if source == "domains":
        return _several("domains", [(name, name, {}) for name in DOMAINS], options)
    kind, _, rest = source.partition("-")
    data_name, _, count = rest.partition(":")
    count, _, variant = count.partition(":")
    families, _, count = count.rpartition("x")
    makers: dict[str, Callable[[DataSet, int, int], list[Task]]] = {
        "split": _split_by_superclass if variant == "superclass" else _split,
        "permuted": _permuted,
        "rotated": _rotated,
    }
    if kind == "families" and families.isdecimal() and int(families):
        makers["families"] = partial(_families, int(families))
    known_variant = not variant or (kind == "split" and variant in ("superclass", "random"))
    if kind not in makers or not count.isdecimal() or not known_variant or bool(families) != (kind == "families"):
        raise ConfigError(f"a stream must be {FORMS}, but got {source!r}.")
    num_tasks = int(count)
    if num_tasks < 1:
        raise ConfigError(f"a stream must have at least one task, but got {source!r}.")
    return Stream(source, makers[kind](load(data_name, **options), num_tasks, seed))


def _split(data: DataSet, num_tasks: int, seed: int) -> list[Task]:
    """The classes dealt out evenly; where they do not divide, the first tasks have one more."""
    _check_classes(data, num_tasks)
    order = list(range(data.num_classes))
    if data.num_classes > 10:
        order = torch.randperm(data.num_classes, generator=torch_generator(seed, "classes")).tolist()
    sizes = [len(order[task::num_tasks]) for task in range(num_tasks)]
    tasks: list[Task] = []
    for size in sizes:
        classes, order = sorted(order[:size]), order[size:]
        name = f"{data.name} {' '.join(map(str, classes))}" if size <= 5 else f"{data.name} part {len(tasks) + 1}"
        tasks.append(Task(name, _of_classes(data, classes)))
    return tasks


def _check_classes(data: DataSet, num_tasks: int) -> None:
    if num_tasks * 2 > data.num_classes:
        raise ConfigError(
            f"a task must have at least 2 classes, but {data.num_classes} classes were to be split into {num_tasks}."
        )


def _split_by_superclass(data: DataSet, num_tasks: int, seed: int) -> list[Task]:
    groups = sorted(set(data.class_groups))
    if len(groups) != num_tasks:
        raise ConfigError(
            f"a split by superclass must have a task for each superclass, but {data.name} has {len(groups)} and "
            f"{num_tasks} tasks were asked for."
        )
    return [
        Task(
            f"{data.name} superclass {group}",
            _of_classes(data, [index for index, own in enumerate(data.class_groups) if own == group]),
        )
        for group in groups
    ]


def _of_classes(data: DataSet, classes: Sequence[int]) -> DataSet:
    """The images of some classes, which become 0, 1, ..."""
    wanted = torch.tensor(classes)
    new_label = torch.full((data.num_classes,), -1)
    new_label[wanted] = torch.arange(len(classes))

    def part(split: Split) -> Split:
        rows = torch.isin(split.y, wanted)
        return Split(split.x[rows], new_label[split.y[rows]])

    names = tuple(data.class_names[index] for index in classes) if data.class_names else ()
    return replace(changed(data, part), num_classes=len(classes), class_names=names, class_groups=())


def _permuted(data: DataSet, num_tasks: int, seed: int) -> list[Task]:
    tasks = [Task(f"{data.name} as they are", data)]
    pixels = data.image_size[0] * data.image_size[1]
    for task in range(1, num_tasks):
        order = torch.randperm(pixels, generator=torch_generator(seed, "pixels", task))

        def shuffled(x: Tensor, order: Tensor = order) -> Tensor:
            return x.flatten(2)[:, :, order].reshape(x.shape)

        tasks.append(Task(f"{data.name} permutation {task}", _with_images(data, shuffled)))
    return tasks


def _families(num_families: int, data: DataSet, num_tasks: int, seed: int) -> list[Task]:
    """The first tasks of all families, then their second ones, and so on."""
    _check_classes(data, num_tasks)
    families = []
    for number, family in enumerate(_permuted(data, num_families, seed)):
        order = torch.randperm(data.num_classes, generator=torch_generator(seed, "classes", number)).tolist()
        families.append((family, order))
    tasks = []
    for place in range(num_tasks):
        for family, order in families:
            classes = sorted(order[place::num_tasks])
            words = " ".join(map(str, classes)) if len(classes) <= 5 else f"part {place + 1}"
            tasks.append(Task(f"{family.name}, {words}", _of_classes(family.dataset, classes)))
    return tasks


def _rotated(data: DataSet, num_tasks: int, seed: int) -> list[Task]:
    tasks = []
    for task in range(num_tasks):
        degrees = 180.0 * task / num_tasks
        tasks.append(Task(f"{data.name} at {degrees:g} degrees", _with_images(data, partial(rotate, degrees=degrees))))
    return tasks


def rotate(x: Tensor, degrees: float) -> Tensor:
    """Images turned counter-clockwise about their middle, [n, channels, height, width]; corners repeat the border.

    A quarter turn is exact; other angles are interpolated between pixels.
    """
    if degrees % 90 == 0 and x.shape[2] == x.shape[3]:
        return torch.rot90(x, int(degrees // 90) % 4, dims=(2, 3)).contiguous()
    angle = torch.deg2rad(torch.tensor(degrees))
    cosine, sine = torch.cos(angle), torch.sin(angle)
    ratio = x.shape[2] / x.shape[3]
    theta = torch.stack([cosine, -sine * ratio, torch.zeros(()), sine / ratio, cosine, torch.zeros(())])
    grid = functional.affine_grid(theta.reshape(1, 2, 3), [1, *x.shape[1:]], align_corners=False)
    grid = grid.expand(len(x), -1, -1, -1)
    return functional.grid_sample(x, grid, padding_mode="border", align_corners=False)


def _with_images(data: DataSet, change: Callable[[Tensor], Tensor]) -> DataSet:
    return changed(data, lambda split: Split(change(split.x), split.y))


def _from_file(path: Path, options: dict[str, Any]) -> Stream:
    try:
        entries = json.loads(read_regular(path).decode("utf-8"))
    except OSError as error:
        raise DataError(f"a stream's file must be readable, but {path} is not: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"a stream's file must be JSON, but {path} is not: {error}.") from None
    if not isinstance(entries, list) or not entries:
        raise DataError(f'a stream\'s file must be a list of {{"name": ..., "data": ...}}, but {path} is not.')
    parts = []
    for place, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("name", "data")):
            raise DataError(
                f"each task of a stream's file must have a name and data, but task {place} of {path} has not."
            )
        own = {key: value for key, value in entry.items() if key not in ("name", "data")}
        known = set(options) - {"trusted"}
        if unknown := set(own) - known:
            raise DataError(
                f"a task of a stream's file takes {', '.join(sorted(known))}, but {entry['name']!r} of {path} has "
                f"{', '.join(sorted(unknown))}."
            )
        parts.append((entry["name"], _near(path.parent, entry["data"]), own))
    return _several(path.stem, parts, options)


def _near(folder: Path, data: str) -> str:
    """A source whose path is read from a folder, if there is something."""
    before = "text:" if is_text(data) else ""
    rest = data.removeprefix(before)
    # FILE.py:function, FILE.csv:target=COLUMN, text:FILE:length=64, or a path alone.
    place, mark, options = rest, "", ""
    if before or is_table(data) or ".py:" in data:
        place, mark, options = rest.partition(":")
    near = folder / place
    return f"{before}{near}{mark}{options}" if near.exists() else data


def _several(name: str, parts: Sequence[tuple[str, str, dict[str, Any]]], options: dict[str, Any]) -> Stream:
    """Data sets one after the other, with images of one size and as many channels."""
    names = [part[0] for part in parts]
    for place, task in enumerate(names):
        if task in names[:place]:
            raise ConfigError(f"the tasks of a stream must have different names, but {task!r} occurs twice.")
    if all(is_text(data) for _, data, _ in parts):
        wanted = {key: options[key] for key in ("data_dir", "train_size", "eval_size")}
        if others := [key for _, _, own in parts for key in own]:
            raise DataError(f"the texts of a stream have their options after the file, but got {others[0]}.")
        texts: list[DataSet] = list(read_texts([data for _, data, _ in parts], **wanted))
        return Stream(name, [Task(task, text) for task, text in zip(names, texts, strict=True)])
    loaded = [(task, load(data, **{**options, **own})) for task, data, own in parts]
    if options["image_size"] is None and all(data.form.kind == "image" for _, data in loaded):
        height = min(data.image_size[0] for _, data in loaded)
        width = min(data.image_size[1] for _, data in loaded)
        for place, (task, data, own) in enumerate(parts):
            if loaded[place][1].image_size != (height, width):
                loaded[place] = (task, load(data, **{**options, **own, "image_size": (height, width)}))
    return Stream(name, [Task(task, data) for task, data in fit_together(loaded)])
