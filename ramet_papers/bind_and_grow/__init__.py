"""*Learn to bind and grow neural structures*: one function a figure."""

from ramet_papers.bind_and_grow.comparison import comparison
from ramet_papers.bind_and_grow.delta import figure_6
from ramet_papers.bind_and_grow.pareto import pareto
from ramet_papers.bind_and_grow.random_binding import figure_2
from ramet_papers.bind_and_grow.twins import twins

__all__ = ["comparison", "figure_2", "figure_6", "pareto", "twins"]

TARGETS = {
    "figure-2": ("growth by similarity against random growth; claim B1", figure_2),
    "figure-6": ("delta against size and accuracy; claim B2", figure_6),
    "pareto": ("the Pareto front of grow sequences; claim B3", pareto),
    "comparison": ("methods on permuted and split images", comparison),
    "twins": ("a task's copy among strangers: is it found?", twins),
}
"""What can be reproduced: its name, what it shows, and the function."""
