"""`ramet study`: how a stream is learned best."""

from ramet.continual.study.plan import StudyPlan
from ramet.continual.study.space import SequenceSpace
from ramet.jobs.study.job import StudyJob, study

__all__ = ["SequenceSpace", "StudyJob", "StudyPlan", "study"]
