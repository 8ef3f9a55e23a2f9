"""`ramet search`: find an architecture on shared weights that stay true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ramet.cli.options import WHOLE, Common, anchored, given, print_json


def search(
    *,
    space: str = "cells64",
    channels: Annotated[int | None, WHOLE] = None,
    cells: Annotated[int | None, WHOLE] = None,
    nodes: Annotated[int | None, WHOLE] = None,
    data: str = "digits",
    data_dir: Path | None = None,
    image_size: Annotated[int | None, WHOLE] = None,
    train_size: Annotated[int | None, WHOLE] = None,
    eval_size: Annotated[int | None, WHOLE] = None,
    validation_fraction: float = 0.4,
    window: Annotated[int, WHOLE] = 35,
    vocabulary: Annotated[int | None, WHOLE] = None,
    strategy: Literal["enas", "nao", "evolution", "random", "darts"] = "enas",
    strategy_option: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    guard: str = "none",
    sharing: str = "full",
    budget: str | None = None,
    epochs: Annotated[int, WHOLE] = 10,
    warmup_epochs: Annotated[int, WHOLE] = 2,
    models_per_epoch: Annotated[int, WHOLE] = 20,
    batches_per_model: Annotated[int, WHOLE] = 7,
    strategy_steps: Annotated[int, WHOLE] = 10,
    archs_per_step: Annotated[int, WHOLE] = 10,
    reward_samples: Annotated[int, WHOLE] = 64,
    error_samples: Annotated[int, WHOLE] = 256,
    batch_norm: Literal["batch", "running", "reestimated"] = "batch",
    batch_size: Annotated[int, WHOLE] = 64,
    learning_rate: float = 0.05,
    final_learning_rate: float = 0.001,
    momentum: float = 0.9,
    weight_decay: float = 0.0003,
    clip_norm: float | None = 5.0,
    candidates: Annotated[int, WHOLE] = 20,
    final: Annotated[int, WHOLE] = 1,
    final_seeds: Annotated[int, WHOLE] = 1,
    final_epochs: Annotated[int, WHOLE] = 10,
    final_channels: Annotated[int | None, WHOLE] = None,
    final_cells: Annotated[int | None, WHOLE] = None,
    auxiliary_weight: float = 0.0,
    drop_path: float = 0.0,
    cutout: Annotated[int, WHOLE] = 0,
    checkpoint_every: float = 30.0,
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Find the best architecture of a space on one set of shared weights, and train it alone.

    An epoch trains sampled children on the shared weights, with a guard that keeps them from disturbing each other, and
    then the strategy on their validation rewards. In the end the best candidates are trained from scratch and tested
    once. Writes a run directory with report.html and the network as network.pt2.

    Examples: `ramet search` on the embedded digits; `ramet search --space darts --data cifar10 --guard projection`;
    `ramet search --space recurrent --strategy nao --guard plasticity:60`; `ramet search --budget params=20k`. One large
    supernet on several processes: `torchrun --nproc-per-node 2 -m ramet search`, with all of these options.

    Args:
        space: cells64, nasbench201, darts, enas-micro, recurrent, or FILE.py:function for your own.
        channels: the width of a cell (for recurrent: of the hidden state); by default a small one.
        cells: the number of cells (in nasbench201 and enas-micro, in each stage); by default a small one.
        nodes: the number of nodes of a cell of darts, enas-micro or recurrent; by default the paper's.
        data: digits, mnist, cifar10, ... (`ramet data list`), an .npz file, a folder of class folders; for recurrent
            ptb, or a folder with train.txt, valid.txt and test.txt.
        data_dir: where named data sets are; by default the environment variable RAMET_DATA.
        image_size: average-pool the images to this height and width.
        train_size: use only that many training images (or windows of words).
        eval_size: use only that many validation and test images (or windows).
        validation_fraction: the share of the training images that rewards are taken on.
        window: words in a window of text.
        vocabulary: keep only that many words of a text.
        strategy: what proposes architectures.
        strategy_option: an option of the strategy, for example `--strategy-option num_seeds=100`; may be repeated.
        guard: none, plasticity, projection or elastic, with a strength after a colon if wanted, or several joined by +.
        sharing: full, groups:M:similar, groups:M:random, or prefix:K.
        budget: limits that proposals keep, such as params=200k,flops=10M,latency=5ms.
        epochs: epochs of the search.
        warmup_epochs: first epochs without strategy and guard.
        models_per_epoch: children trained in an epoch.
        batches_per_model: mini-batches that each is trained on.
        strategy_steps: steps of the strategy in an epoch.
        archs_per_step: children whose rewards a step learns from.
        reward_samples: validation samples of a reward.
        error_samples: validation samples on which forgetting is measured.
        batch_norm: the statistics that rewards are taken with.
        batch_size: samples in a mini-batch.
        learning_rate: the first learning rate of the cosine schedule.
        final_learning_rate: its last learning rate.
        momentum: SGD's momentum.
        weight_decay: SGD's weight decay.
        clip_norm: the largest norm of a gradient.
        candidates: children that the search ends with, scored on all validation samples.
        final: how many of them are trained alone and tested.
        final_seeds: trainings of each.
        final_epochs: epochs of each training.
        final_channels: the width of the network that is trained (darts and enas-micro); by default the search's.
        final_cells: its number of cells (in enas-micro, of each stage); by default the search's.
        auxiliary_weight: weight of the loss of a second classifier in that training, 0.4 in DARTS.
        drop_path: probability that an operation is left out at the end of that training, 0.2 in DARTS.
        cutout: side of the square that is cut out of its images, 16 of 32 pixels in DARTS.
        checkpoint_every: seconds after which the search saves itself; how much of it a kill may cost.
        common: the options of every command.
    """
    from ramet.data import SOURCES
    from ramet.execution.ranks import joined
    from ramet.searching import Recipe, SearchJob, SearchPlan
    from ramet.searching import search as run_search
    from ramet.searching.job import TEXTS
    from ramet.spaces import SPACES, size_options, takes_text
    from ramet.training import Settings

    words = takes_text(space)
    shared: dict[str, Any] = {"data_dir": None if data_dir is None else str(data_dir.absolute())}
    shared |= {"train_size": train_size, "eval_size": eval_size}
    if words:
        data = "ptb" if data == "digits" else data
        data_options = given(**shared, window=window, vocabulary=vocabulary)
    else:
        data_options = given(**shared, seed=common.seed, image_size=image_size, validation_fraction=validation_fraction)
    recipe = Recipe(
        channels=final_channels,
        cells=final_cells,
        auxiliary_weight=auxiliary_weight,
        drop_path=drop_path,
        cutout=cutout,
    )
    job = SearchJob(
        space=anchored(space, SPACES),
        space_options=size_options(space, channels=channels, cells=cells, nodes=nodes),
        data=anchored(data, {*SOURCES, *TEXTS}),
        data_options=data_options,
        settings=Settings(
            epochs=final_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            final_learning_rate=final_learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
            clip_norm=clip_norm,
        ),
        plan=SearchPlan(
            strategy=strategy,
            strategy_options=_strategy_options(strategy_option),
            guard=guard,
            sharing=sharing,
            epochs=epochs,
            warmup_epochs=warmup_epochs,
            models_per_epoch=models_per_epoch,
            batches_per_model=batches_per_model,
            strategy_steps=strategy_steps,
            archs_per_step=archs_per_step,
            reward_samples=reward_samples,
            error_samples=error_samples,
            batch_norm=batch_norm,
            budget=budget,
            num_candidates=candidates,
            num_final=final,
            final_seeds=final_seeds,
            final_recipe=recipe.to_json(),
            seed=common.seed,
        ),
        device=common.device,
    )
    with joined() as ranks:
        result, out = common.start("search", run_search, job, checkpoint_every, ranks=ranks)
    if ranks.is_leader:
        show_search(result, out, common.json)


def show_search(result: dict[str, Any], out: Path, as_json: bool) -> None:
    """The result on standard output: a table and the architecture, or JSON."""
    if as_json:
        print_json(result)
        return
    from ramet.reports.search import search_table

    search_table(result).print()
    print(f"\nFound: {result['best']}")
    if result["exported"]:
        print(f"Network: {out / result['exported']}")
    print(f"Report: {out / 'report.html'}")


def _strategy_options(texts: tuple[str, ...]) -> dict[str, Any]:
    """Options as NAME=NUMBER."""
    from ramet.errors import ConfigError

    options: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            options[name] = int(value) if value.lstrip("-").isdecimal() else float(value)
        except ValueError:
            raise ConfigError(f"a strategy's option reads NAME=NUMBER, but got {text!r}.") from None
    return options
