"""*Firefly neural architecture descent*: one function a table or figure."""

from ramet_papers.firefly.cells import table_1
from ramet_papers.firefly.continual import figure_5, table_2
from ramet_papers.firefly.depth import table_3
from ramet_papers.firefly.figure_3 import figure_3a, figure_3b
from ramet_papers.firefly.figure_4 import figure_4a, figure_4b, figure_6

__all__ = ["figure_3a", "figure_3b", "figure_4a", "figure_4b", "figure_5", "figure_6", "table_1", "table_2", "table_3"]
