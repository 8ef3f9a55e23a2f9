"""`ramet rank --scores`: scores that a user has, from the command line, from files and from arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

import ramet
from ramet.cli import main
from ramet.errors import ConfigError, DataError
from ramet.ranking import compare_scores

CHILDREN = [f"child-{place}" for place in range(12)]
TRUTH = np.random.default_rng(0).uniform(60, 90, (2, 12)).round(2)
SHARED = np.random.default_rng(1).uniform(size=12).round(3)
PARAMS = np.arange(12) * 1000 + 500


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, str]:
    rows = [f"{name},{SHARED[i]},{PARAMS[i]}" for i, name in enumerate(CHILDREN)]
    (tmp_path / "scores.csv").write_text("\n".join(["arch,shared,params", *rows]))
    rows = [f"{name},{TRUTH[seed, i]}" for seed in range(2) for i, name in reversed(list(enumerate(CHILDREN)))]
    (tmp_path / "truth.csv").write_text("\n".join(["arch,accuracy", *rows, "child-x,50", "child-x,51"]))
    return str(tmp_path / "scores.csv"), str(tmp_path / "truth.csv")


def test_tables_are_matched_by_name_and_judged(
    tables: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores, truth = tables
    main(["rank", "--scores", scores, "--truth", truth, "--out", str(tmp_path / "run"), "--json"])
    found = json.loads(capsys.readouterr().out)
    mean = TRUTH.mean(axis=0)
    assert found["correlation"]["shared"]["tau"]["value"] == pytest.approx(kendalltau(SHARED, mean).statistic)
    assert abs(found["correlation"]["parameters"]["tau"]["value"]) == pytest.approx(
        abs(kendalltau(PARAMS, mean).statistic)
    )
    assert found["truth"]["seeds"] == 2 and found["left_out"] == 1
    np.testing.assert_allclose(found["truth"]["noise"], (TRUTH / 100).std(axis=0, ddof=1).mean())
    assert found["truth_unit"] == "percent"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "How far can these rankings be trusted?" in page and "precision at 1" in page
    main(["report", str(tmp_path / "run")])
    assert "correlation" in capsys.readouterr().out


def test_from_python_files_and_arrays_give_the_same(tables: tuple[str, str], tmp_path: Path) -> None:
    result = ramet.rank_scores(*tables, out=tmp_path / "run")
    arrays = compare_scores({"shared": SHARED, "parameters": PARAMS}, TRUTH / 100, names=CHILDREN)
    assert result.recommendation == arrays["recommendation"]
    assert result.correlation["shared"].tau.value == arrays["correlation"]["shared"]["tau"]["value"]
    assert ramet.rank_scores(*tables, out=tmp_path / "run").recommendation == result.recommendation
    alone = ramet.rank_scores(tables[0], out=tmp_path / "alone")
    assert alone.recommendation[0].startswith("No truth is known")


def test_what_does_not_fit_is_refused(tables: tuple[str, str], tmp_path: Path) -> None:
    scores, truth = tables
    Path(truth).write_text("arch,accuracy\nchild-0,70\nchild-1,80\n")
    with pytest.raises(DataError, match=r"lacks child-2 \(row 4 of scores.csv\)"):
        ramet.rank_scores(scores, truth, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    Path(scores).write_text("arch,shared\nchild-0,1\nchild-1,1\n")
    with pytest.raises(DataError, match="must tell children apart, but scores all 2 the same"):
        ramet.rank_scores(scores, truth, out=tmp_path / "run")
    with pytest.raises(ConfigError, match="the same children"):
        compare_scores({"a": [1, 2, 3]}, [1, 2])
    with pytest.raises(ConfigError, match="beside those by size"):
        compare_scores({"parameters": [1, 2, 3]}, [1, 2, 3])


def test_scores_need_a_truth_or_the_word_none(tables: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["rank", "--scores", tables[0]])
    assert caught.value.code == 2
    assert "need --truth FILE.csv or --truth none" in capsys.readouterr().err
