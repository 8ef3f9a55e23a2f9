"""The settings of the reproductions of *Firefly neural architecture descent*: the paper's own, and small ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ramet.training import Settings
from ramet_papers.experiment import Preset, sgd
from ramet_papers.firefly.cell_growth import CellSearch
from ramet_papers.firefly.choice import PAPERS_CHOICE
from ramet_papers.firefly.rbf import RbfSettings

Options = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class WidthPreset(Preset):
    """A network that gets wider (Figures 4 and 6)."""

    network: str  # ``vgg`` or ``mobilenet`` of ``ramet.growth.networks``
    options: Options  # of the network besides its width
    start: int  # channels of every layer at first
    full: int  # the width of the full network, which is doubled with every halving of the image
    depth: int  # layers or blocks
    data: str  # the data set
    data_options: Options  # of ``ramet.data.load``
    settings: Settings  # of the training before the first growth and after each
    unit: str  # what a step's share is counted in; with ``params`` all methods have the same sizes
    step: float  # the share that a growth adds
    num_growths: int  # of each method
    methods: Mapping[str, Options]  # their options, by name
    timed: Mapping[str, tuple[str, Options]]  # further rows of the table of times: name, method and options


@dataclass(frozen=True, kw_only=True)
class DepthPreset(Preset):
    """A network of blocks that gets deeper and wider (Table 3)."""

    data: tuple[str, ...]  # the data sets
    data_options: Options  # of ``ramet.data.load``
    width: int  # channels of every layer at first
    num_blocks: int  # each begins with a convolution of stride 2
    settings: Settings  # of the training before the first growth and after each of Firefly's and NASH's
    final: Settings  # of the training anew, of what growth has found
    step: float  # the share of neurons that a growth adds (Firefly, NASH)
    # Of Firefly and NASH. AutoGrow adds one layer at a time and has as many times more trainings as there are blocks,
    # each as many times shorter.
    num_growths: int
    methods: Mapping[str, Options]  # their options, by name


@dataclass(frozen=True, kw_only=True)
class CellPreset(Preset):
    """Cells found by growth (Table 1)."""

    data: str  # the data set
    data_options: Options  # of ``ramet.data.load``; half of the training images validate, as in DARTS
    search: CellSearch  # the numbers of the growth
    candidate_epochs: int  # passes over the training data that candidates are trained for; 5 in B.3
    # Of the training before and after each growth. DARTS is searched for the same number of epochs in all.
    settings: Settings
    final: Settings  # of the training of the found cells
    num_cells: int  # of the final network
    final_params: int  # the size that every final network is brought near to, by its channels


@dataclass(frozen=True, kw_only=True)
class ContinualPreset(Preset):
    """Tasks one after the other (Figure 5, Table 2)."""

    ten: str  # the stream of Figure 5a
    ten_methods: Mapping[str, str]  # what is compared there, by label
    # The streams of Table 2. The first answers claim F7; the paper's 20 tasks are random classes, CPG's own are the
    # superclasses, so no figure of one is compared with one of the other.
    twenty: tuple[str, ...]
    twenty_methods: Mapping[str, str]  # what is compared there, by label
    stream: Options  # options of ``make_stream``
    network: str  # the name of the skeleton
    batch_norm: bool  # whether it has batch norms
    settings: Settings  # of every training


@dataclass(frozen=True, kw_only=True)
class FireflyPreset(Preset):
    """The numbers of all tables and figures."""

    toy: RbfSettings  # of Figure 3, the same in both presets
    toy_candidates: int = 5  # new candidates in Figure 3a
    toy_counts: tuple[int, ...] = (0, 1, 2, 5, 10)  # the numbers of new candidates in Figure 3b
    vgg: WidthPreset  # of Figure 4
    mobilenet: WidthPreset  # of Figure 6
    depth: DepthPreset  # of Table 3
    cells: CellPreset  # of Table 1
    continual: ContinualPreset  # of Figure 5 and Table 2


FULL_EPOCH: Options = {"num_epochs": 1.0, "num_score_batches": 4, **PAPERS_CHOICE}
"""How long the paper trains its candidates (B.2); the method's own default is shorter, for the sake of its cost."""

