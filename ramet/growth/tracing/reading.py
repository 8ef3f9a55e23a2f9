"""Where a network's forward turns tensors into Python numbers, so that other inputs may take another way through it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

READERS: frozenset[Any] = frozenset(
    {Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.__index__, Tensor.item, Tensor.tolist}
)
"""What gives a Python value. An array is not among them: what is computed from it is unknown to the trace anyway."""

_TORCH = str(Path(torch.__file__).parent)


class ValueReads(TorchFunctionMode):
    """Notes each read of a value in code that is not torch's own; torch's modules check their arguments in that way.

    Attributes:
        places: the lines that read, as ``FILE:LINE``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in READERS:
            # The last frame is this one, the one before it asked for the value.
            asking = traceback.extract_stack(limit=2)[0]
            if not asking.filename.startswith(_TORCH):
                self.places.append(f"{Path(asking.filename).name}:{asking.lineno}")
        return func(*args, **(kwargs or {}))
