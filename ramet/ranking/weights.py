"""Weights of a supernet that was trained elsewhere: a file of tensors, or the checkpoints of a run."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from ramet.errors import DataError
from ramet.runs import Checkpoints
from ramet.training import saved_part


def put_weights(network: nn.Module, source: str) -> None:
    """Give a supernet the weights of a file.

    Args:
        network: the supernet; its layers must be those that the weights are of.
        source: ``FILE.safetensors`` with its ``state_dict``, or a folder of checkpoints, such as
            ``RUN/checkpoints/instance-0/group-0`` of a ranking or ``RUN/checkpoints/search`` of a search.

    Raises:
        DataError: there is no such file, it is damaged, or it holds other weights.
    """
    state = _read(Path(source))
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        lines = str(error).splitlines()
        first = (lines[1] if len(lines) > 1 else lines[0]).strip()
        raise DataError(f"weights must be those of the space's supernet, but {source} has others: {first}") from None


def _read(path: Path) -> dict[str, Tensor]:
    if path.is_dir():
        checkpoint = Checkpoints(path).load()
        if checkpoint is None:
            raise DataError(f"a folder of weights must hold checkpoints, but {path} has none.")
        state: dict[str, Tensor] = saved_part(checkpoint, "network")
        return state
    if not path.is_file():
        raise DataError(f"weights must be a file or a folder of checkpoints, but {path} is not there.")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise DataError(f"weights must be a safetensors file, but {path} cannot be read: {error}.") from None
