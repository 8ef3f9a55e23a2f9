"""The settings of the reproductions of *Firefly neural architecture descent*: the paper's own, and small ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ramet.training import Settings
from ramet_papers.firefly.cell_growth import CellSearch
from ramet_papers.firefly.rbf import RbfSettings

Options = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class WidthPreset:
    """A network that gets wider (Figures 4 and 6).

    Args:
        network: ``vgg`` or ``mobilenet`` of :mod:`ramet.growth.networks`.
        options: of the network besides its width.
        start: channels of every layer at first.
        full: the width of the full network, which is doubled with every halving of the image.
        depth: layers or blocks.
        data: the data set.
        data_options: of ``ramet.data.load``.
        settings: of the training before the first growth and after each.
        unit: what a step's share is counted in; with ``params`` all methods have the same sizes.
        step: the share that a growth adds.
        num_growths: of each method.
        methods: their options, by name.
        timed: further rows of the table of times: name, method and options.
        seeds: of everything.
        note: the setting in a line.
    """

    network: str
    options: Options
    start: int
    full: int
    depth: int
    data: str
    data_options: Options
    settings: Settings
    unit: str
    step: float
    num_growths: int
    methods: Mapping[str, Options]
    timed: Mapping[str, tuple[str, Options]]
    seeds: int
    note: str


@dataclass(frozen=True, kw_only=True)
class DepthPreset:
    """A network of blocks that gets deeper and wider (Table 3).

    Args:
        data: the data sets.
        data_options: of ``ramet.data.load``.
        width: channels of every layer at first.
        num_blocks: each begins with a convolution of stride 2.
        settings: of the training before the first growth and after each of Firefly's and NASH's.
        final: of the training anew, of what growth has found.
        step: the share of neurons that a growth adds (Firefly, NASH).
        num_growths: of Firefly and NASH. AutoGrow adds one layer at a time and has as many times more trainings as
            there are blocks, each as many times shorter.
        methods: their options, by name.
        seeds: of everything.
        note: the setting in a line.
    """

    data: tuple[str, ...]
    data_options: Options
    width: int
    num_blocks: int
    settings: Settings
    final: Settings
    step: float
    num_growths: int
    methods: Mapping[str, Options]
    seeds: int
    note: str


@dataclass(frozen=True, kw_only=True)
class CellPreset:
    """Cells found by growth (Table 1).

    Args:
        data: the data set.
        data_options: of ``ramet.data.load``; half of the training images validate, as in DARTS.
        search: the numbers of the growth.
        num_candidate_steps: mini-batches that candidates are trained for; an epoch if not given.
        settings: of the training before and after each growth. DARTS is searched for the same number of epochs in all.
        final: of the training of the found cells.
        num_cells: of the final network.
        final_params: the size that every final network is brought near to, by its channels.
        seeds: searches of each method, each followed by one training of what it found.
        note: the setting in a line.
    """

    data: str
    data_options: Options
    search: CellSearch
    num_candidate_steps: int | None
    settings: Settings
    final: Settings
    num_cells: int
    final_params: int
    seeds: int
    note: str


@dataclass(frozen=True, kw_only=True)
class ContinualPreset:
    """Tasks one after the other (Figure 5, Table 2).

    Args:
        ten: the stream of Figure 5a.
        ten_methods: what is compared there, by label.
        twenty: the streams of Table 2. The first answers claim F7; the paper's 20 tasks are random classes, CPG's own
            are the superclasses, so no figure of one is compared with one of the other.
        twenty_methods: what is compared there, by label.
        stream: options of ``make_stream``.
        network: the name of the skeleton.
        batch_norm: whether it has batch norms.
        settings: of every training.
        seeds: each with tasks of its own.
        note: the setting in a line.
    """

    ten: str
    ten_methods: Mapping[str, str]
    twenty: tuple[str, ...]
    twenty_methods: Mapping[str, str]
    stream: Options
    network: str
    batch_norm: bool
    settings: Settings
    seeds: int
    note: str


@dataclass(frozen=True, kw_only=True)
class FireflyPreset:
    """The numbers of all tables and figures.

    Args:
        name: ``small`` or ``paper``.
        toy: of Figure 3, the same in both presets.
        toy_candidates: new candidates in Figure 3a.
        toy_counts: the numbers of new candidates in Figure 3b.
        vgg: of Figure 4.
        mobilenet: of Figure 6.
        depth: of Table 3.
        cells: of Table 1.
        continual: of Figure 5 and Table 2.
    """

    name: str
    toy: RbfSettings
    toy_candidates: int = 5
    toy_counts: tuple[int, ...] = (0, 1, 2, 5, 10)
    vgg: WidthPreset
    mobilenet: WidthPreset
    depth: DepthPreset
    cells: CellPreset
    continual: ContinualPreset


FULL_EPOCH: Options = {"num_epochs": 1.0, "num_score_batches": 4}
"""How long the paper trains its candidates (B.2); the method's own default is shorter, for the sake of its cost."""

