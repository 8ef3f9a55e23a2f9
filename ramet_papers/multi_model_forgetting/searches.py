"""Figures 4, 5 and B and Table 1: architecture search with and without weight plasticity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ramet.ranking.metrics import Floats
from ramet.reports import Table
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed
from ramet_papers.claims import Claim
from ramet_papers.experiment import Experiment, Outcome, Row, tabled
from ramet_papers.multi_model_forgetting import judges
from ramet_papers.multi_model_forgetting.search_presets import DROPOUTS, PATH_DROPOUT, SEARCHES
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
from ramet_papers.workspace import Workspace

Pairs = list[tuple[Json, Json]]


def figure_4(experiment: Experiment) -> Outcome:
    """Error differences and rewards of an ENAS search for a recurrent cell; claims W4 and W6.

    The rewards are those of a longer run, where a preset has one: see ``search_presets``.
    """
    return _compared(experiment, "recurrent", "Figure 4", judges.judge_w4, judges.judge_w6)


def figure_b(experiment: Experiment) -> Outcome:
    """The same for a convolutional cell; claim W5."""
    return _compared(experiment, "convolutional", "Figure B", judges.judge_w5)


def _compared(
    experiment: Experiment,
    name: str,
    figure: str,
    judge: Callable[[judges.DifferenceFigures], Claim],
    judge_rewards: Callable[[judges.W6Figures], Claim] | None = None,
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
    claims = [judge(found)]
    if judge_rewards:
        longer = SEARCHES[experiment.preset_name].get("rewards")
        rewarded = (study, guard, pairs)
        if longer is not None:
            own, _, found_pairs = tune_and_compare(experiment.workspace, longer)
            rewarded = (longer, own, found_pairs)
        claims.append(judge_rewards(_reward_figures(experiment, *rewarded)))
    tables = [_difference_table(pairs, guard, f"{figure}: {name} search"), _tuning_table(tuned)]
    return Outcome(f"Multi-model forgetting, {figure}", tables, claims, [_setting(study)])


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
    jobs = {f"path dropping {n}": dropping.of(derive_seed(workspace.seed, n), "none") for n in range(study.seeds)}
    return list(run_searches(workspace, study.name, jobs).values())


def table_1(experiment: Experiment) -> Outcome:
    """The architectures found, trained from scratch; claim W8."""
    workspace, studies = experiment.workspace, SEARCHES[experiment.preset_name]
    rows: list[Row] = []
    found: dict[str, judges.Retrained] = {}
    for name, paper in (("recurrent", "65.01 to 61.9"), ("convolutional", "4.87 to 3.81")):
        guard, _, pairs = tune_and_compare(workspace, studies[name])
        errors = np.array([[final_error(run) for run in pair] for pair in pairs])  # [seeds, 2]
        found[name] = judges.Retrained(errors, train_random(workspace, studies[name]))
        without, guarded = errors.mean(axis=0)
        rows.append(
            {
                "search": name,
                "guard": guard,
                "without, test": without,
                "with, test": guarded,
                "gain": experiment.mean(errors[:, 0] - errors[:, 1]),
                "random architectures, test": experiment.mean(found[name].random),
                "paper": paper,
            }
        )
    figures = judges.W8Figures(
        command=experiment.command,
        setting="Perplexity for the recurrent, share of errors for the convolutional search; at random is the mean "
        f"of {studies['recurrent'].num_random} architectures. {_setting(studies['recurrent'])}",
        searches=found,
    )
    table = tabled(rows, "Table 1: what was found, trained from scratch")
    return Outcome("Multi-model forgetting, Table 1", [table], [judges.judge_w8(figures)])


def _reward_figures(experiment: Experiment, study: GuardedSearches, guard: str, pairs: Pairs) -> judges.W6Figures:
    early, late = (
        np.array([reward(guarded) - reward(without) for without, guarded in pairs])
        for reward in (early_reward, late_reward)
    )
    return judges.W6Figures(
        command=experiment.command,
        setting=f"{_setting(study)} Guard {guard}; the reward is 80 / perplexity on validation words.",
        early=early,
        late=late,
        alphas=guard_strengths(pairs[0][1]),
    )


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
