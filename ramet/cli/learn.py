"""`ramet learn`: task after task in one network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ramet.cli.options import WHOLE, Common, anchored, print_json


def learn(
    *,
    stream: str = "split-digits:5",
    method: str = "firefly",
    onto: Path | None = None,
    network: str = "mlp",
    batch_norm: Annotated[bool, Parameter(negative=())] = False,
    head: Literal["own", "shared"] = "own",
    scenario: Literal["streaming", "all"] = "streaming",
    seeds: Annotated[int, WHOLE] = 1,
    data_dir: Path | None = None,
    image_size: Annotated[int | None, WHOLE] = None,
    train_size: Annotated[int | None, WHOLE] = None,
    eval_size: Annotated[int | None, WHOLE] = None,
    validation_fraction: float = 0.2,
    epochs: Annotated[int, WHOLE] = 10,
    batch_size: Annotated[int, WHOLE] = 16,
    learning_rate: float = 0.02,
    final_learning_rate: float = 0.0,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    checkpoint_every: float = 30.0,
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Learn a stream of tasks one after the other, in one network, and say what was forgotten and what it cost.

    Every method is measured on all tasks so far after each task, and compared with individual networks, which always
    run along. Writes a run directory with report.html and, in networks/, the joint network of each method and seed.

    Examples: `ramet learn` on the embedded digits; `ramet learn --method naive,elastic:strength=1e4,packnet --seeds 3`;
    `ramet learn --stream mine.json --network conv`; `ramet learn --stream more.json --onto net.safetensors`.
    `ramet study` searches how a stream is learned best.

    Args:
        stream: split-DATA:TASKS, split-DATA:TASKS:superclass, permuted-DATA:TASKS, rotated-DATA:TASKS,
            families-DATA:FAMILIESxTASKS, domains, or a .json file with a list of {"name": ..., "data": ...}.
        method: one or several, joined by commas, each with options after a colon if wanted: individual, naive, joint,
            elastic, distillation, replay, packnet, progressive, firefly, bind-and-grow, random-growth, learn-to-grow,
            cpg, den, rcl, apd.
        onto: a saved joint network that learns the stream on top of what it knows.
        network: mlp, mlp:WIDTH,WIDTH,..., conv, or conv: and five widths.
        batch_norm: give each layer batch norm.
        head: own, one for each task, or shared, one for all, as permuted MNIST usually has it.
        scenario: streaming, in which a finished task's data are gone, or all.
        seeds: how many seeds each method runs with, from --seed on; each has a stream of its own.
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
    from ramet.continual.job import LearnJob, learn_stream
    from ramet.continual.methods.making import split_specs
    from ramet.training import Settings

    options = {
        "data_dir": None if data_dir is None else str(data_dir.absolute()),
        "image_size": image_size,
        "train_size": train_size,
        "eval_size": eval_size,
        "validation_fraction": validation_fraction,
    }
    job = LearnJob(
        stream=anchored(stream),
        stream_options={name: value for name, value in options.items() if value is not None},
        methods=tuple(split_specs(method)),
        onto=None if onto is None else str(onto.absolute()),
        network=anchored(network),
        batch_norm=batch_norm,
        head=head,
        settings=Settings(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            final_learning_rate=final_learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
        ),
        scenario=scenario,
        seeds=seeds,
        seed=common.seed,
        device=common.device,
    )
    result, out = common.start("learn", learn_stream, job, checkpoint_every)
    show_learn(result, out, common.json)


def show_learn(result: dict[str, Any], out: Path, as_json: bool) -> None:
    """The result on standard output: a table and the explanations, or JSON."""
    if as_json:
        print_json(result)
        return
    from ramet.reports.learn import learn_table

    learn_table(result).print()
    for name, entry in result["methods"].items():
        if entry["explanation"]:
            print(f"\n{name}:")
            for line in entry["explanation"]:
                print(f"- {line}")
    print(f"\nReport: {out / 'report.html'}")
