"""The network of a plan, which may be anybody's module: at hand in a call, named from the root, described as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ramet.continual.plan import LearnPlan
from ramet.continual.study.plan import StudyPlan
from ramet.jobs.job import anchored_source
from ramet.runs.encoding import Json

if TYPE_CHECKING:
    from torch.nn import Module

NetworkPlan = TypeVar("NetworkPlan", LearnPlan, StudyPlan)


def with_network(
    plan: NetworkPlan, network: str | Module | Callable[..., Any] | None, start: str | Path | None
) -> NetworkPlan:
    """The plan with the network and the file of weights that a call was given, where it was."""
    if network is not None:
        plan = replace(plan, network=network)
    return plan if start is None else replace(plan, start=str(start))


def anchored_network(plan: NetworkPlan) -> NetworkPlan:
    """The plan with the files of its network and its weights named from the root."""
    start = None if plan.start is None else str(Path(plan.start).absolute())
    return replace(plan, network=anchored_source("skeleton", plan.network), start=start)


def described_network(plan: LearnPlan | StudyPlan, values: Json) -> Json:
    """The JSON values of a job with that plan; a module is described by its layers."""
    from torch import nn

    if isinstance(plan.network, nn.Module):
        values["plan"]["network"]["is"] = str(plan.network)
    return values
