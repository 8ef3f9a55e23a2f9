"""*Overcoming multi-model forgetting*: one function a table or figure."""

from ramet_papers.multi_model_forgetting.convergence import figure_1, figure_3
from ramet_papers.multi_model_forgetting.searches import figure_4, figure_5, figure_b, table_1

__all__ = ["figure_1", "figure_3", "figure_4", "figure_5", "figure_b", "table_1"]
