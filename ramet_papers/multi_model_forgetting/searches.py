"""Figures 4, 5 and B and Table 1: architecture search with and without weight plasticity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ramet.ranking.metrics import Floats
from ramet.ranking.setup import SupernetSetup
from ramet.reports import Table
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet.spaces import Arch, Cells64
from ramet_papers.claims import Claim
from ramet_papers.deeper_insights import presets as deeper
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.multi_model_forgetting import judges
from ramet_papers.multi_model_forgetting.search_presets import (
    DROPOUTS,
    PATH_DROPOUT,
    PATH_DROPPING_SEEDS,
    SEARCHES,
)
from ramet_papers.searches import (
    DIFFERENCES,
    GuardedSearches,
    differences,
    early_reward,
    final_error,
    guard_strengths,
    late_reward,
    mean_difference,
    reduction,
    run_searches,
    train_random,
    tune_and_compare,
    with_space,
)
from ramet_papers.truth import cached_truth
from ramet_papers.workspace import Workspace

Pairs = list[tuple[Json, Json]]


def figure_4(experiment: Experiment) -> Outcome:
    """Error differences of an ENAS search for a recurrent cell; claim W4."""
    return _compared(experiment, "recurrent", "Figure 4", judges.judge_w4)


def figure_4d(experiment: Experiment) -> Outcome:
    """The rewards of such a search over a run that is long enough for alpha to be large and to fall; claim W6."""
    studies = SEARCHES[experiment.preset_name]
    study = studies.get("rewards", studies["recurrent"])
    guard, tuned, pairs = tune_and_compare(experiment.workspace, study)
    early, late = (
        np.array([[reward(run) for run in pair] for pair in pairs]) for reward in (early_reward, late_reward)
    )  # [seeds, 2]
    figures = judges.W6Figures(
        command=experiment.command,
        setting=f"{_setting(study)} Guard {guard}; the reward is 80 / perplexity on validation words.",
        early=early[:, 1] - early[:, 0],
        late=late[:, 1] - late[:, 0],
        alphas=guard_strengths(pairs[0][1]),
    )
    rows: list[Row] = [
        {"half": half, "without guard": rewards[:, 0].mean(), guard: rewards[:, 1].mean()}
        for half, rewards in (("first", early), ("second", late))
    ]
    tables = [tabled(rows, "Figure 4d: reward in both halves of the rewarded epochs"), _tuning_table(tuned)]
    return Outcome("Multi-model forgetting, Figure 4d", tables, [judges.judge_w6(figures)], [_setting(study)])


def figure_b(experiment: Experiment) -> Outcome:
    """The same as Figure 4 for a convolutional cell; claim W5."""
    return _compared(experiment, "convolutional", "Figure B", judges.judge_w5)


def _compared(
    experiment: Experiment, name: str, figure: str, judge: Callable[[judges.DifferenceFigures], Claim]
) -> Outcome:
    study = SEARCHES[experiment.preset_name][name]
    guard, tuned, pairs = tune_and_compare(experiment.workspace, study)
    found = judges.DifferenceFigures(
        command=experiment.command,
        setting=f"{_setting(study)} Guard {guard}, the strongest that costs at most 5 % of the reward on other seeds.",
        mean=differences(pairs, "difference_mean"),
        best_five=differences(pairs, "difference_best5"),
        largest=differences(pairs, "difference_max"),
        remark=study.remark,
    )
    tables = [_difference_table(pairs, guard, f"{figure}: {name} search"), _tuning_table(tuned)]
    return Outcome(f"Multi-model forgetting, {figure}", tables, [judge(found)], [_setting(study)])


def figure_5(experiment: Experiment) -> Outcome:
    """Error differences of a NAO search at four rates of output dropout, and with path dropping instead; claim W7."""
    workspace, base = experiment.workspace, SEARCHES[experiment.preset_name]["nao"]
    rows: list[Row] = []
    found: dict[float, Floats] = {}
    for rate in DROPOUTS:
        study = replace(base, name=f"{base.name}-{rate:g}", job=with_space(base.job, output_dropout=rate))
        guard, _, pairs = tune_and_compare(workspace, study)
        found[rate] = differences(pairs, "difference_best5")  # [seeds, 2]
        without, guarded = found[rate].mean(axis=0)
        dropped = _with_path_dropping(workspace, study)
        rows.append(
            {
                "output dropout": rate,
                "best five, without": without,
                "with": guarded,
                "path dropping": np.mean([mean_difference(run, "difference_best5") for run in dropped]),
                "guard": guard,
                "late reward, without": np.mean([late_reward(plain) for plain, _ in pairs]),
                "reward with": np.mean([late_reward(run) for _, run in pairs]),
                "reward, path dropping": np.mean([late_reward(run) for run in dropped]),
            }
        )
    figures = judges.W7Figures(
        command=experiment.command,
        setting=f"{_setting(base)} Best five of an epoch, means over seeds; guard {guard}.",
        differences=found,
    )
    table = tabled(rows, "Figure 5: NAO, perplexity at an epoch's end less right after training")
    return Outcome("Multi-model forgetting, Figure 5", [table], [judges.judge_w7(figures)], [_setting(base)])


def _with_path_dropping(workspace: Workspace, study: GuardedSearches) -> list[Json]:
    """The unguarded searches of a study once more, with nodes left out at random (Bender et al., 2018)."""
    dropping = replace(study, job=with_space(study.job, path_dropout=PATH_DROPOUT))
    count = min(study.seeds, PATH_DROPPING_SEEDS)
    jobs = {f"path dropping {n}": dropping.of(derive_seed(workspace.seed, n), "none") for n in range(count)}
    return list(run_searches(workspace, study.name, jobs).values())


def table_1(experiment: Experiment) -> Outcome:
    """The architectures found, and what they reach alone; claim W8.

    They are trained from scratch, or, where a preset searches a space whose children have all been trained alone, their
    errors are looked up.
    """
    workspace, studies = experiment.workspace, SEARCHES[experiment.preset_name]
    rows: list[Row] = []
    found: dict[str, judges.Retrained] = {}
    papers = {"recurrent": "65.01 to 61.9", "convolutional": "4.87 to 3.81"}
    asked = ["cells64"] if "cells64" in studies else list(papers)
    for name in asked:
        study = studies[name]
        guard, _, pairs = tune_and_compare(workspace, study)
        if name == "cells64":
            found[name] = looked_up(pairs, _known_errors(experiment))
        else:
            errors = np.array([[final_error(run) for run in pair] for pair in pairs])  # [seeds, 2]
            found[name] = judges.Retrained(errors, train_random(workspace, study))
        without, guarded = found[name].errors.mean(axis=0)
        rows.append(
            {
                "search": name,
                "guard": guard,
                "without, test": without,
                "with, test": guarded,
                "gain": experiment.mean(found[name].errors[:, 0] - found[name].errors[:, 1]),
                "random architectures, test": experiment.mean(found[name].random),
                "paper": papers.get(name),
            }
        )
    settings = " ".join(
        f"{_setting(studies[name])} Guard {row['guard']}." for name, row in zip(asked, rows, strict=True)
    )
    figures = judges.W8Figures(
        command=experiment.command,
        setting=f"Shares of errors, or perplexities of a recurrent cell; at random is the mean of the space or of "
        f"architectures drawn from it. {settings}",
        searches=found,
    )
    table = tabled(rows, "Table 1: what was found, trained from scratch")
    return Outcome("Multi-model forgetting, Table 1", [table], [judges.judge_w8(figures)])


def looked_up(pairs: Pairs, known: Mapping[Arch, float]) -> judges.Retrained:
    """The errors of what searches without and with a guard found, in a space of which all errors are known."""
    errors = [[known[tuple(run["result"]["candidates"][0]["arch"])] for run in pair] for pair in pairs]
    return judges.Retrained(np.array(errors), np.array(list(known.values())))


def _known_errors(experiment: Experiment) -> dict[Arch, float]:
    """The error of every child of ``Cells64`` trained alone, the mean over the seeds of the truth."""
    workspace, setting = experiment.workspace, deeper.BENCHES[experiment.preset_name]
    data = workspace.load(setting.data, setting.data_options)
    setup = SupernetSetup(Cells64(**setting.space_options), data, setting.settings)
    accuracies = cached_truth(workspace, setup, setting.truth_seeds).mean(axis=0)
    return {tuple(setup.space[index]): 1 - float(one) for index, one in enumerate(accuracies)}


def _difference_table(pairs: Pairs, guard: str, title: str) -> Table:
    rows: list[list[Any]] = []
    for key, words in DIFFERENCES.items():
        without, guarded = differences(pairs, key).mean(axis=0)
        rows.append([f"error difference, {words}", without, guarded, reduction(without, guarded)])
    late = [float(np.mean([late_reward(pair[side]) for pair in pairs])) for side in (0, 1)]
    rows.append(["reward, second half", *late, reduction(*late)])
    return Table(["", "without guard", guard, "lower by (share)"], rows, title=title)


def _tuning_table(rewards: dict[float, float]) -> Table:
    return Table(["strength", "reward, second half"], [list(row) for row in rewards.items()], title="Strengths tried")


def _setting(study: GuardedSearches) -> str:
    plan, job = study.job.plan, study.job
    return (
        f"{job.space} on {job.data} {job.data_options.given()}; {plan.epochs} epochs of "
        f"{plan.models_per_epoch} children x {plan.batches_per_model} mini-batches, {plan.warmup_epochs} of warm-up "
        f"({plan.guarded_from} of the guard)."
    )
