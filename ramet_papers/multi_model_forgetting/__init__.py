"""*Overcoming multi-model forgetting*: one function a table or figure."""

from ramet_papers.multi_model_forgetting.convergence import figure_1, figure_3
from ramet_papers.multi_model_forgetting.searches import figure_4, figure_4d, figure_5, figure_b, table_1

__all__ = ["figure_1", "figure_3", "figure_4", "figure_4d", "figure_5", "figure_b", "table_1"]

TARGETS = {
    "figure-1": ("forgetting by the number of shared layers; claim W1", figure_1),
    "figure-3": ("strict and loose convergence, guards compared; claims W2, W3", figure_3),
    "figure-4": ("recurrent search on text; claim W4", figure_4),
    "figure-4d": ("its reward as alpha falls; claim W6", figure_4d),
    "figure-B": ("convolutional search; claim W5", figure_b),
    "figure-5": ("NAO by output dropout; claim W7", figure_5),
    "table-1": ("what the searches found, trained alone; claim W8", table_1),
}
"""What can be reproduced: its name, what it shows, and the function."""
