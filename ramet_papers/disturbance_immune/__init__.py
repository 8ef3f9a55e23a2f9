"""*Disturbance-immune weight sharing for neural architecture search*: one function a figure or experiment."""

from ramet_papers.disturbance_immune.correlation import correlation
from ramet_papers.disturbance_immune.figure_1b import figure_1b
from ramet_papers.disturbance_immune.figure_3 import figure_3
from ramet_papers.disturbance_immune.sensitivity import lambda_curve, shared_layers
from ramet_papers.disturbance_immune.table_1 import table_1
from ramet_papers.disturbance_immune.theorem import theorem

__all__ = ["correlation", "figure_1b", "figure_3", "lambda_curve", "shared_layers", "table_1", "theorem"]
