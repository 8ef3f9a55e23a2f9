"""Which part of a data set a job takes, and how it is cut: the same options for every job."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from ramet.errors import ConfigError
from ramet.fields import HIDDEN, option

if TYPE_CHECKING:
    from ramet.continual.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Arguments of ``ramet.data.load``.

    Args:
        data_dir: where named data sets are; by default the environment variable RAMET_DATA.
        image_size: average-pool the images to this height and width; image files of several sizes are scaled and cut.
        train_size: use only that many training images.
        eval_size: use only that many validation and test images.
        validation_fraction: the share of the training images that choices are made on.
        pool: join a data set's own test images to the others before all three parts are drawn by the seed.
        test_fraction: the share of all images that tests, where they are pooled.
        seed: what the parts are drawn by; the run's seed if none.
    """

    data_dir: str | None = None
    image_size: int | None = None
    train_size: int | None = None
    eval_size: int | None = None
    validation_fraction: float = 0.2
    pool: bool = option(False, name=HIDDEN)
    test_fraction: float = option(0.2, name=HIDDEN)
    seed: int | None = option(None, name=HIDDEN)

    def anchored(self) -> Self:
        """The options with their folder named from the root."""
        return replace(self, data_dir=None if self.data_dir is None else str(Path(self.data_dir).absolute()))

    def given(self, **defaults: Any) -> dict[str, Any]:
        """The options that have a value, as keyword arguments; ``defaults`` are for those that have none."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.pool:
            del values["pool"], values["test_fraction"]
        return defaults | {name: value for name, value in values.items() if value is not None}

    def images(self, **defaults: Any) -> dict[str, Any]:
        """Those that images have."""
        return self.given(**defaults)


@dataclass(frozen=True, kw_only=True)
class ImageOptions(DataOptions):
    """Arguments of ``ramet.data.load`` that say where images are while they are used.

    Args:
        in_memory: whether all images are read at once; by default those that take at most half of the memory are. Of
            others, batches are read as they are asked for: from a folder of class folders or of .npy files.
        readers: processes that read such batches ahead.
        spool: a folder of its own for what a function gives one after the other (an iterable data set), or for the
            tokens of a text: they are written there once, and read from there, also by later runs.
    """

    in_memory: bool | None = None
    readers: int = 0
    spool: str | None = None

    def anchored(self) -> Self:
        """The options with their folders named from the root."""
        return replace(super().anchored(), spool=None if self.spool is None else str(Path(self.spool).absolute()))


@dataclass(frozen=True, kw_only=True)
class NumericOptions(ImageOptions):
    """Arguments of ``ramet.data.load`` for targets of any kind.

    Args:
        targets: what the targets of an .npz file are, classes or numbers; by default numbers if one has a fraction.
    """

    targets: Literal["classes", "numbers"] | None = None


@dataclass(frozen=True, kw_only=True)
class TargetOptions(NumericOptions):
    """Arguments of ``ramet.data.load`` for data of any kind.

    Args:
        train_size: use only that many training images (rows of a table, windows of a text).
        eval_size: use only that many validation and test images (rows, windows).
        inputs: tokens, where the rows of an .npz file are such and do not have a target for each.
    """

    inputs: Literal["tokens"] | None = None


@dataclass(frozen=True, kw_only=True)
class TextOptions(NumericOptions):
    """Arguments of ``ramet.data.load`` for images, or of ``load_text`` for a space of language models.

    Args:
        train_size: use only that many training images (or windows of words).
        eval_size: use only that many validation and test images (or windows).
        tokens: of a text: words (by default), characters, or the file of a tokenizer (tokenizer.json).
        window: tokens in a window of text; by default 35.
        vocabulary: keep only that many tokens of a text.
    """

    tokens: str | None = None
    window: int | None = None
    vocabulary: int | None = None

    def images(self, **defaults: Any) -> dict[str, Any]:
        """Those that images have."""
        words = ("tokens", "window", "vocabulary")
        return {name: value for name, value in self.given(**defaults).items() if name not in words}

    def words(self) -> dict[str, Any]:
        """Those that text has."""
        names = ("data_dir", "train_size", "eval_size", "tokens", "window", "vocabulary", "in_memory", "spool")
        return {name: value for name, value in self.given().items() if name in names}


@dataclass(frozen=True, kw_only=True)
class StreamOptions(DataOptions):
    """Arguments of ``make_stream``, for every data set of a stream.

    Args:
        train_size: use only that many training images of each data set.
        eval_size: use only that many validation and test images of each data set.
    """

    def streams(self, source: Any, seeds: range, trust: bool = False) -> list[Stream]:
        """The stream of a name or a file, drawn by each of several seeds; or what was given as objects."""
        from ramet.continual.streams.makers import make_stream
        from ramet.continual.streams.stream import Stream

        if isinstance(source, str):
            try:
                return [make_stream(source, trusted=trust, **self.given(seed=seed)) for seed in seeds]
            except TypeError as error:
                raise ConfigError(f"data_options must be options of a stream, but: {error}.") from None
        if self != type(self)():
            raise ConfigError(f"options are for streams by name, but got {self.given()} with an object.")
        listed = list(source) if isinstance(source, list | tuple) else []
        streams = [source] * len(seeds) if isinstance(source, Stream) else listed
        if len(streams) != len(seeds) or not all(isinstance(stream, Stream) for stream in streams):
            raise ConfigError(
                f"a stream is a name, a Stream, or one for each of {len(seeds)} seeds, but got "
                f"{source if isinstance(source, int | float) else type(source).__name__}."
            )
        for stream in streams:
            if stream.names != streams[0].names:
                raise ConfigError(f"streams of all seeds have the same tasks, but {stream.names} are others.")
        return streams
