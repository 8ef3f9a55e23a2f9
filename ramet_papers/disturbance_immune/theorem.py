"""Section 4 as figures: the iterative update is the closed form, and Theorem 4.1 on random instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramet.execution import WorkItem
from ramet.guards.closing import close_directions, close_one_by_one, closed_form, theorem_bound, tight_bound
from ramet.ranking.setup import SupernetSetup
from ramet.reports import Column, Table
from ramet.reports.formats import significant
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, torch_generator
from ramet_papers.disturbance_immune.judges import TOLERANCE, I5Figures, judge_i5
from ramet_papers.disturbance_immune.presets import PRESETS
from ramet_papers.disturbance_immune.recorded import Trainings
from ramet_papers.workspace import Outcome, Workspace


def check_instances(setup: SupernetSetup, *, num_instances: int, seed: int, dtype: str) -> Json:
    """Compare the three forms of P, and the change of the outputs with its bounds, on random instances.

    Widths are from 2 to 24, samples from 1 to 64, lambda from 0.01 to 100, and inputs have a scale from 0.1 to 10.

    Args:
        setup: not used; every task has one.
        num_instances: how many.
        seed: of the instances.
        dtype: ``float32`` or ``float64``, of the inputs and of P.

    Returns:
        JSON values, one of each for each instance: ``one_by_one`` and ``block`` (largest difference to Eq. 7, relative
        to the identity, from which all subtract), ``of_theorem`` and ``of_tight`` (change of the outputs as
        a share of each bound; the first is 0 where Theorem 4.1's bound is infinite), ``spanning`` (whether it is not).
    """
    generator = torch_generator(seed, dtype)
    result: Json = {key: [] for key in ("one_by_one", "block", "of_theorem", "of_tight", "spanning")}
    for _ in range(num_instances):
        x, gradient, regularisation, rate = _instance(generator, getattr(torch, dtype))
        exact = closed_form(x, regularisation)
        eye = torch.eye(len(x), dtype=x.dtype)
        forms = {
            "one_by_one": close_one_by_one(eye, x, regularisation),
            "block": close_directions(eye, x, regularisation),
        }
        for name, matrix in forms.items():
            result[name].append(float((matrix - exact).abs().max()))
        update = rate * gradient  # the paper's eta G, transposed
        change = float(torch.linalg.matrix_norm((update @ forms["block"] @ x).double()))
        bound = float(theorem_bound(x, update, regularisation))
        # Where X has fewer samples than its width, X X' has no inverse and the theorem says nothing.
        spanning = x.shape[1] >= x.shape[0]
        result["spanning"].append(spanning)
        result["of_theorem"].append(change / bound if spanning else 0.0)
        result["of_tight"].append(change / float(tight_bound(update, regularisation)))
    return result


def theorem(workspace: Workspace, preset_name: str) -> Outcome:
    """Eq. 7 against Eq. 8 and its block form, and Theorem 4.1 with a tighter bound beside it."""
    preset = PRESETS[preset_name]
    setup = preset.setup(workspace, preset.space_options, preset.sequence_settings)
    options = {"instances": preset.num_instances, "seed": workspace.seed}
    trainings = Trainings(workspace, f"disturbance-immune-{preset.name}/theorem", setup, options)
    seed = derive_seed(workspace.seed, "theorem")
    tasks = {
        dtype: WorkItem(dtype, check_instances, {"num_instances": preset.num_instances, "seed": seed, "dtype": dtype})
        for dtype in TOLERANCE
    }
    found = trainings.finish(list(tasks.values()))
    results = {dtype: found[task.key] for dtype, task in tasks.items()}
    rows: list[list[Any]] = []
    for dtype, result in results.items():
        rows.append([dtype, TOLERANCE[dtype], max(result["one_by_one"]), max(result["block"])])
    columns: list[Column | str] = [
        "precision",
        Column("allowed", significant),
        Column("Eq. 8, one by one", significant),
        Column("Eq. 8, in a block", significant),
    ]
    equality = Table(columns, rows, title="Largest difference to the closed form, Eq. 7")
    exact = results["float64"]
    shares = [share for share, spans in zip(exact["of_theorem"], exact["spanning"], strict=True) if spans]
    tight = exact["of_tight"]
    rows = [
        [
            "Theorem 4.1 (inputs that span the space)",
            len(shares),
            sum(s > 1 for s in shares),
            max(shares),
            _median(shares),
        ],
        ["half the root of lambda (all inputs)", len(tight), sum(s > 1 for s in tight), max(tight), _median(tight)],
    ]
    columns = [
        "bound",
        "instances",
        "broken",
        Column("largest share", significant),
        Column("median share", significant),
    ]
    bounds = Table(columns, rows, title="Change of the outputs as a share of its bound")
    claim = judge_i5(
        I5Figures(
            command=f"ramet reproduce disturbance-immune/theorem --preset {preset.name}",
            setting="Random inputs, gradients, lambdas and step sizes; seeds are instances. The bound is loose, and "
            "infinite for inputs that do not span the space; half the root of lambda times the update's size holds for "
            "all.",
            differences={dtype: np.array([r["one_by_one"], r["block"]]) for dtype, r in results.items()},
            shares=np.array(shares),
            instances=preset.num_instances,
        )
    )
    return Outcome("Disturbance-immune weight sharing, section 4", [equality, bounds], [claim]).kept(workspace.results)


def _instance(generator: torch.Generator, dtype: torch.dtype) -> tuple[Tensor, Tensor, float, float]:
    """Inputs [width, n], a gradient [outputs, width], lambda and the step size."""
    width, samples, outputs = (
        int(torch.randint(low, high, (), generator=generator)) for low, high in ((2, 25), (1, 65), (1, 9))
    )
    powers = torch.rand(3, generator=generator)
    scale, regularisation, rate = (10 ** float(2 * p - 1) for p in powers)
    x = scale * torch.randn(width, samples, generator=generator)
    gradient = torch.randn(outputs, width, generator=generator)
    return x.to(dtype), gradient.to(dtype), regularisation**2, rate


def _median(values: list[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).median())
