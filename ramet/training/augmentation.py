"""What is done to the images of a training batch, by name: ``crop+flip+cutout:16+mixup:0.2``.

Each works on the whole batch, on the device where it lies. All that is drawn comes from a generator on the CPU that
follows from the training's seed and the number of the step, so that devices agree and a resumed training goes on as it
would have.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ramet.errors import ConfigError
from ramet.training.registry import AUGMENTATIONS


def augmentation_of(source: str | Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
    """One function of all augmentations of a text, one after the other.

    Raises:
        ConfigError: there is no such augmentation, or it does not take the options.

    >>> x, y = augmentation_of("flip:1.0")(torch.arange(4.0).view(1, 1, 1, 4), torch.zeros(1), torch.Generator())
    >>> x.flatten().tolist()
    [3.0, 2.0, 1.0, 0.0]
    """
    if not isinstance(source, str):
        return AUGMENTATIONS.bind(source)
    parts = AUGMENTATIONS.bind_chain(source)

    def one_after_the_other(x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        for part in parts:
            x, y = part(x, y, generator)
        return x, y

    return one_after_the_other


def crop(x: Tensor, y: Tensor, generator: torch.Generator, padding: int = 4) -> tuple[Tensor, Tensor]:
    """Images moved by up to so many pixels in each direction; what comes in is zero.

    Args:
        x: images, shape [batch, channels, height, width].
        y: targets.
        generator: draws the offsets.
        padding: the pixels.
    """
    _check_images(x, "crop")
    batch, channels, height, width = x.shape
    rows = torch.randint(2 * padding + 1, (batch, 1), generator=generator) + torch.arange(height)
    columns = torch.randint(2 * padding + 1, (batch, 1), generator=generator) + torch.arange(width)
    padded_width = width + 2 * padding
    # One gather over flat pixels is the fastest way on a CPU: [batch, height * width], the same for every channel.
    pixels = (rows[:, :, None] * padded_width + columns[:, None, :]).view(batch, 1, -1).to(x.device)
    padded = functional.pad(x, (padding,) * 4).flatten(2)
    return padded.gather(2, pixels.expand(-1, channels, -1)).view(batch, channels, height, width), y


def flip(x: Tensor, y: Tensor, generator: torch.Generator, probability: float = 0.5) -> tuple[Tensor, Tensor]:
    """Images mirrored left to right.

    Args:
        x: images, shape [batch, channels, height, width].
        y: targets.
        generator: draws which.
        probability: that an image is.
    """
    _check_images(x, "flip")
    chosen = torch.rand(len(x), generator=generator) < probability
    return torch.where(chosen.to(x.device)[:, None, None, None], x.flip(-1), x), y


def cutout(x: Tensor, y: Tensor, generator: torch.Generator, length: int = 16) -> tuple[Tensor, Tensor]:
    """A square of zeros in each image, its centre anywhere (DeVries and Taylor, 2017).

    Args:
        x: images, shape [batch, channels, height, width].
        y: targets.
        generator: draws the centres.
        length: the side of the square; what lies outside the image is cut off. 16 for 32x32 images in DARTS.
    """
    _check_images(x, "cutout")
    batch, _, height, width = x.shape
    rows = torch.randint(height, (batch, 1), generator=generator)
    columns = torch.randint(width, (batch, 1), generator=generator)
    low, high = length // 2, length - length // 2
    down, across = torch.arange(height), torch.arange(width)
    in_rows = (down >= rows - low) & (down < rows + high)  # [batch, height]
    in_columns = (across >= columns - low) & (across < columns + high)  # [batch, width]
    hole = in_rows[:, None, :, None] & in_columns[:, None, None, :]
    return x.masked_fill(hole.to(x.device), 0.0), y


def mixup(
    x: Tensor, y: Tensor, generator: torch.Generator, alpha: float = 0.2, classes: int | None = None
) -> tuple[Tensor, Tensor]:
    """Each sample mixed with another of the batch, and its target with the other's (Zhang and others, 2018).

    Args:
        x: inputs, shape [batch, ...].
        y: classes, shape [batch], which become shares of shape [batch, classes]; or numbers, which are mixed.
        generator: draws the partners and the shares.
        alpha: of the Beta distribution that shares are drawn from.
        classes: how many there are; as many as the batch shows if not given.
    """
    if alpha <= 0:
        raise ConfigError(f"mixup's alpha must be positive, but got {alpha}.")
    _check_numbers(x, "mixup")
    # Beta(a, a) as the ratio of two Gamma(a), which torch draws with a generator.
    gammas = torch._standard_gamma(torch.full((2, len(x)), float(alpha)), generator=generator).double()
    shares = (gammas[0] / gammas.sum(0).clamp_min(1e-300)).to(x.dtype).to(x.device)
    partner = torch.randperm(len(x), generator=generator).to(x.device)
    if not y.is_floating_point():
        y = functional.one_hot(y, classes or -1).to(x.dtype)
    return _mixed(x, partner, shares), _mixed(y, partner, shares)


def noise(x: Tensor, y: Tensor, generator: torch.Generator, deviation: float = 0.1) -> tuple[Tensor, Tensor]:
    """Gaussian noise on every input.

    Args:
        x: inputs, shape [batch, ...].
        y: targets.
        generator: draws it.
        deviation: its standard deviation.
    """
    _check_numbers(x, "noise")
    return x + deviation * torch.randn(x.shape, generator=generator).to(x.device, x.dtype), y


def _mixed(values: Tensor, partner: Tensor, shares: Tensor) -> Tensor:
    return torch.lerp(values[partner], values, shares.view(-1, *[1] * (values.ndim - 1)))


def _check_numbers(x: Tensor, name: str) -> None:
    if not x.is_floating_point():
        raise ConfigError(f"{name} is for inputs that are numbers, but these are tokens, {x.dtype}.")


def _check_images(x: Tensor, name: str) -> None:
    if x.ndim != 4:
        raise ConfigError(f"{name} is for images, [batch, channels, height, width], but got shape {list(x.shape)}.")
