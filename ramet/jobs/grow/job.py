"""`ramet grow`: what a growth is asked, and how it is built and done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from ramet.errors import ConfigError
from ramet.fields import option
from ramet.growth.plan import GrowPlan
from ramet.growth.recipe import GrowRecipe
from ramet.jobs.data_options import TargetOptions
from ramet.jobs.job import Job, Session, code_of, complete_words, run_verb
from ramet.jobs.supernet import build_data
from ramet.runs.encoding import Json
from ramet.training.recipe import Recipe

if TYPE_CHECKING:
    from torch.nn import Module

    from ramet.data import DataSet
    from ramet.execution import Executor
    from ramet.growth.history import GrowthStep
    from ramet.growth.tasks import GrowthSetup
    from ramet.jobs.grow.result import GrowResult


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """How large a network by name is before it grows.

    Args:
        width: the width that the network starts with; by default 4.
        depth: the number of its layers; by default the network's own.
    """

    width: int | None = None
    depth: int | None = None

    def given(self) -> dict[str, Any]:
        """Those that have a value."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class GrowJob(Job["GrowthSetup"]):
    """Grow a network where it helps most, until it is large or good enough.

    Trains the network, adds to it, trains it again, and so on. Writes a run directory with report.html and the grown
    network, which loads without ramet. With several methods, they are compared from the same start. A plain network of
    the same size, trained with the same work, is the last to be compared (--against): take the better one.

    For example:

    - on the embedded digits: `ramet grow`
    - your own network (`ramet init network`): `ramet grow --network mine.py:network --data my.npz --budget params=200k`
    - ways to grow, side by side: `ramet grow --method firefly,net2net --against plain,scratch,pruned --workers 3`
    - in steps, with new layers: `ramet grow --method firefly --budget params=200k,step=20%,layers=1`

    Args:
        network: mlp, vgg or mobilenet, with options after a colon, or FILE.py:function for your own (a function that
            takes any of in_channels, image_size and num_classes, of num_features for tables, of length and words for
            texts, and gives a module); or the folder of a grown network, runs/NAME/networks/METHOD, to go on with.
        sizes: how large it is before it grows.
        start: a file of trained weights that it starts with: .safetensors, or a state_dict that torch saved.
        data: digits, mnist, fashion-mnist, cifar10, ... (`ramet data list`), an .npz file, a folder of class folders,
            a table as FILE.csv:target=COLUMN, or a text as text:FILE:tokens=characters,length=64.
        data_options: which part of it.
        recipe: how it is trained between two growths.
        plan: by which methods, how far, and when they end.
    """

    kind = "grow"
    gives = "ramet.jobs.grow.result:GrowResult"
    sources = ("network", "data")

    network: str | Module = option("vgg", kind=str)
    sizes: NetworkOptions = field(default_factory=NetworkOptions)
    start: str | None = None
    data: str | DataSet = option("digits", kind=str)
    data_options: TargetOptions = field(default_factory=TargetOptions)
    recipe: Recipe = option(factory=GrowRecipe, kind=GrowRecipe)
    plan: GrowPlan = field(default_factory=GrowPlan)

    def to_json(self) -> Json:
        """The job as JSON values; a module is described by its layers."""
        values = super().to_json()
        if not isinstance(self.network, str):
            values["network"]["is"] = str(self.network)
        return values

    def code(self) -> list[str]:
        """Of the network, the data and the methods."""
        return [*super().code(), *(found for text in self.plan.methods for found in code_of("growth", text))]

    def anchored(self) -> Self:
        """The file of weights named from the root, too."""
        return replace(super().anchored(), start=None if self.start is None else str(Path(self.start).absolute()))

    def build(self, *, trust: bool = False) -> GrowthSetup:
        """The network, the data, the methods and the budget; a growth's start is tried."""
        from ramet.costs import count_parameters
        from ramet.exporting.onnx import check_installed
        from ramet.growth.methods.making import make_method
        from ramet.growth.tasks import GrowthSetup, rehearse

        ends = self.plan.ends
        if ends.min_gain and ends.patience is None:
            raise ConfigError(f"min_gain says what patience waits for, but got {ends.min_gain} without patience.")
        if self.plan.onnx or self.plan.budget_for(1).unit == "onnx_latency":
            check_installed()
        methods = self.plan.by_name
        made = [make_method(text) for text in methods.values()]
        for method in made:
            method.check_budget(self.plan.budget_for(1).layers)
        source, options, saved = self._network(trust)
        setup = GrowthSetup(
            network=source,
            network_options=options,
            saved=saved,
            data=build_data(self.data, self.data_options.given(seed=self.seed), self.device),
            budget=self.plan.budget_for(1),
            settings=self.recipe,
            ends=ends,
            methods=methods,
            against=self.plan.arms(is_trained=self.start is not None or saved is not None),
            seed=self.seed,
            weights=self.start,
            onnx=self.plan.onnx,
            ties="none" if any(method.needs_sites for method in made) else self.plan.ties,
        )
        if setup.metric.is_share and ends.target is not None and not 0 < ends.target <= 1:
            rows = setup.data.rows
            raise ConfigError(f"target must be a share of the {rows}, above 0 and at most 1, but got {ends.target}.")
        network = setup.new_network()
        start = {name: value.detach() for name, value in network.state_dict().items()}
        num_params = count_parameters(network)
        budget = self.plan.budget_for(num_params)
        is_trained = not setup.draws_weights(network)
        return rehearse(replace(setup, budget=budget, start=start, is_trained=is_trained, given_params=num_params))

    def setting(self, setup: GrowthSetup) -> Json:
        """The data, the network's layers and what of them cannot grow, and the budget."""
        from ramet.training.weights import digest_of_file

        start = self.start
        if start is None and setup.saved is not None:
            start = str(Path(str(self.network)) / "weights.safetensors")
        return setup.described | ({} if start is None else {"start": digest_of_file(start)})

    def work(self, setup: GrowthSetup, session: Session) -> Json:
        """All steps of all methods, and then the test set, once."""
        from ramet.jobs.grow.stages import GrowthStages

        setup = replace(setup, seconds_between_checkpoints=session.seconds_between_checkpoints)
        data_name = self.data if isinstance(self.data, str) else self.data.name
        return GrowthStages(setup, session, data_name)()

    def _network(
        self, trust: bool
    ) -> tuple[str | Module, dict[str, Any], tuple[dict[str, Any], list[GrowthStep]] | None]:
        """The name of the network and its arguments, or the module itself; and what a saved one was made of."""
        from torch import nn

        from ramet.growth.making import parse_network
        from ramet.growth.saving import is_saved, read_network

        sizes = self.sizes.given()
        if not isinstance(self.network, str):
            given: Any = self.network
            if not isinstance(given, nn.Module):
                name = getattr(given, "__name__", None)
                short = repr(given) if isinstance(given, int | float | None) else f"an object of {type(given).__name__}"
                got = short if name is None else f"{name}, which makes one: call it"
                raise ConfigError(f"a network is a text or an nn.Module, but got {got}.")
            if sizes:
                raise ConfigError(f"sizes are for networks by name, but got {sizes} with an object.")
            return self.network, {}, None
        if is_saved(self.network):
            if sizes:
                raise ConfigError(f"sizes are for networks by name, but got {sizes} with a grown network.")
            found = read_network(self.network)
            return found.make(trust=trust), {}, (found.origin, found.steps)
        spec = parse_network(self.network)
        return spec.name, sizes | dict(spec.options), None


def grow(
    network: str | Module = "vgg",
    data: str | DataSet = "digits",
    *,
    start: str | Path | None = None,
    plan: GrowPlan | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    executor: Executor | int | None = None,
    device: str = "cpu",
    **options: Any,
) -> GrowResult:
    """Grow a network where it helps most, until it is large or good enough, and compare ways to do so.

    ``network`` is a spec such as ``vgg:width=8``, ``FILE.py:function``, or a module: it is left as it is, its copies
    start with its weights, and ``ramet.growth.load_network(folder, network)`` gives the grown one. ``data`` is a name,
    a path, a ``DataSet`` or what ``ramet.data.load`` takes: images, vectors and tokens, with classes or numbers as
    targets. ``start`` is a file of trained weights that the network starts with. ``plan`` says by which methods it
    grows, how far, and when they end, ``recipe`` how it is trained between two growths.
    ``ramet.growth.grow`` is the loop alone: it gives the grown module and writes nothing.
    """
    job = GrowJob(
        network=network,
        data=data,
        start=None if start is None else str(start),
        plan=plan or GrowPlan(),
        recipe=recipe or GrowRecipe(),
        seed=seed,
        device=device,
    )
    return cast("GrowResult", run_verb(job, out, executor, options))


complete_words(grow)
