"""What one input of a network is: an image, a vector, a text of numbered tokens, or an array of another shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ramet.errors import ConfigError, DataError


@dataclass(frozen=True)
class InputForm:
    """The shape of one input, and for tokens the size of their vocabulary.

    Attributes:
        shape: [channels, height, width] of an image, [features] of a vector, [length] of a text.
        words: how many different tokens there are; None for inputs that are numbers.

    >>> InputForm((13,)).arguments(1)["num_features"], str(InputForm((64,), words=50))
    (13, 'texts of 64 tokens out of 50')
    """

    shape: tuple[int, ...]
    words: int | None = None

    @property
    def kind(self) -> Literal["image", "vector", "text", "array"]:
        """What it is, by its axes and its vocabulary."""
        if self.words is not None:
            return "text"
        return {1: "vector", 3: "image"}.get(len(self.shape), "array")  # type: ignore[return-value]

    @property
    def dtype(self) -> torch.dtype:
        """Of a batch of inputs."""
        return torch.float32 if self.words is None else torch.int64

    @property
    def pixels(self) -> tuple[int, int, int]:
        """Channels, height and width; the features of a vector are channels of a single pixel.

        Raises:
            DataError: it is neither an image nor a vector.
        """
        if self.kind == "vector":
            return self.shape[0], 1, 1
        if self.kind != "image":
            raise DataError(f"an input must be an image or a vector here, but these are {self}.")
        return self.shape  # type: ignore[return-value]

    def arguments(self, num_outputs: int) -> dict[str, Any]:
        """What a function that makes a network for such inputs may ask for, by name."""
        given: dict[str, Any] = {"input_shape": self.shape, "num_outputs": num_outputs, "num_classes": num_outputs}
        if self.kind == "text":
            return given | {"length": self.shape[0], "words": self.words}
        if self.kind == "array":
            return given
        channels, height, width = self.pixels
        given |= {"in_channels": channels, "image_size": (height, width)}
        return given | ({"num_features": channels} if self.kind == "vector" else {})

    def example(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Random inputs of this form, [count, ...]."""
        shape = (count, *self.shape)
        if self.words is None:
            return torch.randn(shape, generator=generator)
        return torch.randint(self.words, shape, generator=generator)

    def to_json(self) -> dict[str, Any]:
        """JSON values; those of an image are ``in_channels`` and ``image_size``."""
        if self.kind == "image":
            return {"in_channels": self.shape[0], "image_size": list(self.shape[1:])}
        if self.kind == "text":
            return {"length": self.shape[0], "words": self.words}
        return {"input_shape": list(self.shape)}

    @classmethod
    def of(cls, shape: InputForm | Sequence[int]) -> InputForm:
        """A form as it is, or that of numbers of a shape."""
        return shape if isinstance(shape, InputForm) else cls(tuple(shape))

    @classmethod
    def given(cls, **values: Any) -> InputForm:
        """The form of arguments of which those of one kind are not none: as in ``to_json``.

        Raises:
            ConfigError: nothing says what an input is.
        """
        if all(values.get(name) is None for name in ("in_channels", "input_shape", "words")):
            raise ConfigError(
                "an input has in_channels and image_size, input_shape, or length and words, but got none."
            )
        return cls.from_json(values)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> InputForm:
        """The inverse of ``to_json``; other values are ignored."""
        if values.get("words") is not None:
            return cls((int(values["length"]),), int(values["words"]))
        if values.get("input_shape") is not None:
            return cls(tuple(int(size) for size in values["input_shape"]))
        size = values["image_size"]
        height, width = (size, size) if isinstance(size, int) else size
        return cls((int(values["in_channels"]), int(height), int(width)))

    def __str__(self) -> str:
        """What they are, in words."""
        if self.kind == "text":
            return f"texts of {self.shape[0]} tokens out of {self.words:,}"
        if self.kind == "vector":
            return f"vectors of {self.shape[0]} features"
        return f"{self.kind}s of shape {list(self.shape)}"
