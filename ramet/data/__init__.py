"""Image data as tensors in memory: named sets, the user's own, splits by the seed, downloads with checksums."""

from ramet.data.dataset import DataSet, Split
from ramet.data.devices import on_device
from ramet.data.fetching import fetch
from ramet.data.loading import load
from ramet.data.named import Description, data_folder, describe
from ramet.data.sources import SOURCES, Source, SourceFile

__all__ = [
    "SOURCES",
    "DataSet",
    "Description",
    "Source",
    "SourceFile",
    "Split",
    "data_folder",
    "describe",
    "fetch",
    "load",
    "on_device",
]
