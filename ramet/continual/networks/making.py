"""The skeleton of tasks' networks from words, from a file, or from a function."""

from __future__ import annotations

from collections.abc import Callable

from ramet.continual.networks import SKELETONS
from ramet.continual.networks.skeletons import Skeleton
from ramet.errors import ConfigError

SkeletonSource = str | Skeleton | Callable[..., Skeleton]
"""What names a skeleton: a text, a skeleton, or a function that makes one."""


def make_skeleton(
    network: SkeletonSource = "mlp",
    *,
    in_channels: int,
    image_size: tuple[int, int],
    batch_norm: bool = False,
    head: str = "own",
    trusted: bool = True,
) -> Skeleton:
    """A skeleton by name.

    ``mlp`` has two hidden layers of 100, ``mlp:300,300,300`` those widths. ``conv`` is the network of the paper for
    CIFAR: convolutions of 64 (4 x 4), 128 (3 x 3) and 256 (2 x 2) channels, each max-pooled, and two linear layers
    of 2048; ``conv:8,16,32,64,64`` the same with other widths. ``FILE.py:function`` is one's own.

    Args:
        network: The name, or a function that takes any of ``in_channels``, ``image_size``, ``batch_norm`` and
            ``shared_head`` and gives a skeleton; or a skeleton.
        in_channels: The channels of an image.
        image_size: Its height and width.
        batch_norm: Whether each layer has batch norm.
        head: ``own``, one for each task, or ``shared``.
        trusted: Whether code that the text names may run.

    Raises:
        ConfigError: The name has another form.
    """
    if head not in ("own", "shared"):
        raise ConfigError(f"head must be own or shared, but got {head!r}.")
    return SKELETONS.make(
        network,
        trusted=trusted,
        in_channels=in_channels,
        image_size=image_size,
        batch_norm=batch_norm,
        shared_head=head == "shared",
    )
