"""What the server behind the worker processes imports, once, before it forks any.

Importing torch takes about two seconds, and making the first optimizer as long again, because torch then imports its
compiler. A worker that is forked afterwards begins within milliseconds.
"""

from __future__ import annotations

import torch

import ramet.execution.worker  # noqa: F401 (imported for its own sake)

# No computation here: it could start threads, which a fork does not survive.
torch.optim.SGD([torch.nn.Parameter(torch.empty(1))], lr=0.1)
