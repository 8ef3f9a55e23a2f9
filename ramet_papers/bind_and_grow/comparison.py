"""The comparison with other methods on permuted and on split images."""

from __future__ import annotations

from ramet.reports import Column
from ramet_papers.bind_and_grow.presets import PRESETS
from ramet_papers.bind_and_grow.trials import BindingTrials, compared
from ramet_papers.experiment import Experiment, Outcome, Row, mean_of, tabled, values


def comparison(experiment: Experiment) -> Outcome:
    """Average accuracy, backward transfer, parameters and time of each method, under the same training."""
    preset = PRESETS[experiment.preset_name]
    tables = []
    for label, stream_setting in (("permuted", preset.permuted), ("split", preset.split)):
        trials = BindingTrials(experiment, preset, stream_setting, "comparison", label)
        tasks = {method: (f"{label}/{method}", compared, {"method": method}) for method in preset.methods}
        results = trials.over_seeds(tasks, f"comparing methods on {stream_setting.source}")
        rows: list[Row] = [
            {
                "method": method,
                Column("average accuracy, %", best="highest"): experiment.mean(100 * values(own, "average_accuracy")),
                "backward transfer, points": 100 * mean_of(own, "backward_transfer"),
                "parameters": int(mean_of(own, "parameters")),
                "stored bytes": int(mean_of(own, "stored_bytes")),
                "seconds": mean_of(own, "seconds"),
            }
            for method, own in results.items()
        ]
        tables.append(tabled(rows, f"{stream_setting.source}, {preset.seeds} seeds (test images)"))
    return Outcome("Learn to bind and grow, comparison", tables, notes=[preset.setting(preset.split)])
