"""A network written in every form that is wanted, with its card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from ramet.errors import RunError, told
from ramet.exporting.card import Card
from ramet.exporting.onnx import export_onnx
from ramet.exporting.program import export_for_batches
from ramet.runs.atomic import write_atomically

FORMS = {
    "pt2": 'torch alone: `torch.export.load("{}").module()`',
    "onnx": 'onnxruntime: `onnxruntime.InferenceSession("{}")`',
}
"""The forms by the ends of their files, and what runs each."""


def write_network(
    network: nn.Module,
    stem: Path,
    *,
    input_shape: Sequence[int],
    dtype: torch.dtype = torch.float32,
    onnx: bool = False,
    card: Card | None = None,
) -> str:
    """Write ``stem.pt2``, if wanted ``stem.onnx``, and the card as ``stem.md``.

    Args:
        network: any module; it is left as it was.
        stem: the path of the files without their ends.
        input_shape: the shape of one input without its batch.
        dtype: of an input; ``torch.int64`` for words.
        onnx: whether a file for onnxruntime is written, too.
        card: what is said of the network.

    Returns:
        Which files are missing, and why, or nothing: not every module can be exported.

    Raises:
        RunError: the disk refuses.
    """
    writers: dict[str, Callable[..., tuple[bytes, int | None]]] = {"pt2": export_for_batches}
    if onnx:
        writers["onnx"] = lambda *given: (export_onnx(*given), None)
    problems, files = [], {}
    for form, make in writers.items():
        path = stem.with_name(f"{stem.name}.{form}")
        try:
            content, only = make(network, input_shape, dtype)
        except Exception as error:  # torch's exporters raise whatever a module of the user's own raises under them
            why = str(error) if isinstance(error, RunError) else told(error)
            problems.append(f"{path.name}: {why}")
            path.unlink(missing_ok=True)  # of an earlier run, which would be taken for this one's
            continue
        write_atomically(path, content)
        files[path.name] = FORMS[form].format(path.name)
        if only is not None:
            files[path.name] += f"; for batches of {only} only, because the network's forward holds their size"
    if card is not None:
        card.write(stem.with_name(f"{stem.name}.md"), files)
    return "; ".join(problems)
