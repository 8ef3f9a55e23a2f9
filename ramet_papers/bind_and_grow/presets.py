"""The settings of the reproductions of *Learn to bind and grow neural structures*."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ramet.continual import Skeleton, Stream, make_skeleton, make_stream
from ramet.seeding import derive_seed
from ramet.training import Settings
from ramet_papers.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class StreamSetting:
    """A stream and the network that learns it.

    Args:
        source: the name of the stream.
        network: the name of the skeleton.
        stream: options of ``make_stream``.
        method: options of every method on a layer graph.
        settings: of every training, where they are not the preset's.
    """

    source: str
    network: str
    stream: Mapping[str, Any] = field(default_factory=dict)
    method: Mapping[str, Any] = field(default_factory=dict)
    settings: Settings | None = None

    def make(self, workspace: Workspace, number: int) -> Stream:
        """The stream of a seed: each has its own classes, permutations and images."""
        seed = derive_seed(workspace.seed, "stream", number) % 2**31
        return make_stream(self.source, seed=seed, data_dir=workspace.data_dir, **self.stream)

    def skeleton(self, stream: Stream) -> Skeleton:
        """The layers of every task's network."""
        channels, height, width = stream.input_shape
        return make_skeleton(self.network, in_channels=channels, image_size=(height, width))


@dataclass(frozen=True, kw_only=True)
class BindingPreset:
    """The numbers of all figures.

    Args:
        name: ``small`` or ``paper``.
        split: tasks of different classes, the paper's main stream.
        guided: the settings of Figure 2 by name; the first answers its claim.
        searched: the streams on which grow sequences are searched; the first answers the claim.
        permuted: the same images with their pixels shuffled.
        strangers: tasks among which a twin must be found.
        settings: of every training.
        seeds: seeds that are reported.
        guided_seeds: seeds of Figure 2, where a point is a large difference.
        deltas: the grow coefficients of Figure 6.
        matched: the coefficients at which random growth is compared with guided growth.
        draws: random growths a seed and coefficient.
        trials: grow sequences that are searched.
        twins: twins a seed.
        methods: what is compared.
    """

    name: str
    split: StreamSetting
    guided: Mapping[str, StreamSetting]
    searched: Mapping[str, StreamSetting]
    permuted: StreamSetting
    strangers: StreamSetting
    settings: Settings
    seeds: int = 3
    guided_seeds: int = 3
    deltas: tuple[float, ...] = (0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0)
    matched: tuple[float, ...] = (0.3, 0.55)
    draws: int = 2
    trials: int = 40
    twins: int = 4
    methods: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All that the figures depend on."""
        return asdict(self)

    def setting(self, stream_setting: StreamSetting) -> str:
        """The setting in a sentence, for the notes of claims."""
        numbers = stream_setting.settings or self.settings
        return (
            f"{stream_setting.source} {dict(stream_setting.stream)}, network {stream_setting.network}, "
            f"SGD {numbers.learning_rate:g} with batches of {numbers.batch_size}, {numbers.epochs} epochs a task; "
            "each seed has its own tasks."
        )


METHODS = (
    "individual",
    "naive",
    "elastic",
    "packnet",
    "progressive",
    "random-growth",
    "bind-and-grow:delta=0.55",
    "bind-and-grow:delta=0.55,old_weights=frozen",
    "bind-and-grow:delta=0.55,old_weights=guarded",
    "bind-and-grow:delta=0.55,measure=cka,blame=added",
    "bind-and-grow:delta=0.55,measure=cka,blame=added,old_weights=frozen",
)

FROZEN = {"old_weights": "frozen"}

PAPER = BindingPreset(
    name="paper",
    split=StreamSetting(source="split-cifar100:10", network="conv"),
    guided={
        "old layers slow": StreamSetting(source="split-cifar100:10", network="conv"),
        "old layers frozen": StreamSetting(source="split-cifar100:10", network="conv", method=FROZEN),
        "superclasses, old layers slow": StreamSetting(source="split-cifar100:20:superclass", network="conv"),
    },
    searched={"split": StreamSetting(source="split-cifar100:10", network="conv")},
    permuted=StreamSetting(source="permuted-mnist:10", network="mlp:300,300,300", method={"heads": "shared"}),
    strangers=StreamSetting(source="split-cifar100:10", network="conv"),
    settings=Settings(
        epochs=5, batch_size=64, learning_rate=0.01, final_learning_rate=0.0, momentum=0.9, weight_decay=0.0
    ),
    deltas=tuple(round(0.05 * step, 2) for step in range(21)),
    methods=METHODS,
)

# Three convolutions and two linear layers, as in the paper, with a quarter of the pixels. Old layers move at a tenth of
# the learning rate: at 0.03 for 12 epochs of 25 mini-batches they may move two to three times as far in a task as in
# the paper (0.01, 5 epochs of 70). At 0.1 for 20 epochs it was 14 times as far, and tasks lost 12 points by whatever
# growth. The other networks have layers of nearly one size, so that random sets of equal size are many.
_CONV = StreamSetting(
    source="split-cifar100:10",
    network="conv:16,32,32,48,48",
    stream={"image_size": 16},
    settings=Settings(
        epochs=12, batch_size=32, learning_rate=0.03, final_learning_rate=0.0, momentum=0.9, weight_decay=0.0
    ),
)
_MLP = StreamSetting(source="split-cifar100:10", network="mlp:192,192,192", stream={"image_size": 8})
_FAMILIES = StreamSetting(
    source="families-mnist:3x3",
    network="mlp:64,64,64",
    stream={"image_size": 14, "train_size": 1000, "eval_size": 1000},
    method=FROZEN,
)
SMALL = BindingPreset(
    name="small",
    split=_MLP,
    guided={
        "old layers slow": _CONV,
        "old layers frozen": replace(_CONV, method=FROZEN),
        "MLP, old layers slow": _MLP,
        "MLP, old layers frozen": replace(_MLP, method=FROZEN),
        "relatives, old layers slow": StreamSetting(
            source="rotated-digits:8", network="mlp:64,64,64", stream={"train_size": 400}
        ),
        "families, old layers frozen": _FAMILIES,
    },
    # A search takes the best of forty on validation data. Of split CIFAR-100 there are 200 images a task, with which it
    # takes the luckiest; of permuted MNIST there are as many as it needs.
    searched={
        "permuted": StreamSetting(
            source="permuted-mnist:10",
            network="mlp:100,100,100",
            stream={"image_size": 14, "train_size": 1000, "eval_size": 2000},
            method={"heads": "shared"},
        ),
        "split": _MLP,
        "families": _FAMILIES,
    },
    permuted=StreamSetting(
        source="permuted-mnist:5",
        network="mlp:100,100,100",
        stream={"image_size": 14, "train_size": 1000, "eval_size": 500},
        method={"heads": "shared"},
    ),
    strangers=StreamSetting(source="split-digits:5", network="mlp:100,100"),
    settings=Settings(
        epochs=8, batch_size=32, learning_rate=0.05, final_learning_rate=0.0, momentum=0.9, weight_decay=0.0
    ),
    guided_seeds=8,
    twins=20,
    methods=METHODS,
)

PRESETS: dict[str, BindingPreset] = {"small": SMALL, "paper": PAPER}
