"""*Deeper insights into weight sharing in neural architecture search*: one function a table or figure."""

from ramet_papers.deeper_insights.second_setting import nasbench201
from ramet_papers.deeper_insights.sharing import figure_6, table_3a, table_3b, table_4
from ramet_papers.deeper_insights.stability import figure_2, figure_3, table_1, table_2
from ramet_papers.deeper_insights.variance import figure_4, figure_5, figure_7, figure_8

__all__ = ["figure_2", "figure_3", "figure_4", "figure_5", "figure_6", "figure_7", "figure_8", "nasbench201", "table_1"]
__all__ += ["table_2", "table_3a", "table_3b", "table_4"]

TARGETS = {
    "table-1": ("stability of shared rankings (S-Tau); claim D1", table_1),
    "table-2": ("shared rankings against the truth; claims D2, D3", table_2),
    "table-3a": ("group sharing; claim D7", table_3a),
    "table-3b": ("prefix sharing, trained long", table_3b),
    "table-4": ("prefix sharing, trained long and short; claim D8", table_4),
    "figure-2": ("stability after every epoch", figure_2),
    "figure-3": ("distribution of each child's rank, pruning; claim D4", figure_3),
    "figure-4": ("fine-tuning from a snapshot; claim D5", figure_4),
    "figure-5": ("the child just trained; claim D6", figure_5),
    "figure-6": ("one random group, and its children when all share", figure_6),
    "figure-7": ("the child just trained, after a long training", figure_7),
    "figure-8": ("momentum of batch norm and SGD (Figures 8, 9); claims D9a, D9b", figure_8),
    "nasbench201": ("a second setting: NAS-Bench-201, its table as the truth", nasbench201),
}
"""What can be reproduced: its name, what it shows, and the function."""
