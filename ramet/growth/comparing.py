"""The task of a worker that trains what a growth is compared with, and meets the test set with it once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ramet.costs import count_flops, count_parameters
from ramet.exporting.card import Card, described_inputs
from ramet.growth.arms import Arms, TrainedArm, as_step
from ramet.growth.saving import save_network
from ramet.growth.tasks import GrowthSetup, describe_layers
from ramet.runs import Checkpoints
from ramet.runs.encoding import encode
from ramet.training import measure


def train_arm(setup: GrowthSetup, arm: str, method: str) -> dict[str, Any]:
    """Train one arm to the size of a growth by ``method`` that is over, with its work, and write the network."""
    assert setup.folder is not None
    with setup.growing(method) as growing:
        grown, history = growing.kept_network, growing.history
    data = setup.data

    def checkpoints(name: str) -> Checkpoints:
        found = setup.checkpoints(f"against {name}")
        assert found is not None
        return found

    arms = Arms(
        start=setup.new_network,
        grown=grown,
        x=data.train.x,
        y=data.train.y,
        settings=setup.settings,
        work=history.work,
        seed=setup.seed,
        ties=setup.ties,
        checkpoints=checkpoints,
        seconds_between_checkpoints=setup.seconds_between_checkpoints,
    )
    trained = arms(arm)
    network, metric = trained.network, setup.metric
    validation, test = (measure(network, split.x, split.y, metric) for split in (data.validation, data.test))
    sizes = {
        "params": count_parameters(network),
        "flops": float(count_flops(network, data.form.shape, dtype=data.form.dtype)),
    }
    steps = history.steps[: history.end.number + 1]
    if arm != "scratch":
        steps = [replace(as_step(setup.new_network(), network, setup.probe), number=1)]
    steps = [*([] if setup.saved is None else setup.saved[1]), *steps]
    folder = setup.folder / "networks" / arm
    card = _card(setup, arm, method, trained, sizes, {"validation": validation, "test": test})
    problem = save_network(network, folder, steps=steps, origin=setup.origin, onnx=setup.onnx, card=card)
    return {
        **sizes,
        "work": trained.work,
        "num_steps": trained.num_steps,
        "validation": validation,
        "test": test,
        "layers": describe_layers(network, setup.probe),
        "not_exported": problem,
    }


def _card(
    setup: GrowthSetup, arm: str, method: str, trained: TrainedArm, sizes: dict[str, float], figures: dict[str, float]
) -> Card:
    data, metric, rows = setup.data, setup.metric, setup.data.rows
    return Card(
        title=f"{setup.name}, trained as what its growth by {method} is compared with: {arm}",
        network={name: round(value) for name, value in sizes.items()},
        inputs=described_inputs(data.form.shape, data, data.form.dtype),
        data={"data": str(data), "fingerprint": data.fingerprint()},
        figures={f"{metric.name} on {split} {rows}": value for split, value in figures.items()},
        made={
            "way": arm,
            "training steps": trained.num_steps,
            "multiply-adds of its training": f"{trained.work:.4g}",
            "recipe": encode(setup.settings.to_json()),
            "seed": setup.seed,
        },
        words=("`ramet.growth.load_network` gives the module itself, of the classes that it was made of.",),
    )
