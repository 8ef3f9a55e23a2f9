"""What a network of cells has while it is trained alone: an auxiliary head, drop-path, and images with holes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, avg_pool2d, cross_entropy

from ramet.errors import ConfigError
from ramet.spaces.base import Arch, NetworkAlone
from ramet.spaces.child import trace_child
from ramet.spaces.darts.cell import DartsCell
from ramet.spaces.darts.enas_micro import EnasCell, EnasMicro
from ramet.spaces.darts.space import Darts, darts_stages
from ramet.spaces.layers import check_counts, to_channels_last

AUXILIARY_WEIGHT = 0.4
"""What the auxiliary head's loss is multiplied by, in DARTS and ENAS."""


class FinalNetwork(NetworkAlone):
    """One architecture as a chain of cells that is trained alone. ``DartsNetwork`` and ``EnasNetwork`` are its forms.

    Args:
        stages: the stem, the cells and the head, as in ``TwoInputSupernet``.
        auxiliary_after: the stage whose newer output the auxiliary head reads; none for no such head.
        auxiliary_channels: channels of that output.
        drop_path: how probably an operation is left out for an image in training, 0.2 at the end of DARTS' schedule;
            ``set_drop_path`` changes it.
    """

    def __init__(
        self,
        stages: Sequence[nn.Module],
        arch: Arch,
        *,
        auxiliary_after: int | None,
        auxiliary_channels: int,
        num_classes: int,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.arch = arch
        self.stages = nn.ModuleList(stages)
        self.auxiliary_after = auxiliary_after
        self.auxiliary = None if auxiliary_after is None else _auxiliary_head(auxiliary_channels, num_classes)
        self.set_drop_path(drop_path)
        to_channels_last(self)

    def set_drop_path(self, probability: float) -> None:
        """Change the probability of drop-path, which DARTS raises linearly over the epochs."""
        check_drop_path(probability)
        for module in self.modules():
            if isinstance(module, DartsCell | EnasCell):
                module.drop_path = probability

    def forward(self, x: Tensor, arch: Arch | None = None) -> Tensor:
        """Logits, shape [batch, classes]; ``arch`` may be named, as for a supernet, and must then be this one."""
        if arch is not None and arch != self.arch:
            raise ConfigError(f"a network of its own has the architecture {self.arch}, but was asked for {arch}.")
        return self._run(x)[0]

    def loss(
        self,
        x: Tensor,
        y: Tensor,
        *,
        auxiliary_weight: float = AUXILIARY_WEIGHT,
        of_outputs: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
    ) -> Tensor:
        """The loss, in training with the auxiliary head's added at a weight."""
        logits, beside = self._run(x)
        loss = of_outputs(logits, y)
        return loss if beside is None else loss + auxiliary_weight * of_outputs(beside, y)

    def with_auxiliary(self, x: Tensor, arch: Arch | None = None) -> tuple[Tensor, Tensor]:
        """Logits, and those of the auxiliary head, in training; each of shape [batch, classes]."""
        if self.auxiliary is None or not self.training:
            raise ConfigError("a network gives auxiliary logits in training, if it has such a head, but has none now.")
        logits, beside = self._run(x)
        assert beside is not None and arch in (None, self.arch)
        return logits, beside

    def _run(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        value, beside = self.stages[0](x, self.arch), None
        for place, stage in enumerate(list(self.stages)[1:-1], start=1):
            value = stage(value, self.arch)
            if self.auxiliary is not None and self.training and place == self.auxiliary_after:
                beside = self.auxiliary(value[1])
        return self.stages[-1](value, self.arch), beside

    def plain(self) -> nn.Module:
        """The network without auxiliary head and drop-path, of ``torch.nn`` layers, which needs no ramet to run."""
        was_training = self.training
        try:
            return trace_child(self.eval().stages, self.arch)
        finally:
            self.train(was_training)


class EnasNetwork(FinalNetwork):
    """An architecture of ENAS' micro space as its own network; an auxiliary head reads the second reduction cell."""

    def __init__(
        self,
        space: EnasMicro,
        arch: Arch,
        in_channels: int,
        num_classes: int,
        *,
        auxiliary: bool = True,
        drop_path: float = 0.0,
    ) -> None:
        stages = list(space.supernet(in_channels, num_classes).stages)
        reductions = [place for place, stage in enumerate(stages) if isinstance(stage, EnasCell) and stage.reduction]
        super().__init__(
            stages,
            space.check(arch),
            auxiliary_after=reductions[-1] if auxiliary else None,
            auxiliary_channels=4 * space.channels,
            num_classes=num_classes,
            drop_path=drop_path,
        )
        self.space = space


class DartsNetwork(FinalNetwork):
    """One architecture of the DARTS space as a network of its own, with affine batch norms.

    It has the space's width and depth, 36 channels and 20 cells in DARTS. The auxiliary head, if there is one, sits at
    two thirds of the depth.

    >>> from ramet.costs import count_parameters
    >>> from ramet.spaces.darts.genotypes import DARTS_V2
    >>> space = Darts(channels=36, num_cells=20)
    >>> count_parameters(DartsNetwork(space, space.parse(DARTS_V2), 3, 10, auxiliary=False))
    3349342
    """

    def __init__(
        self,
        space: Darts,
        arch: Arch,
        in_channels: int,
        num_classes: int,
        *,
        auxiliary: bool = True,
        drop_path: float = 0.0,
    ) -> None:
        check_counts(in_channels=in_channels, num_classes=num_classes)
        width = 4 * space.channels if space.num_cells > 1 else 2 * space.channels
        super().__init__(
            darts_stages(space, in_channels, num_classes, only=space.check(arch), stem=self.stem(space, in_channels)),
            arch,
            auxiliary_after=1 + 2 * space.num_cells // 3 if auxiliary else None,
            auxiliary_channels=space.num_nodes * width,
            num_classes=num_classes,
            drop_path=drop_path,
        )
        self.space = space

    @staticmethod
    def stem(space: Darts, in_channels: int) -> nn.Module | None:
        """What comes before the cells; the space's own if none."""
        return None


def check_drop_path(probability: float) -> None:
    """Raise a ``ConfigError`` for what is no probability of drop-path."""
    if not 0 <= probability < 1:
        raise ConfigError(f"drop_path must lie in [0, 1), but got {probability}.")


class AuxiliaryPool(nn.Module):
    """Pools to 2x2: as DARTS does from the 8x8 of CIFAR and the 7x7 of ImageNet, from any other size by quarters.

    Its windows are 5 wide, at a distance of 3 or 2.
    """

    def forward(self, x: Tensor) -> Tensor:
        """From [batch, channels, height, width] to [batch, channels, 2, 2]."""
        if tuple(x.shape[2:]) == (8, 8):
            return avg_pool2d(x, 5, stride=3)
        if tuple(x.shape[2:]) == (7, 7):
            return avg_pool2d(x, 5, stride=2)
        return adaptive_avg_pool2d(x, 2)


def _auxiliary_head(channels: int, num_classes: int) -> nn.Sequential:
    check_counts(channels=channels, num_classes=num_classes)
    narrow = [nn.Conv2d(channels, 128, 1, bias=False), nn.BatchNorm2d(128), nn.ReLU()]
    whole = [nn.Conv2d(128, 768, 2, bias=False), nn.BatchNorm2d(768), nn.ReLU()]
    return nn.Sequential(nn.ReLU(), AuxiliaryPool(), *narrow, *whole, nn.Flatten(), nn.Linear(768, num_classes))