TIMED: Mapping[str, tuple[str, Options]] = {"splitting, 4 batches": ("splitting", {"num_batches": 4})}
STREAM = "split-cifar100:10"
OTHERS = {name: name for name in ("elastic", "den", "rcl", "learn-to-grow", "cpg")}
"""What Figure 5a compares with."""


def _continual(firefly: str, tried: tuple[int, ...], compared: Mapping[str, int]) -> dict[str, Any]:
    """What Figure 5a and Table 2 compare: Firefly with some options and so many new neurons a task, and others."""

    def options(neurons: int) -> str:
        return f"firefly:neurons={neurons},{firefly}"

    return {
        "ten_methods": OTHERS | {f"firefly, {neurons}": options(neurons) for neurons in tried},
        "twenty_methods": {"individual": "individual", "cpg": "cpg"}
        | {label: options(neurons) for label, neurons in compared.items()},
    }


# The numbers are grouped by their subject: the network, its data and training, its growth.
# fmt: off
_PAPER_NASH = {"num_neighbours": 8, "epochs": 17}
_PAPER_METHODS: Mapping[str, Options] = {
    "firefly": {"num_new": 50, **FULL_EPOCH},
    "splitting": {"num_batches": 352},  # the whole training data, as Liu et al. (2019) have it
    "net2net": {"noise": 0.01}, "random": {}, "nash": _PAPER_NASH,
}
_PAPER_VGG = WidthPreset(
    network="vgg", options={}, start=16, full=64, depth=16,
    data="cifar10", data_options={"validation_fraction": 0.1}, settings=sgd(160, 128, 0.1, 1e-4),
    unit="neurons", step=0.3, num_growths=11, methods=_PAPER_METHODS, timed=TIMED,
    note="CIFAR-10, 16 convolutions of 16 channels at first, 30 % more neurons in each of 11 growths, 160 epochs each.",
)
PAPER = FireflyPreset(
    name="paper",
    toy=RbfSettings(max_neurons=10),  # section 3; B.1 goes on to 12
    vgg=_PAPER_VGG,
    mobilenet=replace(
        _PAPER_VGG, network="mobilenet", options={"residual": False}, start=32, depth=13,
        data="cifar100", step=0.35, num_growths=8,
        note="CIFAR-100, 13 depthwise-separable blocks of 32 channels at first, 35 % more neurons in each growth, "
        "160 epochs each.",
    ),
    depth=DepthPreset(
        data=("mnist", "fashion-mnist"), data_options={"validation_fraction": 0.1}, width=16, num_blocks=4,
        settings=sgd(40, 128, 0.1, 1e-4), final=sgd(200, 128, 0.1, 1e-4), step=0.25, num_growths=11,
        methods={"firefly": {"num_new": 20, "layer_width": 20, **FULL_EPOCH}, "nash": _PAPER_NASH, "autogrow": {}},
        note="Four blocks of 16 channels, 25 % more neurons and up to a layer a block in each of 11 growths, 40 epochs "
        "each, then 200 anew.",
    ),
    cells=CellPreset(
        data="cifar10", data_options={"validation_fraction": 0.5}, search=CellSearch(), candidate_epochs=5,
        settings=sgd(5, 64, 0.025, 3e-4, final=0.001), final=sgd(600, 96, 0.025, 3e-4),
        num_cells=20, final_params=3_300_000, seeds=5,
        note="CIFAR-10, half of it to search; 5 cells, each grown twice by 25 %; 20 cells trained for 600 epochs.",
    ),
    continual=ContinualPreset(
        ten=STREAM, twenty=("split-cifar100:20", "split-cifar100:20:superclass"), stream={"validation_fraction": 0.1},
        **_continual(
            "candidates=15,candidate_epochs=50,rounds=1,start_share=0.25",
            (32, 128, 196, 256, 320, 384, 448, 512), {"firefly": 256},
        ),
        network="conv", batch_norm=True, settings=sgd(100, 128, 0.01, 1e-4),
        note="CIFAR-100; three convolutions and two linear layers instead of VGG-16, 100 epochs a task.",
    ),
)

