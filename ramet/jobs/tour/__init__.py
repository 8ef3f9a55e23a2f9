"""`ramet tour`: one story in five parts on the embedded digits, a sentence and a picture each."""

from ramet.jobs.tour.job import TourJob

__all__ = ["TourJob"]
