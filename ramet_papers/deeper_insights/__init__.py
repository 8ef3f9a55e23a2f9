"""*Deeper insights into weight sharing in neural architecture search*: one function a table or figure."""

from ramet_papers.deeper_insights.second_setting import nasbench201
from ramet_papers.deeper_insights.sharing import figure_6, table_3a, table_3b, table_4
from ramet_papers.deeper_insights.stability import figure_3, table_1, table_2
from ramet_papers.deeper_insights.variance import figure_4, figure_5, figure_8

__all__ = ["figure_3", "figure_4", "figure_5", "figure_6", "figure_8", "nasbench201", "table_1", "table_2", "table_3a"]
__all__ += ["table_3b", "table_4"]
