"""Charts as inline SVG, one file for each family; see ``docs/decisions`` for why not a plotting library."""

from ramet.reports.charts.boxes import box_chart
from ramet.reports.charts.chart import Chart
from ramet.reports.charts.graph import Edge, GraphNode, graph_chart
from ramet.reports.charts.heatmap import heat_map
from ramet.reports.charts.intervals import bar_chart, dot_chart
from ramet.reports.charts.layers import Block, layer_chart
from ramet.reports.charts.lines import Line, Reference, line_chart
from ramet.reports.charts.paths import Route, Stop, path_chart
from ramet.reports.charts.scatter import Points, scatter_chart

__all__ = ["Block", "Chart", "Edge", "GraphNode", "Line", "Points", "Reference", "Route", "Stop", "bar_chart"]
__all__ += ["box_chart", "dot_chart", "graph_chart", "heat_map", "layer_chart", "line_chart", "path_chart"]
__all__ += ["scatter_chart"]
