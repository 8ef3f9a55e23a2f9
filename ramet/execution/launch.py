"""Whether this process is one of several that torchrun started: a look at the environment, without torch."""

from __future__ import annotations

import os

_NEEDED = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def is_launched() -> bool:
    """Whether torchrun started this process as one rank of several; alone under torchrun is the same as without it."""
    return all(name in os.environ for name in _NEEDED) and int(os.environ["WORLD_SIZE"]) > 1


def is_leader() -> bool:
    """Whether this process is the one that writes and speaks: rank 0, or any process without torchrun."""
    return not is_launched() or int(os.environ["RANK"]) == 0
