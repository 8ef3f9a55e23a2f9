"""The predictor by choices: against a twin that is fitted anew, and what it makes of noisy scores."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from ramet.ranking.analysis import Scores, analyse, rankings
from ramet.ranking.metrics import rank_correlation
from ramet.ranking.predictor import STRENGTHS, Ridge, can_smooth, features_of, smoothed
from ramet.spaces import Cells64


def test_the_ridge_leaves_out_as_one_that_is_fitted_anew() -> None:
    random = np.random.default_rng(0)
    features, targets = random.normal(size=(12, 5)), random.normal(size=12)
    model = Ridge(features, targets)
    assert model.strength in STRENGTHS
    z = (features - features.mean(axis=0)) / features.std(axis=0) / np.sqrt(5)
    for place in range(12):  # the features' scale is that of all; the mean is fitted without penalty
        rest = [row for row in range(12) if row != place]
        design = np.hstack([z[rest], np.ones((11, 1))])
        penalty = model.strength * np.diag([1.0] * 5 + [0.0])
        weights = np.linalg.solve(design.T @ design + penalty, design.T @ targets[rest])
        assert model.left_out[place] == pytest.approx(np.append(z[place], 1.0) @ weights, abs=1e-9)
    design = np.hstack([z, np.ones((12, 1))])
    weights = np.linalg.solve(design.T @ design + model.strength * np.diag([1.0] * 5 + [0.0]), design.T @ targets)
    assert model(features) == pytest.approx(design @ weights, abs=1e-9)


def test_the_ridge_takes_the_strength_that_leaves_out_best() -> None:
    random = np.random.default_rng(1)
    features = random.normal(size=(30, 3))
    assert Ridge(features, features @ [1.0, -2.0, 0.5]).strength == STRENGTHS[0]
    assert Ridge(features, random.normal(size=30)).strength > 1


def test_features_are_choices_and_ranks() -> None:
    features = features_of([(0, 1), (1, 2)], (2, 3), [[7.0, 900.0]])
    assert features[:, :5].tolist() == [[1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]
    assert features[:, 5].tolist() == [0.0, pytest.approx(2**0.5)]


def noisy_scores(noise: float, instances: int, combined: float = 0.0) -> tuple[np.ndarray[Any, Any], Any, Any]:
    """Scores of Cells64 that are sums over choices and, as far as asked for, over pairs of them; truth and features."""
    random = np.random.default_rng(0)
    archs = list(Cells64(channels=2, num_cells=1))
    own, pairs = random.normal(size=(3, 4)), random.normal(size=(4, 4))
    truth = np.array([own[range(3), arch].sum() + combined * pairs[arch[0], arch[1]] for arch in archs])
    return truth + noise * random.normal(size=(instances, 64)), truth, features_of(archs, (4, 4, 4), [])


def test_smoothing_takes_noise_away() -> None:
    scores, truth, features = noisy_scores(noise=2.0, instances=20)
    raw, fitted = ([rank_correlation(row, truth) for row in rows] for rows in (scores, smoothed(features, scores)))
    assert all(after > before for before, after in zip(raw, fitted, strict=True))
    # Ten numbers are fitted to 64: of the noise's variance about a sixth is left, where none of the signal goes.
    assert np.var(smoothed(features, scores) - truth) < np.var(scores - truth) / 3


def test_smoothing_loses_what_no_choice_explains() -> None:
    scores, truth, features = noisy_scores(noise=0.0, instances=1, combined=3.0)
    assert rank_correlation(smoothed(features, scores)[0], truth) < rank_correlation(scores[0], truth) == 1.0


def test_a_ranking_that_is_not_finite_stays() -> None:
    scores, _, features = noisy_scores(noise=1.0, instances=2)
    scores[0, 5] = -np.inf
    found = smoothed(features, scores)
    assert (found[0] == scores[0]).all() and (found[1] != scores[1]).all()


def measured(features: Any, instances: int = 3) -> Scores:
    scores, truth, _ = noisy_scores(noise=2.0, instances=instances)
    random = np.random.default_rng(1)
    return Scores(
        names=[str(number) for number in range(64)],
        epochs=scores[:, None],
        steps=scores[:, None],
        trained=np.full((instances, 1), -1),
        reestimated=scores + random.normal(size=scores.shape),
        params=random.normal(size=64),
        flops=random.normal(size=64),
        truth=truth + 2.0 * random.normal(size=(3, 64)),
        features=features,
    )


def test_a_diagnosis_smooths_the_mean_of_its_instances() -> None:
    scores = measured(noisy_scores(noise=0.0, instances=1)[2])
    named = rankings(scores)
    assert scores.features is not None
    fitted = Ridge(scores.features, scores.steps.mean(axis=(0, 1)))(scores.features)
    assert named["smoothed"].tolist() == [fitted.tolist()]
    fitted = Ridge(scores.features, scores.reestimated.mean(axis=0))(scores.features)
    assert named["reestimated, smoothed"].tolist() == [fitted.tolist()]
    assert set(named) - set(rankings(dataclasses.replace(scores, features=None))) == {
        "smoothed",
        "reestimated, smoothed",
    }


def test_a_seed_of_the_truth_is_held_against_the_others_alone() -> None:
    scores = measured(noisy_scores(noise=0.0, instances=1)[2])
    truth, features = scores.truth, scores.features
    assert truth is not None and features is not None
    found = analyse(scores)["truth"]
    for key, seeds in (("seed_with_others", truth), ("smoothed_with_others", smoothed(features, truth))):
        others = [truth[[other for other in range(3) if other != seed]].mean(axis=0) for seed in range(3)]
        taus = [rank_correlation(row, rest) for row, rest in zip(seeds, others, strict=True)]
        assert found[key]["value"] == pytest.approx(np.mean(taus), abs=1e-12)
    assert found["smoothed_with_others"]["value"] > found["seed_with_others"]["value"]
    assert "seed_with_others" not in analyse(dataclasses.replace(scores, features=None))["truth"]


@pytest.mark.parametrize(("children", "can"), [(64, True), (20, True), (19, False)])
def test_few_children_are_not_smoothed(children: int, can: bool) -> None:
    assert can_smooth(children, (4, 4, 4)) is can
