"""*Disturbance-immune weight sharing for neural architecture search*: one function a figure or experiment."""

from ramet_papers.disturbance_immune.correlation import correlation
from ramet_papers.disturbance_immune.figure_1b import figure_1b
from ramet_papers.disturbance_immune.figure_3 import figure_3
from ramet_papers.disturbance_immune.sensitivity import lambda_curve, shared_layers
from ramet_papers.disturbance_immune.table_1 import table_1
from ramet_papers.disturbance_immune.table_1_rows import table_1_rows
from ramet_papers.disturbance_immune.table_2 import table_2
from ramet_papers.disturbance_immune.theorem import theorem

__all__ = ["correlation", "figure_1b", "figure_3", "lambda_curve", "shared_layers", "table_1", "table_1_rows"]
__all__ += ["table_2", "theorem"]

TARGETS = {
    "figure-1b": ("ten architectures in a row, 10 x 10; claim I1", figure_1b),
    "figure-3": ("change of accuracy and rank over an interval; claim I2", figure_3),
    "correlation": ("guards against the truth and for stability; claim I3", correlation),
    "shared-layers": ("disturbance by shared layers; claim I4", shared_layers),
    "lambda": ("lambda's sensitivity; claim I4", lambda_curve),
    "table-1": ("search against random architectures; claim I6", table_1),
    "table-1-methods": ("DARTS, ENAS, NAO and random search under one budget, with and without guard", table_1_rows),
    "table-2": ("the network for ImageNet: its size; its training with the preset paper", table_2),
    "theorem": ("iterative and closed form, Theorem 4.1; claim I5", theorem),
}
"""What can be reproduced: its name, what it shows, and the function."""
