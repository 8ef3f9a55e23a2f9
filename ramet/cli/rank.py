"""`ramet rank`: how far a supernet's ranking can be trusted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ramet.cli.options import WHOLE, Common, anchored, given, print_json


def rank(
    *,
    space: str = "cells64",
    channels: Annotated[int | None, WHOLE] = None,
    cells: Annotated[int | None, WHOLE] = None,
    bn_momentum: float | None = None,
    data: str = "digits",
    data_dir: Path | None = None,
    image_size: Annotated[int | None, WHOLE] = None,
    train_size: Annotated[int | None, WHOLE] = None,
    eval_size: Annotated[int | None, WHOLE] = None,
    validation_fraction: float = 0.2,
    instances: Annotated[int, WHOLE] = 3,
    epochs: Annotated[int, WHOLE] = 10,
    supernet_epochs: Annotated[int | None, WHOLE] = None,
    batch_size: Annotated[int, WHOLE] = 64,
    learning_rate: float = 0.05,
    final_learning_rate: float = 0.001,
    momentum: float = 0.9,
    weight_decay: float = 0.001,
    sharing: str = "full",
    guard: str = "none",
    order: Literal["cyclic", "shuffled", "uniform"] = "shuffled",
    varied: Literal["weights", "order", "both"] = "both",
    children: Annotated[int | None, WHOLE] = None,
    last_epochs: Annotated[int, WHOLE] = 5,
    last_steps: Annotated[int, WHOLE] = 32,
    truth: str = "train",
    truth_seeds: Annotated[int, WHOLE] = 2,
    truth_cache: Path | None = None,
    fine_tune_steps: Annotated[int, WHOLE] = 16,
    fine_tune_learning_rate: float | None = None,
    also: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    checkpoint_every: float = 30.0,
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Say how far a supernet's ranking of its children can be trusted, and what would make it better.

    Trains a supernet several times and each child alone, compares the rankings with each other, with the truth and
    with the trivial ones (parameters, multiply-adds), and ends with a recommendation. Writes a run directory with
    report.html.

    The defaults suit a laptop; the paper's own setting is `ramet reproduce deeper-insights/table-1 --preset paper`.

    Examples: `ramet rank` on the embedded digits; `ramet rank --data my.npz --instances 5 --workers 8`;
    `ramet rank --space mine.py:network --sharing groups:4:interference`.

    Args:
        space: cells64, nasbench201, or FILE.py:function for your own (a function of in_channels and num_classes
            that gives a module with Choice inside).
        channels: the width of a cell; by default 8.
        cells: the number of cells (in nasbench201, in each stage); by default 2.
        bn_momentum: the momentum of batch norm; by default the space's own.
        data: digits, mnist, fashion-mnist, cifar10, ... (`ramet data list`), an .npz file, or a folder of class
            folders.
        data_dir: where named data sets are; by default the environment variable RAMET_DATA.
        image_size: average-pool the images to this height and width.
        train_size: use only that many training images.
        eval_size: use only that many validation and test images.
        validation_fraction: the share of the training images that scores are taken on.
        instances: how many supernets are trained.
        epochs: passes over the training images, for supernets and for children alone.
        supernet_epochs: passes of a supernet, when it should train longer or shorter than a child alone.
        batch_size: images in a mini-batch.
        learning_rate: the first learning rate of the cosine schedule.
        final_learning_rate: its last learning rate.
        momentum: SGD's momentum.
        weight_decay: SGD's weight decay.
        sharing: full, groups:M:similar, groups:M:random, groups:M:interference, or prefix:K.
        guard: none, plasticity, projection or elastic, with a strength after a colon if wanted, or several joined by +:
            what keeps a child's updates from disturbing the others.
        order: which child a mini-batch trains: a fixed cycle, reshuffled each round, or drawn uniformly.
        varied: what differs among instances: the initial weights, the order of children, or both.
        children: score only that many children, drawn by the seed; needed for large spaces.
        last_epochs: score all children after each of that many last epochs.
        last_steps: score all children after each of that many last mini-batches.
        truth: train (each child alone), table:FILE.csv[:COLUMN], table:FILE.npz:COLUMN, or none.
        truth_seeds: how many seeds of each child the truth is the mean of.
        truth_cache: where trained truths are kept, so that none is trained twice; by default in the user's cache.
        fine_tune_steps: fine-tune each child for that many mini-batches from the first supernet; 0 for none.
        fine_tune_learning_rate: its learning rate; by default the final one.
        also: repeat with one thing changed, for example `--also momentum=0 --also bn-momentum=0.1`.
        checkpoint_every: seconds after which a training saves itself; how much of it a kill may cost.
        common: the options of every command.
    """
    from ramet.data import SOURCES
    from ramet.ranking.job import RankJob
    from ramet.ranking.job import rank as run_rank
    from ramet.ranking.plan import Plan
    from ramet.spaces import SPACES, size_options
    from ramet.training import Settings

    job = RankJob(
        space=anchored(space, SPACES),
        space_options=size_options(space, channels=channels, cells=cells) | given(bn_momentum=bn_momentum),
        data=anchored(data, SOURCES),
        data_options=given(
            data_dir=None if data_dir is None else str(data_dir.absolute()),
            seed=common.seed,
            image_size=image_size,
            train_size=train_size,
            eval_size=eval_size,
            validation_fraction=validation_fraction,
        ),
        settings=Settings(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            final_learning_rate=final_learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
        ),
        plan=Plan(
            instances=instances,
            order=order,
            varied=varied,
            sharing=sharing,
            guard=guard,
            supernet_epochs=supernet_epochs,
            children=children,
            last_epochs=last_epochs,
            last_steps=last_steps,
            truth=f"table:{anchored(truth.removeprefix('table:'))}" if truth.startswith("table:") else truth,
            truth_seeds=truth_seeds,
            fine_tune_steps=fine_tune_steps,
            fine_tune_learning_rate=fine_tune_learning_rate,
            also=also,
            seed=common.seed,
        ),
        truth_cache=str((truth_cache or default_cache() / "truth").absolute()),
        device=common.device,
    )
    result, out = common.start("rank", run_rank, job, checkpoint_every)
    show_rank(result, out, common.json)


def show_rank(result: dict[str, Any], out: Path, as_json: bool) -> None:
    """The result on standard output: a table and the recommendation, or JSON."""
    if as_json:
        print_json(result)
        return
    from ramet.reports.rank import rank_table

    rank_table(result).print()
    print()
    for line in result["recommendation"]:
        print(f"- {line}")
    print(f"\nReport: {out / 'report.html'}")


def default_cache() -> Path:
    """The folder for what is kept across runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ramet"
