"""A grown network on the disk: for anybody with torch, and for those who want to go on growing it.

A folder of files. ``network.pt2`` is the whole network as ``torch.export`` writes it, in evaluation mode:
``torch.export.load("network.pt2").module()`` needs neither ramet nor the code that made the network.
``weights.safetensors`` has its tensors by the names of ``state_dict()``. ``network.json`` says how the network was made
and what grew in which step, so that ``load_network`` can build the module itself again. ``network.md`` is its card. A
model of Hugging Face is written once more, into ``pretrained``, as ``from_pretrained`` loads it, if its configuration
can say its sizes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor, nn

from ramet.data import InputForm
from ramet.errors import ConfigError, refusing
from ramet.exporting import write_network
from ramet.exporting.card import Card
from ramet.growth.history import GroupGrowth, GrowthStep, replay
from ramet.growth.making import make_network
from ramet.growth.pretrained import save_pretrained
from ramet.growth.surgery.blocks import BlockCopy
from ramet.runs.atomic import write_atomically, writing
from ramet.runs.encoding import decode
from ramet.runs.regular import check_regular, read_regular
from ramet.runs.tensor_file import TensorFile
from ramet.seeding import torch_generator
from ramet.tracing.attention import open_attention

FORMAT = 1
"""The version of ``network.json``."""


def save_network(
    network: nn.Module,
    folder: Path,
    *,
    steps: Sequence[GrowthStep],
    origin: Mapping[str, Any],
    onnx: bool = False,
    card: Card | None = None,
) -> str:
    """Write a grown network into a folder, which is made if it is not there; the network is left as it was.

    ``origin`` has the arguments of ``make_network`` that made the network before it grew; its ``network`` is none where
    the network was given as an object. A network that reads text has ``length`` and ``words``, the size of the
    vocabulary, instead of ``in_channels`` and ``image_size``, one that reads vectors ``input_shape``. With ``onnx``
    there is a ``network.onnx``, too. Gives why an exported file is missing, or nothing: not every module can be
    exported. Why there is no ``pretrained`` is in ``network.json``.

    Raises:
        RunError: the disk refuses.
    """
    form = InputForm.from_json(origin)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "weights.safetensors", TensorFile.of(network.state_dict()).pieces())
    grown = [
        {
            "number": step.number,
            "widened": {n: {"units": g.units, "split": g.split, "new": g.new} for n, g in step.widened.items()},
            "layers": step.layers,
            "blocks": [asdict(copied) for copied in step.blocks],
        }
        for step in steps
        if step.grew
    ]
    description = {"format": FORMAT, "origin": dict(origin), "steps": grown}
    if hasattr(network, "save_pretrained"):
        with writing(folder):
            inputs = _probe(form).to(next(network.parameters()).device)
            description["not_pretrained"] = save_pretrained(network, folder / "pretrained", inputs)
    write_atomically(folder / "network.json", json.dumps(description, indent=1).encode())
    return write_network(network, folder / "network", input_shape=form.shape, dtype=form.dtype, onnx=onnx, card=card)


@dataclass(frozen=True)
class SavedNetwork:
    """What ``save_network`` wrote: what made the network, what grew in it, and its tensors.

    Attributes:
        folder: where it lies.
        origin: the arguments of ``make_network``; its ``network`` is none where the network was given as an object.
        steps: what grew, in order.
        tensors: by the names of ``state_dict()``.
    """

    folder: Path
    origin: dict[str, Any]
    steps: list[GrowthStep]
    tensors: dict[str, Tensor]

    def make(self, network: nn.Module | None = None, *, trust: bool = False) -> nn.Module:
        """The network as the module that it is; see ``load_network``."""
        origin = self.origin
        if network is None and origin["network"] is None:
            raise ConfigError(
                "a network that was given as an object is loaded with that object, but got none: network=..."
            )
        if origin["network"] is not None and not isinstance(origin["network"], str):
            raise ConfigError(f"network.json must name its network, but {self.folder} has {origin['network']!r}.")
        with refusing(f"{self.folder} must hold what `save_network` wrote"):
            return self._rebuilt(
                make_network(**origin, trusted=trust) if network is None else copy.deepcopy(network)
            ).eval()

    def _rebuilt(self, network: nn.Module) -> nn.Module:
        """The network before it grew, grown again by the same steps, with its weights."""
        closed = {name.removesuffix(".in_proj_weight").removesuffix(".q_proj_weight") for name in self.tensors}
        open_attention(network, kept=closed)  # networks of earlier versions kept torch's own
        try:
            replay(network, _probe(InputForm.from_json(self.origin)), self.steps)
            network.load_state_dict(self.tensors)
        except (KeyError, RuntimeError) as error:
            first_line = str(error).splitlines()[0]
            what = self.origin["network"] or "the module"
            raise ConfigError(f"{what} must make the network that grew, but does not: {first_line}") from None
        return network


def is_saved(folder: str | Path) -> bool:
    """Whether a folder has the description that ``save_network`` writes."""
    try:
        return (Path(folder) / "network.json").is_file()
    except (OSError, ValueError):  # a text that no path can have
        return False


def read_network(folder: str | Path) -> SavedNetwork:
    """What ``save_network`` wrote into a folder; nothing is made or run.

    Raises:
        ConfigError: the folder holds no network of this format.
    """
    folder = Path(folder)
    try:
        description = decode(read_regular(folder / "network.json"))
        version, written, grown = description["format"], description["origin"], description["steps"]
        # Only what save_network writes: no other entry of the file may reach make_network.
        origin = {name: written[name] for name in ("network", "num_classes")}
        origin |= InputForm.from_json(written).to_json()
        origin |= {name: written[name] for name in ("options", "seed") if name in written}
        check_regular(folder / "weights.safetensors")
        tensors = safetensors.torch.load_file(folder / "weights.safetensors")
        steps = [
            GrowthStep(
                step["number"],
                {name: GroupGrowth(**group) for name, group in step["widened"].items()},
                step["layers"],
                [BlockCopy(**copied) for copied in step.get("blocks", [])],  # earlier versions have none
            )
            for step in grown
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, safetensors.SafetensorError) as error:
        raise ConfigError(f"a grown network's folder must hold network.json and its weights, but: {error}.") from None
    if version != FORMAT:
        raise ConfigError(f"network.json must be of format {FORMAT}, but {folder} has {version!r}.")
    return SavedNetwork(folder, origin, steps, tensors)


def load_network(folder: str | Path, network: nn.Module | None = None, *, trust: bool = False) -> nn.Module:
    """A grown network as the module that it is, of the classes that it was made of, ready to go on with.

    Args:
        folder: what ``save_network`` wrote, for example ``runs/NAME/networks/firefly``.
        network: the module before it grew, where it was given as an object; it is copied, and its weights do not count.
        trust: whether a function of one's own that the folder names, ``FILE.py:function``, may run. The built-in
            networks need no trust.

    Raises:
        ConfigError: the folder holds no network of this format, what made the network makes another one now, or it is
            code that is not trusted.
    """
    return read_network(folder).make(network, trust=trust)


def _probe(form: InputForm) -> Tensor:
    """A few random inputs of a network."""
    return form.example(4, torch_generator(0, "probe"))
