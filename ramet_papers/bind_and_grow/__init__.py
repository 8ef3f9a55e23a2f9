"""*Learn to bind and grow neural structures*: one function a figure."""

from ramet_papers.bind_and_grow.comparison import comparison
from ramet_papers.bind_and_grow.delta import figure_6
from ramet_papers.bind_and_grow.pareto import pareto
from ramet_papers.bind_and_grow.random_binding import figure_2
from ramet_papers.bind_and_grow.twins import twins

__all__ = ["comparison", "figure_2", "figure_6", "pareto", "twins"]
