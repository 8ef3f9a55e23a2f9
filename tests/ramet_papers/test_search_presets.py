"""The presets of the two papers' searches have the papers' numbers, and guards that can act and fall within them."""

import pytest

from ramet.guards import make_guard
from ramet.training.recipes import final_settings
from ramet_papers.disturbance_immune.table_1 import PRESETS
from ramet_papers.multi_model_forgetting.search_presets import SEARCHES
from ramet_papers.searches import guard_at

STUDIES = {f"{preset}/{name}": study for preset, studies in SEARCHES.items() for name, study in studies.items()}


def alphas(study):
    plan = study.job.plan
    guard = make_guard(
        guard_at(study.guard, study.strengths[-1]), warmup_epochs=plan.guarded_from, num_epochs=plan.epochs
    )
    found = []
    for epoch in range(plan.epochs):
        guard.start_epoch(epoch)
        found.append(guard.alpha)
    return found


@pytest.mark.parametrize("name", STUDIES)
def test_alpha_is_whole_at_first_and_falls_before_the_end(name):
    study = STUDIES[name]
    found = alphas(study)[study.job.plan.guarded_from :]
    assert found[0] == study.strengths[-1] and found[-1] < 0.5 * found[0]
    assert sorted(found, reverse=True) == found


def test_alpha_over_the_epochs_of_the_papers_search_and_of_figure_4d():
    released = [0.0 if epoch < 5 else max(0.0, 60.0 - max(0, epoch - 15)) for epoch in range(150)]
    assert alphas(SEARCHES["paper"]["recurrent"]) == pytest.approx(released)
    long = alphas(SEARCHES["small"]["rewards"])
    assert len(long) == 40 and long[10] == 1e5 and 0 < long[29] < long[11] < 1e5 and long[30:] == [0.0] * 10
    assert SEARCHES["small"]["rewards"].seeds >= 12


def test_the_papers_convolutional_search_has_the_schedule_of_enas():
    """0.05 down to 0.0005 by a cosine, anew after 10, 30, 70, 150 epochs."""
    job = SEARCHES["paper"]["convolutional"].job
    rates = [job.recipe.learning_rate_at(epoch, job.recipe.epochs) for epoch in range(200)]
    assert [epoch for epoch in range(1, 150) if rates[epoch] > rates[epoch - 1]] == [10, 30, 70]
    assert all(rates[epoch] == pytest.approx(0.05) for epoch in (0, 10, 30, 70)) and min(rates) >= 0.0005


def test_the_disturbance_immune_search_and_its_final_training_have_rates_of_their_own():
    for preset in PRESETS.values():
        job = preset.job
        final = final_settings(job.recipe, job.plan.final_recipe)
        assert (job.recipe.learning_rate, final.learning_rate) == (0.1, 0.05)
        assert job.plan.guarded_from == 0 < job.plan.warmup_epochs
    assert (final.batch_size, final.weight_decay, final.momentum, final.final_learning_rate) == (128, 3e-4, 0.9, 0.0)
    assert job.recipe.learning_rate_at(100, 240) == 0.1 and (job.plan.warmup_epochs, job.plan.epochs) == (90, 240)
