"""`ramet grow`: a network that gets larger where it helps most."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ramet.cli.options import WHOLE, Common, anchored, given, print_json
from ramet.errors import ConfigError


def grow(
    *,
    network: str = "vgg",
    width: Annotated[int | None, WHOLE] = None,
    depth: Annotated[int | None, WHOLE] = None,
    data: str = "digits",
    data_dir: Path | None = None,
    image_size: Annotated[int | None, WHOLE] = None,
    train_size: Annotated[int | None, WHOLE] = None,
    eval_size: Annotated[int | None, WHOLE] = None,
    validation_fraction: float = 0.2,
    method: str = "firefly",
    budget: str | None = None,
    target: float | None = None,
    patience: Annotated[int | None, WHOLE] = None,
    min_gain: float = 0.0,
    max_steps: Annotated[int | None, WHOLE] = None,
    epochs: Annotated[int, WHOLE] = 10,
    batch_size: Annotated[int, WHOLE] = 64,
    learning_rate: float = 0.05,
    final_learning_rate: float = 0.001,
    momentum: float = 0.9,
    weight_decay: float = 0.0005,
    options: Annotated[tuple[str, ...], Parameter(name="--set", negative=())] = (),
    checkpoint_every: float = 30.0,
    common: Common = Common(),  # noqa: B008 - an immutable default
) -> None:
    """Grow a network where it helps most, until it is large or good enough.

    Trains the network, adds to it, trains it again, and so on. Writes a run directory with report.html and the grown
    network, which loads without ramet. With several methods, they are compared from the same start.

    Examples: `ramet grow` on the embedded digits; `ramet grow --method firefly,net2net,scratch --workers 3`;
    `ramet grow --network mine.py:network --data my.npz --budget params=200k,step=20%,layers=1`.

    Args:
        network: mlp, vgg, mobilenet, or FILE.py:function for your own (a function that takes any of in_channels,
            image_size and num_classes and gives a module).
        width: the width that the network starts with; by default 4.
        depth: the number of its layers; by default the network's own.
        data: digits, mnist, fashion-mnist, cifar10, ... (`ramet data list`), an .npz file, or a folder of class
            folders.
        data_dir: where named data sets are; by default the environment variable RAMET_DATA.
        image_size: average-pool the images to this height and width.
        train_size: use only that many training images.
        eval_size: use only that many validation and test images.
        validation_fraction: the share of the training images that scores are taken on.
        method: firefly, splitting, net2net, nash, autogrow, gradmax, random or scratch; several are joined by commas.
        budget: how large it may get, and how fast: params=200k, neurons=64, flops=2m or latency=2ms, with step=30% (or
            an amount) and layers=1 (new layers a step) after commas. By default ten times its parameters by steps of
            30 %.
        target: end when this share of the validation images is right.
        patience: end when so many steps have brought no gain; by default growth goes on to the budget.
        min_gain: what counts as a gain for that.
        max_steps: end after so many growth steps.
        epochs: passes over the training images between two growths.
        batch_size: images in a mini-batch.
        learning_rate: the first learning rate of the cosine schedule; it starts anew after each growth.
        final_learning_rate: its last learning rate.
        momentum: SGD's momentum.
        weight_decay: SGD's weight decay.
        options: an option of a method, for example `--set firefly.num_new=50 --set firefly.num_epochs=1`.
        checkpoint_every: seconds after which a training saves itself; how much of it a kill may cost.
        common: the options of every command.
    """
    from ramet.data import SOURCES
    from ramet.growth import NETWORKS
    from ramet.growth.growing import Ends
    from ramet.growth.job import GrowJob, grow_run
    from ramet.training import Settings

    if target is not None and not 0 < target <= 1:
        raise ConfigError(f"target must be a share of the images, above 0 and at most 1, but got {target}.")
    if min_gain and patience is None:
        raise ConfigError(f"min_gain says what patience waits for, but got {min_gain} without patience.")
    job = GrowJob(
        network=anchored(network, NETWORKS),
        network_options=given(width=width, depth=depth),
        data=anchored(data, SOURCES),
        data_options=given(
            data_dir=None if data_dir is None else str(data_dir.absolute()),
            seed=common.seed,
            image_size=image_size,
            train_size=train_size,
            eval_size=eval_size,
            validation_fraction=validation_fraction,
        ),
        methods=tuple(name.strip() for name in method.split(",")),
        method_options=parse_options(options),
        budget=budget,
        settings=Settings(
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            final_learning_rate=final_learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
        ),
        ends=Ends(target=target, patience=patience, min_gain=min_gain, max_steps=max_steps),
        seed=common.seed,
        device=common.device,
    )
    result, out = common.start("grow", grow_run, job, checkpoint_every, on_step=show_step)
    show_grow(result, out, common.json)


def show_step(method: str, step: dict[str, Any]) -> None:
    """A line of the curve on standard error, as it grows, if that is a terminal."""
    if sys.stderr.isatty():
        print(step_line(method, step), file=sys.stderr)


def step_line(method: str, step: dict[str, Any]) -> str:
    """A step in a line: its size, its accuracy as a figure and a bar, and what grew."""
    from ramet.reports.formats import count, percent
    from ramet.reports.grow import words_of

    share = step["score"]
    bar = "█" * round(20 * max(share, 0.0))
    grew = words_of(step, most=3) if step["number"] else "as it was"
    size = count(step["sizes"]["params"])
    return f"{method:<10}{step['number']:>3}  {size:>8} parameters  {percent(share):>7}  {bar:<20}  {grew}"


def show_grow(result: dict[str, Any], out: Path, as_json: bool) -> None:
    """The result on standard output: a table, what could not grow and where the networks are, or JSON."""
    if as_json:
        print_json(result)
        return
    from ramet.reports.grow import grow_table

    grow_table(result).print()
    print()
    for refusal in result["refusals"]:
        print(f"- left alone: {refusal['name']}: {refusal['reason']}")
    for entry in result["methods"].values():
        note = f" (weights only; torch.export: {entry['not_exported']})" if entry["not_exported"] else ""
        print(f"- network: {out / entry['network']}{note}")
    print(f"\nReport: {out / 'report.html'}")


def parse_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Options of methods from texts such as ``firefly.num_new=50``.

    >>> parse_options(["firefly.num_new=50", "firefly.split=false"])
    {'firefly': {'num_new': 50, 'split': False}}
    """
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        method, dot, option = name.strip().partition(".")
        try:
            parsed = json_text.loads(value)
        except json_text.JSONDecodeError:
            parsed = None
        if not (equals and dot and option) or not isinstance(parsed, int | float):
            raise ConfigError(f"an option reads METHOD.NAME=NUMBER (or true, false), but got {text!r}.")
        if option in found.setdefault(method, {}):
            raise ConfigError(f"an option of a method is set once, but {name} is set twice.")
        found[method][option] = parsed
    return found
