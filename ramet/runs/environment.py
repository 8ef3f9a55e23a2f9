"""What a run's numbers depend on beside its configuration: versions, processor and threads; never who or where."""

from __future__ import annotations

import os
import platform
from typing import Any

import ramet
from ramet.runs.encoding import FORMAT_VERSION


def describe_environment() -> dict[str, Any]:
    """The versions and the hardware behind a run, without user names, host names or paths.

    >>> sorted(describe_environment())  # doctest: +NORMALIZE_WHITESPACE
    ['cores', 'cpu', 'cpu_capability', 'format', 'gpus', 'numpy', 'platform', 'python', 'ramet', 'threads', 'torch']
    """
    import numpy
    import torch

    return {
        "ramet": ramet.__version__,
        "format": FORMAT_VERSION,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()} {' '.join(platform.libc_ver())}".strip(),
        "cpu": _cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cores": _num_cores(),
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
    }


def changed_entries(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The entries in which two environments differ, each as ``name: before -> now``."""
    names = sorted((set(before) | set(now)) - {"format"})  # no number depends on how it is written down
    return [f"{name}: {before.get(name)} -> {now.get(name)}" for name in names if before.get(name) != now.get(name)]


def _num_cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # Not Linux.
    return platform.processor() or platform.machine()
