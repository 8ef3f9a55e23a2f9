"""The kinds of functions that a recipe takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

OptimizerFactory = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]
"""Makes an optimizer of parameter groups, each with its ``params`` and its first ``lr``."""

Schedule = Callable[[int, int], float]
"""The factor of the learning rate in a step, counted from 0, of a training of so many steps."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""``loss(outputs, targets)``, the mean over a batch."""

MetricFunction = Callable[[Tensor, Tensor], Any]
"""``metric(outputs, targets)``, one number for all samples of a split; a ``ramet.training.metrics.Metric`` is one."""

Augmentation = Callable[[Tensor, Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""What is done to the inputs and targets of a batch; all that it draws comes from the generator, on the CPU."""
