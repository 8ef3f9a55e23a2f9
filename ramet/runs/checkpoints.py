"""Where a part of a run can go on: tensors and plain values, whole or not at all, the last two kept."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.errors import ConfigError, DiskError
from ramet.runs.atomic import is_temporary, write_atomically, writing
from ramet.runs.encoding import JSON, decode, encode
from ramet.runs.lock import folder_lock
from ramet.runs.regular import open_regular, read_regular

if TYPE_CHECKING:
    from torch import Tensor

    from ramet.runs.tensor_file import Piece, ReadsInto, TensorFile

_logger = logging.getLogger(__name__)
_FORMAT = 1  # of a checkpoint; raised whenever an older ramet could not read what a newer one writes
_FILE = re.compile(r"step-(\d{12,})(\.json|-[0-9a-f]{16}\.safetensors)")


@dataclass(frozen=True)
class Checkpoint:
    """What one save stored; the tensors are on the CPU, with the strides they had, and belong to the caller."""

    step: int
    tensors: dict[str, Tensor]
    state: Any


class _DamagedError(Exception):
    """A checkpoint that fails its checks; the message says how, in the middle of a sentence."""


class Checkpoints:
    """The checkpoints of one part of a run, in a folder of their own.

    A checkpoint is two files, ``step-N-HASH.safetensors`` and ``step-N.json``. It exists from the moment in which the
    JSON, which holds the checksums of both, gets its name; the tensors are on the disk before that. No order of kills
    can therefore mix an old half with a new one.

    Workers write checkpoints too: hand them ``str(checkpoints.folder)`` and let them make their own ``Checkpoints``.

    Args:
        folder: Where the files go; made by the first save.
        keep: How many checkpoints stay. With two, a damaged newest one costs the way from the one before it.
        before_save: Called before each save, to bring to the disk what has to be there first.
        identity: Of the run that they are a part of; written into each checkpoint, and others' are refused. Without it
            every checkpoint is taken, to look into any run.

    Raises:
        ConfigError: If ``keep`` is not positive.

    >>> import tempfile, torch
    >>> checkpoints = Checkpoints(tempfile.mkdtemp())
    >>> checkpoints.save(1, {"weight": torch.ones(2)}, {"epoch": 3})
    >>> checkpoint = checkpoints.load()
    >>> checkpoint.step, checkpoint.tensors, checkpoint.state
    (1, {'weight': tensor([1., 1.])}, {'epoch': 3})
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int = 2,
        before_save: Callable[[], None] | None = None,
        identity: str | None = None,
    ) -> None:
        if keep < 1:
            raise ConfigError(f"the number of checkpoints to keep must be at least 1, but got {keep}.")
        self.folder = Path(folder)
        self.keep = keep
        self.identity = identity
        self._before_save = before_save

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process cannot sync the driver's records, and what it saves does not stand for any.
        return _rebuild, (str(self.folder), self.keep, self.identity)

    def save(self, step: int, tensors: Mapping[str, Tensor], state: JSON = None) -> None:
        """Store a checkpoint, and drop all but the newest ``keep``.

        Tensors that are one tensor under two names are stored once and come back as one. Checkpoints of a later step
        are dropped too: they belong to a past that is being repeated.

        Args:
            step: How far the part is; the highest step is the newest checkpoint.
            tensors: Dense tensors of any device, strides and dtype but complex128; they are not kept or changed.
            state: Everything else, as JSON; ``ramet.runs.pack_state`` splits nested structures into both.

        Raises:
            ConfigError: If the step is negative.
            DiskError: If the disk refuses; the earlier checkpoints are then still there.
            TypeError: If something cannot be stored.
        """
        if step < 0:
            raise ConfigError(f"the step of a checkpoint must not be negative, but got {step}.")
        data, aliases, strides = serialise(tensors)
        checksum = hashlib.sha256()
        for piece in data.pieces():
            checksum.update(piece)
        digest = checksum.hexdigest()
        tensor_file = f"step-{step:012d}-{digest[:16]}.safetensors"
        body: dict[str, Any] = {
            "format": _FORMAT,
            "step": step,
            "tensors": {"file": tensor_file, "bytes": data.num_bytes, "sha256": digest},
            "aliases": aliases,
            "strides": strides,
            "state": state,
        }
        if self.identity is not None:
            body["identity"] = self.identity
        text = encode(body, where="checkpoint")
        document = f'{{"sha256":"{hashlib.sha256(text.encode()).hexdigest()}","body":{text}}}\n'
        if self._before_save is not None:
            self._before_save()
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with folder_lock(self.folder):
                self._drop([later for later in self._steps() if later > step])
                write_atomically(self.folder / tensor_file, data.pieces())
                write_atomically(self._json_file(step), document.encode())
                self._drop(self._steps()[: -self.keep])
                self._sweep(step, tensor_file)

    def load(self) -> Checkpoint | None:
        """The newest whole checkpoint, or None if there is none.

        A damaged one is named in a warning of the log, and the one before it is used.

        Raises:
            ConfigError: If another run or another version of the format wrote the checkpoint.
            DiskError: If a file is there but cannot be read.
        """
        if not self.folder.is_dir():
            return None
        with folder_lock(self.folder):
            steps = self._steps()
            for step in reversed(steps):
                try:
                    return self._read(step)
                except _DamagedError as error:
                    _logger.warning("The checkpoint %s is not used: %s.", self._json_file(step), error)
        if steps:
            _logger.warning("No checkpoint in %s is whole; this part of the run starts anew.", self.folder)
        return None

    def check(self) -> None:
        """Refuse checkpoints of another run before any work is done; damaged ones are left to ``load``."""
        if self.folder.is_dir():
            with folder_lock(self.folder):
                for step in self._steps():
                    with contextlib.suppress(_DamagedError):
                        self._read_body(step)

    def clear(self) -> None:
        """Remove every checkpoint; the newest one goes last."""
        if self.folder.is_dir():
            with writing(self.folder), folder_lock(self.folder):
                self._drop(self._steps())
                self._sweep(None, None)

    def _json_file(self, step: int) -> Path:
        return self.folder / f"step-{step:012d}.json"

    def _steps(self) -> list[int]:
        matches = filter(None, map(_FILE.fullmatch, os.listdir(self.folder)))
        return sorted(int(match[1]) for match in matches if match[2] == ".json")

    def _drop(self, steps: list[int]) -> None:
        for step in steps:
            # First the file that makes it a checkpoint, so that none is ever seen without its tensors.
            self._json_file(step).unlink(missing_ok=True)
            for path in self.folder.glob(f"step-{step:012d}-*.safetensors"):
                path.unlink(missing_ok=True)

    def _sweep(self, step: int | None, tensor_file: str | None) -> None:
        """Remove what interrupted saves left: temporary files, and tensors without their JSON."""
        steps = set(self._steps())
        for name in os.listdir(self.folder):
            match = _FILE.fullmatch(name)
            is_orphan = match is not None and match[2] != ".json" and int(match[1]) not in steps
            is_replaced = match is not None and match[2] != ".json" and int(match[1]) == step and name != tensor_file
            if is_temporary(name) or is_orphan or is_replaced:
                (self.folder / name).unlink(missing_ok=True)

    def _read(self, step: int) -> Checkpoint:
        body = self._read_body(step)
        path, checksum = self.folder / body["tensors"]["file"], hashlib.sha256()
        with _reading(path), open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != body["tensors"]["bytes"]:
                raise _DamagedError(f"its tensors have {size} of {body['tensors']['bytes']} bytes")
            try:
                tensors = deserialise(file, size, body["aliases"], body["strides"], checksum.update)
            except ValueError as error:
                raise _DamagedError(f"of its tensors, {error}") from None
        if checksum.hexdigest() != body["tensors"]["sha256"]:
            raise _DamagedError("its tensors do not match their checksum")
        return Checkpoint(body["step"], tensors, body["state"])

    def _read_body(self, step: int) -> dict[str, Any]:
        """The JSON of a checkpoint that is whole and of this run."""
        try:
            with _reading(self._json_file(step)):
                document = decode(read_regular(self._json_file(step)))
            body, digest = document["body"], document["sha256"]
        except (ValueError, TypeError, KeyError):
            raise _DamagedError("its JSON is damaged") from None
        if hashlib.sha256(encode(body).encode()).hexdigest() != digest:
            raise _DamagedError("its JSON does not match its checksum")
        if body["format"] != _FORMAT:
            raise ConfigError(
                f"this ramet reads checkpoints of format {_FORMAT}, but {self.folder} has {body['format']}."
            )
        if self.identity is not None and body.get("identity") != self.identity:
            raise ConfigError(f"a run goes on from its own checkpoints, but those in {self.folder} are another run's.")
        return dict(body)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Tell a file that is not there from one that the disk does not give."""
    try:
        yield
    except FileNotFoundError:
        raise _DamagedError(f"{path.name} is missing") from None
    except OSError as error:
        raise DiskError(f"cannot read {path}: {error.strerror or error}.") from error


def _rebuild(folder: str, keep: int, identity: str | None) -> Checkpoints:
    return Checkpoints(folder, keep=keep, identity=identity)


def serialise(tensors: Mapping[str, Tensor]) -> tuple[TensorFile, dict[str, str], dict[str, list[int]]]:
    """The tensors as a safetensors file, with what that format cannot hold beside it.

    Gives the file; for each name that is another's tensor, that other name; the strides that are not contiguous.
    """
    import torch

    from ramet.runs.tensor_file import TensorFile

    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    strides: dict[str, list[int]] = {}
    names: dict[tuple[Any, ...], str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.dtype == torch.complex128:
            what = f"{tensor.layout} {tensor.dtype}" if isinstance(tensor, torch.Tensor) else f"{type(tensor)}"
            raise TypeError(f"a checkpoint holds dense tensors, but {name!r} is {what}.")
        same = (tensor.data_ptr(), tensor.device, tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj())
        if tensor.numel() and same in names:
            aliases[name] = names[same]
            continue
        names[same] = name
        # Without storage of its own the tensor says how it wants to lie in memory: dense, in the order of its strides.
        layout = torch.empty_like(tensor, device="meta")
        if layout.stride() != torch.empty(layout.shape, device="meta").stride():
            strides[name] = list(layout.stride())
        stored[name] = tensor
    return TensorFile.of(stored), aliases, strides


def deserialise(
    file: ReadsInto,
    num_bytes: int,
    aliases: dict[str, str],
    strides: dict[str, list[int]],
    note: Callable[[Piece], object] = lambda piece: None,
) -> dict[str, Tensor]:
    """The tensors of a file that ``serialise`` made, on the CPU; all that is read is also given to ``note``."""
    import torch

    from ramet.runs.tensor_file import read_tensors

    tensors = read_tensors(file, num_bytes, note)
    for name, stride in strides.items():
        content = tensors[name]
        tensors[name] = torch.empty_strided(content.shape, stride, dtype=content.dtype).copy_(content)
    for name, other in aliases.items():
        tensors[name] = tensors[other]
    return tensors
