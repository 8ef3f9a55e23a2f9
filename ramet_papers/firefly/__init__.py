"""*Firefly neural architecture descent*: one function a table or figure."""

from ramet_papers.firefly.cells import table_1
from ramet_papers.firefly.continual import figure_5, table_2
from ramet_papers.firefly.depth import table_3
from ramet_papers.firefly.figure_3 import figure_3a, figure_3b
from ramet_papers.firefly.figure_4 import figure_4a, figure_4b, figure_6

__all__ = ["figure_3a", "figure_3b", "figure_4a", "figure_4b", "figure_5", "figure_6", "table_1", "table_2", "table_3"]

TARGETS = {
    "figure-3a": ("a toy of radial basis functions, methods compared; claim F1", figure_3a),
    "figure-3b": ("the toy by the number of new candidates; claim F2", figure_3b),
    "figure-4a": ("wider VGG-like networks, accuracy against size; claim F3", figure_4a),
    "figure-4b": ("time of a growth step", figure_4b),
    "figure-5": ("tasks one after the other, accuracy against size", figure_5),
    "figure-6": ("wider MobileNet-like networks; claim F4", figure_6),
    "table-1": ("cells found by growth, against DARTS; claim F6", table_1),
    "table-2": ("20 tasks, against CPG; claim F7", table_2),
    "table-3": ("growing deeper, against AutoGrow and NASH; claim F5", table_3),
}
"""What can be reproduced: its name, what it shows, and the function."""
