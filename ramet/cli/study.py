"""`ramet study`: search how a stream of tasks is learned best, alone or with other machines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ramet.cli.options import WHOLE, Common, anchored, given, print_json


def study(
    *,
    stream: str = "split-digits:5",
    trials: Annotated[int, WHOLE] = 20,
    delta: Literal["shared", "per-task"] = "per-task",
    step: float = 0.05,
    binding: Literal["computed", "free"] = "computed",
    order: Literal["fixed", "free"] = "fixed",
    sampler: Literal["nsga2", "gp", "thompson", "random"] = "nsga2",
    batch: Annotated[int | None, WHOLE] = None,
    storage: str | None = None,
    name: str = "grow-sequences",
    networks: Literal["front", "own", "none"] = "front",
    silence: float = 120.0,
    method: str = "bind-and-grow",
    network: str = "mlp",
    batch_norm: Annotated[bool, Parameter(negative=())] = False,
    data_dir: Path | None = None,
    image_size: Annotated[int | None, WHOLE] = None,
    train_size: Annotated[int | None, WHOLE] = None,
    eval_size: Annotated[int | None, WHOLE] = None,
    validation_fraction: float = 0.2,
    epochs: Annotated[int, WHOLE] = 10,
    batch_size: Annotated[int, WHOLE] = 16,
    learning_rate: float = 0.05,
    final_learning_rate: float = 0.0,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    checkpoint_every: float = 30.0,
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Search how a stream of tasks is learned best: how much each task grows, where it is bound, in which order.

    Every trial learns the whole stream by bind-and-grow. Two things are weighed: the average gain over individual
    networks, on validation data, and the parameters. What no other trial beats in both is the Pareto front; its
    networks are kept in networks/, tested once, and take further tasks by `ramet learn --onto`. Several runs, also on
    several machines, share one study through --storage.

    Examples: `ramet study` on the embedded digits; `ramet study --trials 60 --binding free --order free --workers 2`;
    `RAMET_STORAGE=postgresql+psycopg://ann:secret@db.example/lab ramet study` on each of several machines.

    Args:
        stream: as for `ramet learn`: split-DATA:TASKS, permuted-DATA:TASKS, rotated-DATA:TASKS,
            families-DATA:FAMILIESxTASKS, domains, or a file.
        trials: finished trials to have in the end, of all runs of the study together.
        delta: the grow coefficient, one for each task (the first trials then have 0, 0.25, 0.5, 0.75 and 1 for all),
            or one shared by all.
        step: the grid that coefficients lie on.
        binding: computed, to the least conflict, or free, to any earlier task.
        order: the order of the tasks, fixed as in the stream, or free.
        sampler: nsga2, with a population that fits the number of trials, gp (a Gaussian process), thompson, which
            learns what each task gains by its own layers and needs --delta per-task, or random.
        batch: trials that are drawn together; by default the population of nsga2, or the number of workers for gp,
            thompson and with --storage.
        storage: the address of an Optuna storage; by default the environment variable RAMET_STORAGE, else a SQLite file
            in the run directory. A password in it is never kept, so `ramet resume` asks for RAMET_STORAGE then.
        name: the name of the study in the storage.
        networks: keep the networks of the whole front (those that other runs found are trained again here), those that
            this run found, or none.
        silence: seconds without a sign of life after which other runs take over this run's trials.
        method: bind-and-grow, with options after a colon if wanted, such as bind-and-grow:old_weights=frozen.
        network: mlp, mlp:WIDTH,WIDTH,..., conv, or conv: and five widths.
        batch_norm: give each layer batch norm.
        data_dir: where named data sets are; by default the environment variable RAMET_DATA.
        image_size: average-pool the images to this height and width.
        train_size: use only that many training images of each data set.
        eval_size: use only that many validation and test images of each data set.
        validation_fraction: the share of the training images that choices are made on.
        epochs: passes over each task's training images.
        batch_size: images in a mini-batch.
        learning_rate: the first learning rate of the cosine schedule, which begins anew with each task.
        final_learning_rate: its last learning rate.
        momentum: SGD's momentum.
        weight_decay: SGD's weight decay.
        checkpoint_every: seconds after which a training saves itself; how much of it a kill may cost.
        common: the options of every command.
    """
    from ramet.continual.study.address import anchored_address
    from ramet.continual.study.job import VARIABLE, StudyJob, study_stream
    from ramet.continual.study.search import SequenceSearch, population_for
    from ramet.continual.study.sequences import SequenceSpace
    from ramet.errors import ConfigError
    from ramet.training import Settings

    if trials < 1:
        raise ConfigError(f"trials must be at least 1, but got {trials}.")
    address = anchored_address(os.environ.get(VARIABLE, "") if storage is None else storage)
    if batch is None:
        batch = common.workers if address or sampler in ("gp", "thompson") else population_for(trials)
    job = StudyJob(
        stream=anchored(stream),
        stream_options=given(
            data_dir=None if data_dir is None else str(data_dir.absolute()),
            image_size=image_size,
            train_size=train_size,
            eval_size=eval_size,
            validation_fraction=validation_fraction,
        ),
        method=method,
        network=anchored(network),
        batch_norm=batch_norm,
        settings=Settings(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            final_learning_rate=final_learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
        ),
        search=SequenceSearch(
            space=SequenceSpace(delta=delta, step=step, binding=binding, order=order),
            num_trials=trials,
            sampler=sampler,
            batch=batch,
            storage=address,
            study=name,
            networks=networks,
            silence=silence,
        ),
        seed=common.seed,
        device=common.device,
    )
    result, out = common.start("study", study_stream, job, checkpoint_every)
    show_study(result, out, common.json)


def show_study(result: dict[str, Any], out: Path, as_json: bool) -> None:
    """The result on standard output: the front as a table, and what to begin with, or JSON."""
    if as_json:
        print_json(result)
        return
    from ramet.reports.study import recommended, study_table

    study_table(result).print()
    chosen = recommended(result)
    print(f"\nBegin with trial {chosen['trial']}: the smallest whose gain is level with the highest.")
    print(f"Report: {out / 'report.html'}")
