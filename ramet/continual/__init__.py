"""Task after task in one network, with little growth and nothing forgotten; see docs/learn.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.continual.joint import JointNetwork
    from ramet.continual.loop import Learned, accuracy_matrix, learn
    from ramet.continual.measures import (
        average_accuracy,
        average_gain,
        backward_transfer,
        forgetting,
        forward_transfer,
        intransigence,
        paper_gain,
        summary,
    )
    from ramet.continual.method import Method
    from ramet.continual.methods import METHODS
    from ramet.continual.methods.bind_and_grow.method import BindAndGrow
    from ramet.continual.methods.bind_and_grow.random_growth import RandomGrowth
    from ramet.continual.methods.bind_and_grow.similarity import dissimilarity_matrix, linear_cka, rank_similarity
    from ramet.continual.methods.making import make_method
    from ramet.continual.networks.backbone import Backbone
    from ramet.continual.networks.making import make_template
    from ramet.continual.networks.skeletons import Layer, Skeleton, make_skeleton
    from ramet.continual.networks.template import Template
    from ramet.continual.plan import LearnPlan, Scenario
    from ramet.continual.recipe import LearnRecipe
    from ramet.continual.streams.makers import DOMAINS, make_stream
    from ramet.continual.streams.stream import GoneDataError, Stream, Task, TaskData, TaskInfo, fit_together
    from ramet.continual.study.plan import StudyPlan
    from ramet.continual.study.result import FoundSequences
    from ramet.continual.study.search import SequenceSearch
    from ramet.continual.study.space import GrowSequence, SequenceSpace
    from ramet.continual.training import Held, Saves, train

__all__ = ["DOMAINS", "METHODS", "Backbone", "BindAndGrow", "GoneDataError", "GrowSequence", "Held", "JointNetwork"]
__all__ += ["FoundSequences", "Layer", "LearnPlan", "LearnRecipe", "Learned", "Method", "RandomGrowth", "Saves"]
__all__ += ["Scenario", "SequenceSearch", "SequenceSpace", "Skeleton", "Stream", "StudyPlan", "Task", "TaskData"]
__all__ += ["TaskInfo", "Template"]
__all__ += ["accuracy_matrix", "average_accuracy", "average_gain", "backward_transfer", "dissimilarity_matrix"]
__all__ += ["fit_together", "forgetting", "forward_transfer", "intransigence", "learn", "linear_cka", "make_method"]
__all__ += ["make_skeleton", "make_stream", "make_template", "paper_gain", "rank_similarity", "summary", "train"]

__getattr__ = lazy_front(__name__)
