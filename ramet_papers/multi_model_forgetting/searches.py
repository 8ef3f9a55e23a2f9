"""Figures 4, 5 and B and Table 1: architecture search with and without weight plasticity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ramet.ranking.intervals import mean_interval
from ramet.reports import Table
from ramet.runs.encoding import Json
from ramet.seeding import derive_seed, numpy_generator
from ramet_papers.claims import Claim
from ramet_papers.multi_model_forgetting.search_presets import DROPOUTS, PATH_DROPOUT, SEARCHES
from ramet_papers.searches import (
    DIFFERENCES,
    GuardedSearches,
    differences,
    final_error,
    late_reward,
    mean_difference,
    reduction,
    run_searches,
    train_random,
    tune_and_compare,
    with_space,
)
from ramet_papers.workspace import Outcome, Workspace

Pairs = list[tuple[Json, Json]]
COMMAND = "ramet reproduce multi-model-forgetting/{} --preset {}"


def figure_4(workspace: Workspace, preset: str) -> Outcome:
    """Error differences and rewards of an ENAS search for a recurrent cell; claims W4 and W6."""
    study = SEARCHES[preset]["recurrent"]
    guard, tuned, pairs = tune_and_compare(workspace, study)
    claims = [
        _difference_claim(
            workspace, "W4", "ENAS RNN search", "-95 / -59 / -51 %", study, guard, pairs, "figure-4", preset
        ),
        _reward_claim(workspace, study, guard, pairs, preset),
    ]
    tables = [_difference_table(pairs, guard, "Figure 4: recurrent search"), _tuning_table(tuned)]
    return Outcome("Multi-model forgetting, Figure 4", tables, claims, [_setting(study)]).kept(workspace.results)


def figure_b(workspace: Workspace, preset: str) -> Outcome:
    """The same for a convolutional cell; claim W5."""
    study = SEARCHES[preset]["convolutional"]
    guard, tuned, pairs = tune_and_compare(workspace, study)
    claim = _difference_claim(workspace, "W5", "ENAS CNN search", "Fig. B", study, guard, pairs, "figure-B", preset)
    tables = [_difference_table(pairs, guard, "Figure B: convolutional search"), _tuning_table(tuned)]
    return Outcome("Multi-model forgetting, Figure B", tables, [claim], [_setting(study)]).kept(workspace.results)


def figure_5(workspace: Workspace, preset: str) -> Outcome:
    """Error differences of a NAO search at four rates of output dropout, and with path dropping instead; claim W7."""
    base = SEARCHES[preset]["nao"]
    generator = numpy_generator(workspace.seed, "figure-5")
    rows: list[list[Any]] = []
    spreads, lower = [], []
    for rate in DROPOUTS:
        study = replace(base, name=f"{base.name}-{rate:g}", job=with_space(base.job, output_dropout=rate))
        guard, _, pairs = tune_and_compare(workspace, study)
        values = differences(pairs, "difference_best5")  # [seeds, 2]
        without, guarded = values.mean(axis=0)
        gains = values[:, 0] - values[:, 1]  # [seeds]
        lower.append(guarded < without)
        gain = mean_interval(gains, generator=generator)
        spreads.append(f"{rate:g}: {gain.text()}, in {int((gains > 0).sum())} of {len(gains)} seeds")
        dropped = _with_path_dropping(workspace, study)
        row = [rate, without, guarded, np.mean([mean_difference(run, "difference_best5") for run in dropped]), guard]
        rewards = [[late_reward(pair[side]) for pair in pairs] for side in (0, 1)]
        rows.append([*row, *map(np.mean, [*rewards, [late_reward(run) for run in dropped]])])
    columns = ["output dropout", "best five, without", "with", "path dropping", "guard"]
    columns += ["late reward, without", "reward with", "reward, path dropping"]
    claim = Claim(
        id="W7",
        claim="Plasticity lowers the error differences of NAO at every rate of output dropout.",
        paper="Figure 5",
        ours="; ".join(f"{row[0]:g}: {row[1]:.3g} to {row[2]:.3g}" for row in rows),
        spread="lower by " + "; ".join(spreads),
        seeds=base.seeds,
        holds=all(lower),
        command=COMMAND.format("figure-5", preset),
        note=f"{_setting(base)} Best five of an epoch, means over seeds; guard {base.guard}:{base.strengths[0]:g}.",
    )
    table = Table(columns, rows, title="Figure 5: NAO, perplexity at an epoch's end less right after training")
    return Outcome("Multi-model forgetting, Figure 5", [table], [claim], [_setting(base)]).kept(workspace.results)


def _with_path_dropping(workspace: Workspace, study: GuardedSearches) -> list[Json]:
    """The unguarded searches of a study once more, with nodes left out at random (Bender et al., 2018)."""
    dropping = replace(study, job=with_space(study.job, path_dropout=PATH_DROPOUT))
    jobs = {f"path dropping {n}": dropping.of(derive_seed(workspace.seed, n), "none") for n in range(study.seeds)}
    return list(run_searches(workspace, study.name, jobs).values())


def table_1(workspace: Workspace, preset: str) -> Outcome:
    """The architectures found, trained from scratch; claim W8."""
    rows: list[list[Any]] = []
    gains = {}
    generator = numpy_generator(workspace.seed, "table-1")
    for name, paper in (("recurrent", "65.01 to 61.9"), ("convolutional", "4.87 to 3.81")):
        study = SEARCHES[preset][name]
        guard, _, pairs = tune_and_compare(workspace, study)
        errors = np.array([[final_error(run) for run in pair] for pair in pairs])  # [seeds, 2]
        gains[f"{name} ({study.seeds} seeds)"] = gain = mean_interval(errors[:, 0] - errors[:, 1], generator=generator)
        random = mean_interval(train_random(workspace, study), generator=generator)
        rows.append([name, guard, *errors.mean(axis=0), gain, random, paper])
    columns = ["search", "guard", "without, test", "with, test", "gain", "random architectures, test", "paper"]
    claim = Claim(
        id="W8",
        claim="The architecture found with plasticity is better when it is trained alone.",
        paper="65.01 to 61.9; 4.87 to 3.81",
        ours="; ".join(f"{row[0]}: {row[2]:.4g} to {row[3]:.4g}, at random {row[5].value:.4g}" for row in rows),
        spread="; ".join(f"gain of {name} {gain.low:.3g} to {gain.high:.3g}" for name, gain in gains.items()),
        seeds=SEARCHES[preset]["recurrent"].seeds,
        holds=all(gain.is_above_zero for gain in gains.values()),
        command=COMMAND.format("table-1", preset),
        note=f"Perplexity for the recurrent, share of errors for the convolutional search; at random is the mean of "
        f"{SEARCHES[preset]['recurrent'].num_random} architectures. " + _setting(SEARCHES[preset]["recurrent"]),
    )
    table = Table(columns, rows, title="Table 1: what was found, trained from scratch")
    return Outcome("Multi-model forgetting, Table 1", [table], [claim]).kept(workspace.results)


def _difference_claim(
    workspace: Workspace,
    id: str,
    what: str,
    paper: str,
    study: GuardedSearches,
    guard: str,
    pairs: Pairs,
    figure: str,
    preset: str,
) -> Claim:
    shares, spreads, gains = [], [], []
    generator = numpy_generator(workspace.seed, figure)
    for key, words in DIFFERENCES.items():
        values = differences(pairs, key)  # [seeds, 2]
        without, guarded = values.mean(axis=0)
        lower = values[:, 0] - values[:, 1]  # [seeds]
        shares.append(reduction(without, guarded))
        gains.append(mean_interval(lower, generator=generator))
        spreads.append(
            f"{words} {without:.3g} to {guarded:.3g}, lower by {gains[-1].text()} and in {int((lower > 0).sum())} of "
            f"{len(lower)} seeds"
        )
    forgetting = differences(pairs, "difference_mean")[:, 0].mean() > 0
    note = "" if forgetting else " Without the guard nothing is forgotten on average: there is nothing to lower."
    if not gains[0].is_above_zero:
        note += " Over seeds the difference of the means cannot be told from 0."
    return Claim(
        id=id,
        claim=f"{what}: plasticity lowers the mean error difference.",
        paper=paper,
        ours=" / ".join(f"{-100 * share:+.0f} %" for share in shares) + " (mean / best five / largest)",
        spread="; ".join(spreads),
        seeds=study.seeds,
        holds=bool(forgetting and shares[0] >= 0.5 and gains[0].is_above_zero),
        command=COMMAND.format(figure, preset),
        note=f"{_setting(study)} Guard {guard}, the strongest that costs at most 5 % of the reward on other seeds."
        + note
        + study.remark,
    )


def _reward_claim(workspace: Workspace, study: GuardedSearches, guard: str, pairs: Pairs, preset: str) -> Claim:
    gains = [late_reward(guarded) - late_reward(without) for without, guarded in pairs]
    gain = mean_interval(gains, generator=numpy_generator(workspace.seed, "figure-4"))
    return Claim(
        id="W6",
        claim="With plasticity the reward is higher in the second half of the search.",
        paper="Fig. 4d",
        ours=f"{gain.value:+.3g}",
        spread=f"interval {gain.low:+.3g} to {gain.high:+.3g}",
        seeds=study.seeds,
        holds=gain.is_above_zero,
        command=COMMAND.format("figure-4", preset),
        note=f"{_setting(study)} Guard {guard}; the reward is 80 / perplexity on validation words.",
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
        f"{plan.models_per_epoch} children x {plan.batches_per_model} mini-batches, {plan.warmup_epochs} of warm-up."
    )
