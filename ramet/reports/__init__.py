"""What people look at: one self-contained page, tables for page and terminal, and charts as inline SVG.

A report is made from records and plain numbers; nothing here knows models.
"""

from ramet.reports import charts, formats
from ramet.reports.charts import *  # noqa: F403 - its __all__ is a part of this one
from ramet.reports.formats import Estimate
from ramet.reports.page import KeyNumber, Page, picture
from ramet.reports.tables import Column, Table

__all__ = ["Column", "Estimate", "KeyNumber", "Page", "Table", "formats", "picture"]
__all__ += charts.__all__
