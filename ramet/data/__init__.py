"""Image data as tensors in memory: named sets, the user's own, splits by the seed, downloads with checksums."""

from ramet.data.dataset import DataSet, Split
from ramet.data.loading import load

__all__ = ["DataSet", "Split", "load"]
