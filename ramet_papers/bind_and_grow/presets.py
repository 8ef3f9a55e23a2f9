"""The settings of the reproductions of *Learn to bind and grow neural structures*."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ramet.continual import Skeleton, Stream, make_skeleton, make_stream
from ramet.seeding import derive_seed
from ramet.training import Settings
from ramet_papers.experiment import Preset, sgd
from ramet_papers.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class StreamSetting:
    """A stream and the network that learns it."""

    source: str  # the name of the stream
    network: str  # the name of the skeleton
    stream: Mapping[str, Any] = field(default_factory=dict)  # options of ``make_stream``
    method: Mapping[str, Any] = field(default_factory=dict)  # options of every method on a layer graph
    settings: Settings | None = None  # of every training, where they are not the preset's

    def make(self, workspace: Workspace, number: int) -> Stream:
        """The stream of a seed: each has its own classes, permutations and images."""
        seed = derive_seed(workspace.seed, "stream", number) % 2**31
        return make_stream(self.source, seed=seed, data_dir=workspace.data_dir, **self.stream)

    def skeleton(self, stream: Stream) -> Skeleton:
        """The layers of every task's network."""
        channels, height, width = stream.input_shape
        return make_skeleton(self.network, in_channels=channels, image_size=(height, width))


@dataclass(frozen=True, kw_only=True)
class BindingPreset(Preset):
    """The numbers of all figures."""

    split: StreamSetting  # tasks of different classes, on which methods are compared
    traded: StreamSetting  # Figure 6, where size is traded for gain; the paper's main stream
    guided: Mapping[str, StreamSetting]  # the settings of Figure 2 by name; the first answers its claim
    # The streams on which grow sequences are searched; the first answers the claim.
    searched: Mapping[str, StreamSetting]
    permuted: StreamSetting  # the same images with their pixels shuffled
    strangers: StreamSetting  # tasks among which a twin must be found
    settings: Settings  # of every training
    guided_seeds: int = 3  # seeds of Figure 2, where a point is a large difference
    traded_seeds: int = 3  # seeds of Figure 6, likewise
    deltas: tuple[float, ...] = (0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0)  # the grow coefficients of Figure 6
    matched: tuple[float, ...] = (0.3, 0.55)  # the coefficients at which random growth is compared with guided growth
    draws: int = 2  # random growths a seed and coefficient
    trials: int = 40  # grow sequences that are searched
    twins: int = 4  # twins a seed
    methods: tuple[str, ...] = ()  # what is compared

    def setting(self, stream_setting: StreamSetting) -> str:
        """The setting in a sentence, for the notes of claims."""
        numbers = stream_setting.settings or self.settings
        return (
            f"{stream_setting.source} {dict(stream_setting.stream)}, network {stream_setting.network}, "
            f"SGD {numbers.learning_rate:g} with batches of {numbers.batch_size}, {numbers.epochs} epochs a task; "
            "each seed has its own tasks."
        )


METHODS = (
    *("individual", "naive", "elastic", "packnet", "progressive", "random-growth"),
    *(
        f"bind-and-grow:delta=0.55{options}"
        for options in (
            "",
            ",old_weights=frozen",
            ",old_weights=guarded",
            ",measure=cka,blame=added",
            ",measure=cka,blame=added,old_weights=frozen",
        )
    ),
)

FROZEN, ONE_HEAD = {"old_weights": "frozen"}, {"heads": "shared"}

_SPLIT = StreamSetting(source="split-cifar100:10", network="conv")
PAPER = BindingPreset(
    name="paper",
    split=_SPLIT,
    traded=_SPLIT,
    guided={
        "old layers slow": _SPLIT,
        "old layers frozen": replace(_SPLIT, method=FROZEN),
        "superclasses, old layers slow": StreamSetting(source="split-cifar100:20:superclass", network="conv"),
    },
    searched={"split": _SPLIT},
    permuted=StreamSetting(source="permuted-mnist:10", network="mlp:300,300,300", method=ONE_HEAD),
    strangers=_SPLIT,
    settings=sgd(5, 64, 0.01, 0.0),
    deltas=tuple(round(0.05 * step, 2) for step in range(21)),
    methods=METHODS,
)

# Three convolutions and two linear layers, as in the paper, with a quarter of the pixels. Old layers move at a tenth of
# the learning rate: at 0.03 for 12 epochs of 25 mini-batches they may move two to three times as far in a task as in
# the paper (0.01, 5 epochs of 70). At 0.1 for 20 epochs it was 14 times as far, and tasks lost 12 points by whatever
# growth. The other networks have layers of nearly one size, so that random sets of equal size are many.
_CONV = replace(_SPLIT, network="conv:16,32,32,48,48", stream={"image_size": 16}, settings=sgd(12, 32, 0.03, 0.0))
_MLP = replace(_SPLIT, network="mlp:192,192,192", stream={"image_size": 8})
_RELATIVES = StreamSetting(source="rotated-digits:8", network="mlp:64,64,64", stream={"train_size": 400})
_MNIST = {"image_size": 14, "train_size": 1000}
_FAMILIES = StreamSetting(
    source="families-mnist:3x3", network="mlp:64,64,64", stream={**_MNIST, "eval_size": 1000}, method=FROZEN
)
_PERMUTED = StreamSetting(
    source="permuted-mnist:10", network="mlp:100,100,100", stream={**_MNIST, "eval_size": 2000}, method=ONE_HEAD
)
SMALL = BindingPreset(
    name="small",
    split=_MLP,
    traded=_CONV,  # with convolutions, as in the paper
    guided={
        "old layers slow": _CONV,
        "old layers frozen": replace(_CONV, method=FROZEN),
        "MLP, old layers slow": _MLP,
        "MLP, old layers frozen": replace(_MLP, method=FROZEN),
        "relatives, old layers slow": _RELATIVES,
        "families, old layers frozen": _FAMILIES,
    },
    # A search takes the best of forty on validation data. Of split CIFAR-100 there are 200 images a task, with which it
    # takes the luckiest; of permuted MNIST there are as many as it needs.
    searched={"permuted": _PERMUTED, "split": _MLP, "families": _FAMILIES},
    permuted=replace(_PERMUTED, source="permuted-mnist:5", stream={**_MNIST, "eval_size": 500}),
    strangers=StreamSetting(source="split-digits:5", network="mlp:100,100"),
    settings=sgd(8, 32, 0.05, 0.0),
    guided_seeds=8,
    traded_seeds=8,
    twins=20,
    methods=METHODS,
)

PRESETS: dict[str, BindingPreset] = {"small": SMALL, "paper": PAPER}