_LONG = Settings(epochs=160, batch_size=128, learning_rate=0.1, final_learning_rate=0.0, weight_decay=1e-4)
_PAPER_NASH = {"num_neighbours": 8, "epochs": 17}
_PAPER_METHODS: Mapping[str, Options] = {
    "firefly": {"num_new": 50, **FULL_EPOCH},
    "splitting": {"num_batches": 352},  # the whole training data, as Liu et al. (2019) have it
    "net2net": {"noise": 0.01},
    "random": {},
    "nash": _PAPER_NASH,
}

_OTHERS = {
    "elastic": "elastic",
    "den": "den",
    "rcl": "rcl",
    "learn-to-grow": "learn-to-grow",
    "cpg": "cpg",
}
"""What Figure 5a compares with."""

_PAPER_FIREFLY = "candidates=15,candidate_epochs=50,rounds=1,start_share=0.25"

PAPER = FireflyPreset(
    name="paper",
    toy=RbfSettings(max_neurons=10),  # section 3; B.1 goes on to 12
    vgg=WidthPreset(
        network="vgg",
        options={},
        start=16,
        full=64,
        depth=16,
        data="cifar10",
        data_options={"validation_fraction": 0.1},
        settings=_LONG,
        unit="neurons",
        step=0.3,
        num_growths=11,
        methods=_PAPER_METHODS,
        timed={"splitting, 4 batches": ("splitting", {"num_batches": 4})},
        seeds=3,
        note="CIFAR-10, 16 convolutions of 16 channels at first, 30 % more neurons in each of 11 growths, 160 epochs "
        "each.",
    ),
    mobilenet=WidthPreset(
        network="mobilenet",
        options={"residual": False},
        start=32,
        full=64,
        depth=13,
        data="cifar100",
        data_options={"validation_fraction": 0.1},
        settings=_LONG,
        unit="neurons",
        step=0.35,
        num_growths=8,
        methods=_PAPER_METHODS,
        timed={"splitting, 4 batches": ("splitting", {"num_batches": 4})},
        seeds=3,
        note="CIFAR-100, 13 depthwise-separable blocks of 32 channels at first, 35 % more neurons in each growth, "
        "160 epochs each.",
    ),
    depth=DepthPreset(
        data=("mnist", "fashion-mnist"),
        data_options={"validation_fraction": 0.1},
        width=16,
        num_blocks=4,
        settings=Settings(epochs=40, batch_size=128, learning_rate=0.1, final_learning_rate=0.0, weight_decay=1e-4),
        final=Settings(epochs=200, batch_size=128, learning_rate=0.1, final_learning_rate=0.0, weight_decay=1e-4),
        step=0.25,
        num_growths=11,
        methods={"firefly": {"num_new": 20, "layer_width": 20, **FULL_EPOCH}, "nash": _PAPER_NASH, "autogrow": {}},
        seeds=3,
        note="Four blocks of 16 channels, 25 % more neurons and up to a layer a block in each of 11 growths, 40 epochs "
        "each, then 200 anew.",
    ),
    cells=CellPreset(
        data="cifar10",
        data_options={"validation_fraction": 0.5},
        search=CellSearch(),
        num_candidate_steps=None,
        settings=Settings(epochs=5, batch_size=64, learning_rate=0.025, final_learning_rate=0.001, weight_decay=3e-4),
        final=Settings(epochs=600, batch_size=96, learning_rate=0.025, final_learning_rate=0.0, weight_decay=3e-4),
        num_cells=20,
        final_params=3_300_000,
        seeds=5,
        note="CIFAR-10, half of it to search; 5 cells, each grown twice by 25 %; 20 cells trained for 600 epochs.",
    ),
    continual=ContinualPreset(
        ten="split-cifar100:10",
        ten_methods=_OTHERS
        | {
            f"firefly, {neurons}": f"firefly:neurons={neurons},{_PAPER_FIREFLY}"
            for neurons in (32, 128, 196, 256, 320, 384, 448, 512)
        },
        twenty=("split-cifar100:20", "split-cifar100:20:superclass"),
        twenty_methods={"individual": "individual", "cpg": "cpg", "firefly": f"firefly:neurons=256,{_PAPER_FIREFLY}"},
        stream={"validation_fraction": 0.1},
        network="conv",
        batch_norm=True,
        settings=Settings(epochs=100, batch_size=128, learning_rate=0.01, final_learning_rate=0.0, weight_decay=1e-4),
        seeds=3,
        note="CIFAR-100; three convolutions and two linear layers instead of VGG-16, 100 epochs a task.",
    ),
)

_SHORT = Settings(epochs=6, batch_size=64, learning_rate=0.1, final_learning_rate=0.0, weight_decay=1e-4)
_SMALL_METHODS: Mapping[str, Options] = {
    "firefly": {"num_new": 16, **FULL_EPOCH},
    "splitting": {"num_batches": 47, "num_iterations": 6},  # the whole training data, as Liu et al. (2019) have it
    "net2net": {"noise": 0.01},
    "random": {},
    "nash": {"num_neighbours": 4, "epochs": 1},
}

