"""The data sets by name: the named ones, and those that installed packages and files bring."""

from __future__ import annotations

from typing import Any

from ramet.registry import Entry, Registry


class DataSets(Registry[Any]):
    """The registry of data sets; of a named one, its title and size are told, because all are made by one function."""

    def entry(self, name: str, *, trusted: bool = True) -> Entry:
        """What a user is told of one data set."""
        from ramet.data.sources import SOURCES

        if name not in SOURCES:
            return super().entry(name, trusted=trusted)
        source = SOURCES[name]
        shape = " x ".join(map(str, source.shape))
        return Entry(name, f"{source.title}: {source.num_classes} classes, images of {shape}.", (), "built-in")


# The facts about them, ramet.data.sources, need numpy, which a table of names must not wait for.
NAMED = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "usps", "notmnist", "omniglot", "gtsrb")

DATA: DataSets = DataSets(
    "data set",
    base="builtins:object",
    group="ramet.data",
    built_in={name: "ramet.data.named:read_named" for name in NAMED}
    | {"text": "ramet.data.text:text", "image-folder": "ramet.data.image_stream:image_folder"},
)
"""What is learned; a maker of one's own gives a ``DataSet``, or what ``load`` makes one from."""
