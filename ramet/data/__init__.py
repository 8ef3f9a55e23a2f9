"""Images, and text, as tensors in memory: named sets, the user's own, splits by the seed, downloads with checksums."""

from ramet.data.dataset import DataSet, Split
from ramet.data.devices import on_device
from ramet.data.fetching import fetch
from ramet.data.loading import load
from ramet.data.named import Description, data_folder, describe
from ramet.data.sources import SOURCES, Source, SourceFile
from ramet.data.text import Text, load_text

__all__ = [
    "SOURCES",
    "DataSet",
    "Description",
    "Source",
    "SourceFile",
    "Split",
    "Text",
    "data_folder",
    "describe",
    "fetch",
    "load",
    "load_text",
    "on_device",
]