_SMALL_METHODS: Mapping[str, Options] = {
    "firefly": {"num_new": 16, **FULL_EPOCH},
    "splitting": {"num_batches": 47, "num_iterations": 6},  # the whole training data, as Liu et al. (2019) have it
    "net2net": {"noise": 0.01}, "random": {}, "nash": {"num_neighbours": 4, "epochs": 1},
}
_SMALL_VGG = WidthPreset(
    network="vgg", options={}, start=4, full=12, depth=6,
    data="cifar10", data_options={"image_size": 16, "train_size": 3000}, settings=sgd(6, 64, 0.1, 1e-4),
    unit="params", step=0.5, num_growths=5, methods=_SMALL_METHODS,
    timed={"splitting, 4 batches": ("splitting", {"num_batches": 4, "num_iterations": 6})},
    note="CIFAR-10 at 16x16, 3,000 training images, 6 convolutions of 4 channels at first, 50 % more parameters in "
    "each of 5 growths, 6 epochs each.",
)
SMALL = FireflyPreset(
    name="small",
    toy=RbfSettings(max_neurons=10),  # section 3; B.1 goes on to 12
    vgg=_SMALL_VGG,
    mobilenet=replace(
        _SMALL_VGG, network="mobilenet", options={"residual": False}, start=6, full=16, depth=4, num_growths=4,
        methods={name: options for name, options in _SMALL_METHODS.items() if name != "nash"},
        note="CIFAR-10 at 16x16, 3,000 training images, 4 depthwise-separable blocks of 6 channels at first, 50 % more "
        "parameters in each of 4 growths, 6 epochs each.",
    ),
    depth=DepthPreset(
        data=("mnist", "fashion-mnist"), data_options={"image_size": 14, "train_size": 3000, "eval_size": 10000},
        width=8, num_blocks=3, settings=sgd(6, 64, 0.1, 1e-4), final=sgd(12, 64, 0.1, 1e-4), step=0.25, num_growths=3,
        methods={
            "firefly": {"num_new": 8, "layer_width": 8, **FULL_EPOCH},
            "nash": {"num_neighbours": 3, "epochs": 1},
            "autogrow": {},
        },
        note="14x14 images, 3,000 to train, three blocks of 8 channels, 25 % more neurons and up to a layer a block in "
        "each of 3 growths, 6 epochs each, then 12 anew.",
    ),
    cells=CellPreset(
        data="fashion-mnist", data_options={"image_size": 14, "train_size": 2000, "eval_size": 10000},
        search=CellSearch(
            widths=(2, 4, 4), channels=(4, 8, 8), reductions=(1,), num_nodes=2, rounds=1, num_new=(2, 4, 4), share=0.25
        ),
        candidate_epochs=1, settings=sgd(2, 64, 0.1, 3e-4, final=0.01), final=sgd(12, 64, 0.1, 3e-4),
        num_cells=3, final_params=6000,
        note="Fashion-MNIST at 14x14, 2,000 images to train, 3 cells of 2 nodes, each grown once by 25 %, then trained "
        "anew for 12 epochs.",
    ),
    continual=ContinualPreset(
        # The numbers of neurons are the paper's shares of VGG-16's, of which there are 4,224.
        ten=STREAM, twenty=("split-cifar100:20",), stream={"image_size": 16},
        **_continual(
            "candidates=15,rounds=1,start_share=0.5", (3, 6, 12, 24),
            {f"firefly, {neurons} neurons": neurons for neurons in (2, 4, 6, 8, 12)},  # down to CPG's size
        ),
        network="conv:16,32,32,48,48", batch_norm=False, settings=sgd(12, 32, 0.03, 0.0), seeds=8,
        note="CIFAR-100 at 16x16, 80 training images a class, three convolutions and two linear layers of 16 to 48, "
        "12 epochs a training, one growth a task; each seed has its own tasks.",
    ),
)
# fmt: on

PRESETS: dict[str, FireflyPreset] = {"small": SMALL, "paper": PAPER}
