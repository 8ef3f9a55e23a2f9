"""The joint network: what a stream leaves behind. It gives out tasks, is saved as one file, and takes more tasks."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor, nn

from ramet.continual.method import Method
from ramet.continual.networks.backbone import Backbone
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template
from ramet.continual.streams.stream import TaskData, TaskInfo
from ramet.continual.training import Saves
from ramet.costs import count_parameters
from ramet.errors import ConfigError, DiskError, refusing
from ramet.exporting import export, write_network
from ramet.exporting.card import Card, described_inputs
from ramet.exporting.onnx import check_installed
from ramet.fields import from_json
from ramet.registry import Spec
from ramet.runs import pack_state, unpack_state
from ramet.runs.atomic import write_atomically, writing
from ramet.runs.encoding import decode, encode
from ramet.runs.regular import read_regular
from ramet.training import Settings

_FORMAT = 1


class JointNetwork:
    """One network for all the tasks that were learned, and the method that adds the next.

    Example:
        >>> from ramet.continual import learn, make_stream
        >>> from ramet.training import Settings
        >>> settings = Settings(epochs=1, batch_size=64)
        >>> net = learn(make_stream("split-digits:5"), method="naive", settings=settings).network
        >>> net.task("digits 0 1")(make_stream("split-digits:5")[0].dataset.test.x).shape[1]
        2
    """

    def __init__(self, method: Method, missing: Mapping[str, str] | None = None) -> None:
        self.method = method
        self._missing = dict(missing or {})

    @property
    def names(self) -> list[str]:
        """The tasks that were learned, in order."""
        return [task.name for task in self.method.tasks]

    def task(self, name: str) -> nn.Module:
        """A plain, compact module of one task alone, in evaluation mode; it needs torch and nothing of ramet.

        Raises:
            ConfigError: No such task was learned.
        """
        return self.method.network(name).eval()

    def export(self, name: str, path: str | Path) -> None:
        """Write a task's module as a file that torch alone runs: ``torch.export.load(path).module()(images)``.

        The file should end in ``.pt2``; it takes batches of any size.

        Raises:
            ConfigError: No such task was learned.
            DiskError: The disk refuses.
        """
        form = self.method.tasks[self.method.place(name)].form
        write_atomically(Path(path), export(self.task(name), form.shape, form.dtype))

    def card(self, name: str) -> Card:
        """What the network itself knows of one of its tasks, for whoever gets its file.

        ``dataclasses.replace(net.card(name), figures={...}, data={...})`` adds what it does not know.

        Raises:
            ConfigError: No such task was learned.
        """
        method, place = self.method, self.method.place(name)
        info = method.tasks[place]
        return Card(
            title=f"{name}, learned by {method.name}",
            network={"parameters": count_parameters(self.task(name))},
            inputs=described_inputs(info.input_shape, info, info.form.dtype),
            data={},
            figures={},
            made={
                "method": method.source or method.name,
                "options": encode(method.options),
                "place": f"task {place + 1} of {len(self.names)}: {', '.join(self.names)}",
                "recipe": encode(method.settings.to_json()),
                "seed": method.seed,
            },
            words=(
                "One of the tasks of a joint network; `ramet.continual.JointNetwork` reads the file of all of them.",
            ),
        )

    def export_tasks(
        self, folder: str | Path, *, onnx: bool = False, cards: Mapping[str, Card] | None = None
    ) -> dict[str, str]:
        """Write every task's module with its card into a folder, which is made if it is not there.

        The files are named by the place and the name of the task: ``1-NAME.pt2``, ``1-NAME.md``.

        Args:
            folder: Where they go.
            onnx: Whether there are files for onnxruntime, too (``1-NAME.onnx``), compared with the modules there.
            cards: What is said of a task, by its name; ``card(name)`` if nothing is given.

        Returns:
            By the name of a task, why a file of it is missing; empty if all were written.

        Raises:
            MissingExtraError: ONNX is asked for, and what it needs is not installed; nothing is written.
            DiskError: The disk refuses.
        """
        if onnx:
            check_installed()
        folder, problems = Path(folder), {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        for place, info in enumerate(self.method.tasks):
            card = (cards or {}).get(info.name) or self.card(info.name)
            problem = write_network(
                self.task(info.name),
                folder / file_stem(place, info.name),
                input_shape=info.input_shape,
                dtype=info.form.dtype,
                onnx=onnx,
                card=card,
            )
            if problem:
                problems[info.name] = problem
        return problems

    def learn(self, task: TaskData, earlier: Sequence[TaskData] = (), saves: Saves | None = None) -> dict[str, Any]:
        """Add a task; ``Task(name, dataset).data()`` makes the data.

        Raises:
            ConfigError: The network was read from a file that could not hold its recipe.
        """
        self.check_recipe()
        return self.method.learn(task, earlier, saves)

    def check_recipe(self) -> None:
        """Refuse to train by a recipe that was read without the functions that it had been given as objects.

        Raises:
            ConfigError: Some are missing.
        """
        if self._missing:
            told = ", ".join(f"{name}, {reference}" for name, reference in self._missing.items())
            raise ConfigError(
                "a joint network learns by its whole recipe, and no file holds functions that were given as objects, "
                f"but this one was loaded without its {told}: JointNetwork.load(path, recipe=...) takes it."
            )

    @property
    def functions(self) -> dict[str, str]:
        """What of its recipe was given as functions, by field; no file holds them, only what they are called."""
        return written_recipe(self.method.settings)[1] | self._missing

    def num_parameters(self) -> int:
        """The weights of all tasks together."""
        return self.method.num_parameters()

    def stored_bytes(self) -> int:
        """Bytes of everything that must be kept to go on: weights, masks, memories."""
        return self.method.stored_bytes()

    def explain(self) -> list[str]:
        """Why the network became what it is, in words."""
        return self.method.explain()

    def snapshot(self) -> tuple[dict[str, Tensor], Any]:
        """Everything as tensors and JSON, fit for a checkpoint."""
        method = self.method
        values = {
            "format": _FORMAT,
            "method": method.source or method.name,
            "options": method.options,
            "skeleton": method.template.to_json(),
            "settings": written_recipe(method.settings)[0],
            "seed": method.seed,
            "tasks": [task.to_json() for task in method.tasks],
            "state": method.state(),
        }
        if self.functions:
            values["functions"] = self.functions
        if (start := method.kept_start()) is not None:
            values["start"] = start
        return pack_state(values)

    @classmethod
    def from_snapshot(
        cls,
        tensors: Mapping[str, Tensor],
        packed: Any,
        methods: Mapping[str, type[Method]] | None = None,
        *,
        trust: bool = False,
        network: nn.Module | None = None,
        template: Template | None = None,
        recipe: Settings | None = None,
    ) -> JointNetwork:
        """The inverse of ``snapshot``; code that it names must be known here, or trusted.

        ``network`` is the module, where it was given as an object; ``template`` what the snapshot began with, if known;
        ``recipe`` that of later tasks, if it is not to be the one that was written.
        """
        from ramet.continual.methods.making import make_method

        values = unpack_state(tensors, packed)
        if values["format"] != _FORMAT:
            raise ConfigError(f"this ramet reads joint networks of format {_FORMAT}, but got {values['format']}.")
        method = make_method(Spec(values["method"], (), values["options"]), methods, trusted=trust)
        made = template or _template(values["skeleton"], network, values.get("start"), trust)
        method.start(made, recipe or Settings(**values["settings"]), values["seed"])
        method.tasks = [TaskInfo.from_json(task) for task in values["tasks"]]
        method.load_state(values["state"])
        return cls(method, {} if recipe is not None else values.get("functions"))

    def save(self, path: str | Path) -> None:
        """Write the network as one safetensors file, with JSON in its header; whole or not at all."""
        tensors, packed = self.snapshot()
        own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
        text = encode(packed, where="joint network")
        # One entry, because safetensors writes several in any order, and one network should be one file.
        header = {"ramet": encode({"sha256": _digest(text, own), "network": text})}
        write_atomically(Path(path), safetensors.torch.save(own, metadata=header))

    @classmethod
    def load(
        cls,
        path: str | Path,
        methods: Mapping[str, type[Method]] | None = None,
        *,
        trust: bool = False,
        network: nn.Module | None = None,
        recipe: Settings | None = None,
    ) -> JointNetwork:
        """Read a network that ``save`` wrote.

        Args:
            path: The file.
            methods: Methods of one's own by name, besides the built-in ones.
            trust: Whether a method or a network of one's own that the file names, ``FILE.py:Name``, may run; built-in
                ones and those of installed packages need no trust.
            network: The module that it was learned with, where that was given as an object; its weights do not count.
            recipe: How later tasks are trained; by default as before, which a file cannot say where functions (a loss)
                were given as objects: without a recipe, such a network gives out its tasks and learns none.

        Raises:
            ConfigError: There is no such file, it is damaged, it is no joint network, what it names is not trusted, or
                its module is missing or another.
        """
        path = Path(path)
        try:
            data = read_regular(path)
        except (FileNotFoundError, IsADirectoryError):
            raise ConfigError(f"a joint network must be a file, but there is none at {path}.") from None
        except OSError as error:
            raise DiskError(f"cannot read {path}: {error.strerror or error}.") from error
        try:
            header = decode(_metadata(data)["ramet"])
            tensors = safetensors.torch.load(data)
            text = header["network"]
            is_whole = _digest(text, tensors) == header["sha256"]
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, struct.error):
            raise ConfigError(f"a joint network must be whole, but {path} is damaged or something else.") from None
        if not is_whole:
            raise ConfigError(f"a joint network must match its checksum, but {path} is damaged.")
        with refusing(f"a joint network must hold what `save` wrote, as {path} does not"):
            joint = cls.from_snapshot(tensors, decode(text), methods, trust=trust, network=network, recipe=recipe)
            for name in joint.names:
                joint.method.view(name)  # what was crafted may be read, and still make no network
            return joint


def file_stem(place: int, name: str) -> str:
    """What the files of a task are called, by its place, counted from 0, and its name.

    >>> file_stem(0, "digits 0 1")
    '1-digits-0-1'
    """
    words = re.sub(r"[^\w.=-]+", "-", name).strip("-.")[:80]  # the place tells names apart that differ in signs alone
    return f"{place + 1}-{words}" if words else str(place + 1)


def _template(
    values: Mapping[str, Any], network: nn.Module | None, start: Mapping[str, Tensor] | None, trust: bool
) -> Template:
    if values.get("kind") == "module":
        return Backbone.from_json(values, network=network, start=start, trusted=trust)
    return from_json(Skeleton, values)


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(safetensors.torch.save({"": tensor}))
    return digest.hexdigest()


def _metadata(data: bytes) -> dict[str, str]:
    """The texts in the header of a safetensors file: eight bytes of length, then JSON."""
    (length,) = struct.unpack("<Q", data[:8])
    if length > len(data) - 8:
        raise ValueError("the header is longer than the file")
    metadata: dict[str, str] = decode(data[8 : 8 + length])["__metadata__"]
    return metadata


def written_recipe(settings: Settings) -> tuple[dict[str, Any], dict[str, str]]:
    """A recipe as values that a file holds, and the references of its functions, by field, which stay outside.

    A metric is no such function: no network depends on it, and one that is an object is left out.
    """
    values = {field.name: getattr(settings, field.name) for field in fields(Settings)}
    described = settings.to_json()
    functions = {name: str(described[name]) for name, value in values.items() if callable(value)}
    plain = {name: value for name, value in values.items() if name not in functions}
    return plain, {name: reference for name, reference in functions.items() if name != "metric"}
