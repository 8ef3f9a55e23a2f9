"""Images, vectors and text as tensors: named sets, the user's own, splits by the seed, downloads with checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ramet.registry.fronts import lazy_front

if TYPE_CHECKING:
    from ramet.data.dataset import DataSet, Split, on_device
    from ramet.data.fetching import fetch
    from ramet.data.form import InputForm
    from ramet.data.image_stream import ImageFolderStream
    from ramet.data.loading import load
    from ramet.data.named import Description, data_folder, describe
    from ramet.data.registry import DATA
    from ramet.data.sources import SOURCES, Source, SourceFile
    from ramet.data.text import Text, load_text

__all__ = [
    "DATA",
    "SOURCES",
    "DataSet",
    "Description",
    "ImageFolderStream",
    "InputForm",
    "Source",
    "SourceFile",
    "Split",
    "Text",
    "data_folder",
]
__all__ += ["describe", "fetch", "load", "load_text", "on_device"]

__getattr__ = lazy_front(__name__)
