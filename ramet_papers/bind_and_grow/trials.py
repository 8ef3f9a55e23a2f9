"""The trainings behind the figures as tasks, and the run that keeps their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ramet.continual import BindAndGrow, Skeleton, Stream, average_gain, learn, make_method
from ramet.continual.methods.bind_and_grow.random_growth import RandomGrowth, draw_of_total
from ramet.continual.study.sequences import SequenceSetup, run_sequence, train_alone
from ramet.continual.study.space import GrowSequence
from ramet.execution import WorkItem
from ramet.registry import parse_spec
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator
from ramet.training import Settings
from ramet_papers.bind_and_grow.presets import BindingPreset, StreamSetting
from ramet_papers.experiment import Experiment, Key
from ramet_papers.workspace import Workspace

KIND = "bind-and-grow"
SLOW: Json = {"old_weights": "slow"}
RULES: dict[str, Json] = {
    "the paper's": {"measure": "rsa", "blame": "whole"},
    "the default": {"measure": BindAndGrow.measure, "blame": BindAndGrow.blame},
}
"""How layers are compared and made anew: as in the paper, which answers the claims, and as this library does it."""


@dataclass(frozen=True)
class BindingSetup:
    """A stream_setting for each seed: sent to each worker once."""

    streams: Sequence[Stream]  # one a seed
    skeleton: Skeleton  # the layers of every network
    settings: Settings  # of every training
    seeds: Sequence[int]  # of weights and batches, one a stream
    folder: Path  # where networks that were trained alone are kept
    options: Mapping[str, Any]  # options of every method on a layer graph

    @classmethod
    def of(
        cls,
        workspace: Workspace,
        preset: BindingPreset,
        stream_setting: StreamSetting,
        folder: Path,
        num_seeds: int | None = None,
    ) -> BindingSetup:
        """The setup of a stream_setting, with the preset's seeds or another number of them."""
        numbers = range(num_seeds or preset.seeds)
        streams = [stream_setting.make(workspace, number) for number in numbers]
        seeds = [derive_seed(workspace.seed, "trial", number) for number in numbers]
        # As in the paper, old layers are slow unless the setting says otherwise.
        settings, options = stream_setting.settings or preset.settings, {**SLOW, **stream_setting.method}
        return cls(streams, stream_setting.skeleton(streams[0]), settings, seeds, folder, options)

    @property
    def guided(self) -> dict[str, Any]:
        """Options of growth by similarity, which is measured and blamed as in the paper."""
        return {**RULES["the paper's"], **self.options}

    def at(self, number: int, alone: Mapping[str, Any] | None = None, **options: Any) -> SequenceSetup:
        """The setup of grow sequences of one seed, with further options of growth by similarity."""
        stream, seed, folder = self.streams[number], self.seeds[number], self.folder / f"seed-{number}"
        return SequenceSetup(
            stream, self.skeleton, self.settings, seed, folder, {**self.guided, **options}, alone or {}
        )


def alone(setup: BindingSetup, *, number: int, task: str) -> Json:
    """A task trained alone."""
    return dict(train_alone(setup.at(number), task=task))


def grown(setup: BindingSetup, *, number: int, delta: float, alone: Json, options: Json | None = None) -> Json:
    """The whole stream at one grow coefficient; options may depart from the paper's."""
    names = setup.streams[number].names
    sequence = GrowSequence(tuple(names), {name: delta for name in names})
    return run_sequence(setup.at(number, alone, **(options or {})), sequence=sequence.to_json())


def grown_at_random(
    setup: BindingSetup, *, number: int, draw: int, sizes: dict[str, int], alone: Json, for_each: bool = False
) -> Json:
    """The whole stream by random growth, with as many new parameters as are given: for each task, or in all.

    First weights and mini-batches are those of growth by similarity and of the tasks alone, which have luck of their
    own: a seed may begin with weights that suit all tasks.
    """
    stream, seed = setup.streams[number], setup.seeds[number]
    if for_each:
        method = RandomGrowth(sizes=sizes, draw=draw, **setup.options)
    else:
        generator = numpy_generator(seed, "layers of all tasks", draw)
        drawn = draw_of_total(setup.skeleton.layer_sizes(), len(sizes), sum(sizes.values()), generator)
        method = RandomGrowth(layers=dict(zip(sizes, drawn, strict=True)), draw=draw, **setup.options)
    learned = learn(stream, method=method, network=setup.skeleton, settings=setup.settings, seed=seed)
    reference = [alone["test"][name] for name in stream.names]
    return {"test_gain": average_gain(learned.matrix(), reference), "parameters": learned.rows[-1]["parameters"]}


def compared(setup: BindingSetup, *, number: int, method: str) -> Json:
    """The whole stream by one method."""
    made, said = make_method(method), parse_spec(method).options
    if isinstance(made, RandomGrowth):
        made = make_method(method, **{name: value for name, value in setup.options.items() if name not in said})
    elif made.name == "bind-and-grow":
        made = make_method(method, **{name: value for name, value in setup.guided.items() if name not in said})
    how: Json = {"network": setup.skeleton, "settings": setup.settings, "seed": setup.seeds[number]}
    learned = learn(setup.streams[number], method=made, scenario="all", **how)
    figures = learned.figures()
    seconds = sum(row["seconds"] for row in learned.rows)
    kept = ("average_accuracy", "backward_transfer", "parameters", "stored_bytes")
    return {**{key: figures[key] for key in kept}, "seconds": seconds}


class BindingTrials:
    """The trainings of a figure on one stream: their setup, and the run that keeps their results.

    ``figure`` is what the run is called, ``label`` tells the networks of one stream from those of another.
    """

    def __init__(
        self,
        experiment: Experiment,
        preset: BindingPreset,
        stream_setting: StreamSetting,
        figure: str,
        label: str = "",
        num_seeds: int | None = None,
    ) -> None:
        config: Json = {"preset": {"name": preset.name, **preset.asked()}, "figure": figure}
        trials = experiment.trials(figure, config, None, KIND)
        folder = trials.path / "networks" / label
        self.setup = BindingSetup.of(experiment.workspace, preset, stream_setting, folder, num_seeds)
        self.run = replace(trials, setup=self.setup)

    def over_seeds(
        self, rows: Mapping[Key, tuple[str, Callable[..., Json], Json]], label: str, **of_seeds: Sequence[Any]
    ) -> dict[Key, list[Json]]:
        """The results of all seeds for each row: a key, a function and its arguments, to which those of seeds come."""
        numbers = range(len(self.setup.seeds))
        tasks = {
            row: [
                WorkItem(f"{key}/{n}", function, {"number": n, **options, **{k: v[n] for k, v in of_seeds.items()}})
                for n in numbers
            ]
            for row, (key, function, options) in rows.items()
        }
        return self.run.finish(tasks, label)

    def alone(self, label: str) -> list[Json]:
        """The accuracies of all tasks alone, a seed: ``{split: {task: accuracy}}``."""
        tasks = {
            number: [
                WorkItem(f"{label}/alone/{number}/{name}", alone, {"number": number, "task": name})
                for name in stream.names
            ]
            for number, stream in enumerate(self.setup.streams)
        }
        results = self.run.finish(tasks, "each task alone")
        return [
            {
                role: {name: result[role] for name, result in zip(stream.names, results[number], strict=True)}
                for role in ("validation", "test")
            }
            for number, stream in enumerate(self.setup.streams)
        ]


def sizes_of(setup: BindingSetup, expanded: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The parameters of each task's new layers."""
    sizes = setup.skeleton.layer_sizes()
    return {task: sum(sizes[place] for place in places) for task, places in expanded.items()}
