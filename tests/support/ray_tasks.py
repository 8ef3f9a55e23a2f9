"""Tasks for the workers of a Ray cluster, which import them by name."""

from __future__ import annotations

import os
import time
from pathlib import Path


def mark(context: str, name: str, seconds: float) -> dict[str, str]:
    """Leave a file for each time that the task is begun, and take a while."""
    (Path(context) / f"{name}.{os.getpid()}.{time.monotonic_ns()}").touch()
    time.sleep(seconds)
    return {"name": name}
