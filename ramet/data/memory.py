"""What data may take of the machine's memory: asked of headers, before anything is decoded.

A file of megabytes can promise, or unpack to, terabytes. So every reader that decodes asks here first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ramet.errors import DataError
from ramet.runs.regular import machine_memory


def fits_in_memory(shape: Sequence[int]) -> bool:
    """Whether images of a shape, standardised to float32, take at most half of the machine's memory."""
    memory = machine_memory()
    return memory is None or math.prod(shape) * 4 <= memory / 2


def require_room(num_bytes: int, place: str) -> None:
    """Refuse, with a ``DataError``, what would take more than half of the machine's memory when it is read."""
    memory = machine_memory()
    if memory is not None and num_bytes > memory / 2:
        raise DataError(
            f"{place} must fit into half of this machine's memory, {memory // 2:,} bytes, but has {num_bytes:,} bytes "
            "when it is read."
        )


def require_room_beside(num_bytes: int, taken: int, place: str) -> None:
    """Refuse what does not fit into the memory beside the bytes that are taken already."""
    memory = machine_memory()
    if memory is not None and num_bytes + taken > memory:
        raise DataError(
            f"{place} must fit into this machine's memory of {memory:,} bytes, but takes {num_bytes:,} bytes in "
            f"float32 beside the {taken:,} of the source; image_size, train_size and eval_size make it smaller."
        )