_SMALL_FIREFLY = "candidates=15,rounds=1,start_share=0.5"

SMALL = FireflyPreset(
    name="small",
    toy=RbfSettings(max_neurons=10),  # section 3; B.1 goes on to 12
    vgg=WidthPreset(
        network="vgg",
        options={},
        start=4,
        full=12,
        depth=6,
        data="cifar10",
        data_options={"image_size": 16, "train_size": 3000},
        settings=_SHORT,
        unit="params",
        step=0.5,
        num_growths=5,
        methods=_SMALL_METHODS,
        timed={"splitting, 4 batches": ("splitting", {"num_batches": 4, "num_iterations": 6})},
        seeds=3,
        note="CIFAR-10 at 16x16, 3,000 training images, 6 convolutions of 4 channels at first, 50 % more parameters in "
        "each of 5 growths, 6 epochs each.",
    ),
    mobilenet=WidthPreset(
        network="mobilenet",
        options={"residual": False},
        start=6,
        full=16,
        depth=4,
        data="cifar10",
        data_options={"image_size": 16, "train_size": 3000},
        settings=_SHORT,
        unit="params",
        step=0.5,
        num_growths=4,
        methods={name: options for name, options in _SMALL_METHODS.items() if name != "nash"},
        timed={"splitting, 4 batches": ("splitting", {"num_batches": 4, "num_iterations": 6})},
        seeds=3,
        note="CIFAR-10 at 16x16, 3,000 training images, 4 depthwise-separable blocks of 6 channels at first, 50 % more "
        "parameters in each of 4 growths, 6 epochs each.",
    ),
    depth=DepthPreset(
        data=("mnist", "fashion-mnist"),
        data_options={"image_size": 14, "train_size": 3000, "eval_size": 10000},
        width=8,
        num_blocks=3,
        settings=Settings(epochs=6, batch_size=64, learning_rate=0.1, final_learning_rate=0.0, weight_decay=1e-4),
        final=Settings(epochs=12, batch_size=64, learning_rate=0.1, final_learning_rate=0.0, weight_decay=1e-4),
        step=0.25,
        num_growths=3,
        methods={
            "firefly": {"num_new": 8, "layer_width": 8, **FULL_EPOCH},
            "nash": {"num_neighbours": 3, "epochs": 1},
            "autogrow": {},
        },
        seeds=3,
        note="14x14 images, 3,000 to train, three blocks of 8 channels, 25 % more neurons and up to a layer a block in "
        "each of 3 growths, 6 epochs each, then 12 anew.",
    ),
    cells=CellPreset(
        data="fashion-mnist",
        data_options={"image_size": 14, "train_size": 2000, "eval_size": 10000},
        search=CellSearch(
            widths=(2, 4, 4), channels=(4, 8, 8), reductions=(1,), num_nodes=2, rounds=1, num_new=(2, 4, 4), share=0.25
        ),
        num_candidate_steps=None,
        settings=Settings(epochs=2, batch_size=64, learning_rate=0.1, final_learning_rate=0.01, weight_decay=3e-4),
        final=Settings(epochs=12, batch_size=64, learning_rate=0.1, final_learning_rate=0.0, weight_decay=3e-4),
        num_cells=3,
        final_params=6000,
        seeds=3,
        note="Fashion-MNIST at 14x14, 2,000 images to train, 3 cells of 2 nodes, each grown once by 25 %, then trained "
        "anew for 12 epochs.",
    ),
    continual=ContinualPreset(
        ten="split-cifar100:10",
        ten_methods=_OTHERS
        | {f"firefly, {neurons}": f"firefly:neurons={neurons},{_SMALL_FIREFLY}" for neurons in (3, 6, 12, 24)},
        twenty=("split-cifar100:20",),
        twenty_methods={
            "individual": "individual",
            "cpg": "cpg",
            "firefly": f"firefly:neurons=12,{_SMALL_FIREFLY}",
            "firefly, 4 neurons": f"firefly:neurons=4,{_SMALL_FIREFLY}",
        },
        stream={"image_size": 16},
        network="conv:16,32,32,48,48",
        batch_norm=False,
        settings=Settings(
            epochs=12, batch_size=32, learning_rate=0.03, final_learning_rate=0.0, momentum=0.9, weight_decay=0.0
        ),
        seeds=3,
        # The numbers of neurons are the paper's shares of VGG-16's, of which there are 4,224.
        note="CIFAR-100 at 16x16, 80 training images a class, three convolutions and two linear layers of 16 to 48, "
        "12 epochs a training, one growth a task; each seed has its own tasks.",
    ),
)

PRESETS: dict[str, FireflyPreset] = {"small": SMALL, "paper": PAPER}
