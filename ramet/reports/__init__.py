"""What people look at: one self-contained page, tables for page and terminal, and charts as inline SVG.

A report is made from records and plain numbers; nothing here knows models.
"""

from ramet.reports import formats
from ramet.reports.charts import (
    Chart,
    Edge,
    GraphNode,
    Line,
    Points,
    Reference,
    bar_chart,
    box_chart,
    dot_chart,
    graph_chart,
    heat_map,
    line_chart,
    scatter_chart,
)
from ramet.reports.formats import Estimate
from ramet.reports.page import KeyNumber, Page
from ramet.reports.tables import Column, Table

__all__ = [
    "Chart",
    "Column",
    "Edge",
    "Estimate",
    "GraphNode",
    "KeyNumber",
    "Line",
    "Page",
    "Points",
    "Reference",
    "Table",
    "bar_chart",
    "box_chart",
    "dot_chart",
    "formats",
    "graph_chart",
    "heat_map",
    "line_chart",
    "scatter_chart",
]
