"""Section 4 as figures: the iterative update is the closed form, and Theorem 4.1 on random instances."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ramet.execution import WorkItem
from ramet.guards.closing import close_directions, close_one_by_one, closed_form, theorem_bound, tight_bound
from ramet.ranking.setup import SupernetSetup
from ramet.reports import Column
from ramet.reports.formats import significant
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, torch_generator
from ramet_papers.disturbance_immune.judges import TOLERANCE, I5Figures, judge_i5
from ramet_papers.disturbance_immune.presets import PRESETS
from ramet_papers.experiment import Experiment, Outcome, Row, tabled


def check_instances(setup: SupernetSetup, *, num_instances: int, seed: int, dtype: str) -> Json:
    """Compare the three forms of P, and the change of the outputs with its bounds, on random instances.

    Widths are from 2 to 24, samples from 1 to 64, lambda from 0.01 to 100, and inputs have a scale from 0.1 to 10.

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


def theorem(experiment: Experiment) -> Outcome:
    """Eq. 7 against Eq. 8 and its block form, and Theorem 4.1 with a tighter bound beside it."""
    preset = PRESETS[experiment.preset_name]
    subject = (preset.space_options, preset.sequence_settings)
    trials = preset.trials(experiment, "theorem", *subject, instances=preset.num_instances)
    seed = derive_seed(experiment.workspace.seed, "theorem")
    asked = {"num_instances": preset.num_instances, "seed": seed}
    tasks = {dtype: [WorkItem(dtype, check_instances, {**asked, "dtype": dtype})] for dtype in TOLERANCE}
    results = {dtype: found for dtype, (found,) in trials.finish(tasks).items()}
    rows: list[Row] = [
        {
            "precision": dtype,
            Column("allowed", significant): TOLERANCE[dtype],
            Column("Eq. 8, one by one", significant): max(result["one_by_one"]),
            Column("Eq. 8, in a block", significant): max(result["block"]),
        }
        for dtype, result in results.items()
    ]
    equality = tabled(rows, "Largest difference to the closed form, Eq. 7")
    exact = results["float64"]
    shares = [share for share, spans in zip(exact["of_theorem"], exact["spanning"], strict=True) if spans]
    bounds = {
        "Theorem 4.1 (inputs that span the space)": shares,
        "half the root of lambda (all inputs)": exact["of_tight"],
    }
    rows = [
        {
            "bound": name,
            "instances": len(found),
            "broken": sum(share > 1 for share in found),
            Column("largest share", significant): max(found),
            Column("median share", significant): float(torch.tensor(found, dtype=torch.float64).median()),
        }
        for name, found in bounds.items()
    ]
    figures = I5Figures(
        command=experiment.command,
        setting="Random inputs, gradients, lambdas and step sizes; seeds are instances. The bound is loose, and "
        "infinite for inputs that do not span the space; half the root of lambda times the update's size holds for "
        "all.",
        differences={dtype: np.array([r["one_by_one"], r["block"]]) for dtype, r in results.items()},
        shares=np.array(shares),
        instances=preset.num_instances,
    )
    tables = [equality, tabled(rows, "Change of the outputs as a share of its bound")]
    return Outcome("Disturbance-immune weight sharing, section 4", tables, [judge_i5(figures)])


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
