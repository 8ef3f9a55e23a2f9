"""Tables of scores: per cent, several seeds in columns or rows, a deviation, and the row in which a file is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ramet.errors import DataError
from ramet.ranking.reliability import tau_of_noise, truth_figures
from ramet.ranking.tables import read_columns, read_scores
from ramet.ranking.truth import read_table
from ramet.spaces import Cells64, space_of
from ramet.spaces.own.module_space import Choice

MEANS = {"111": 70.0, "112": 80.0, "121": 90.0}


def written(folder: Path, text: str, name: str = "truth.csv") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_per_cent_is_read_as_shares(tmp_path: Path) -> None:
    source = written(tmp_path, "arch,acc\n" + "".join(f"{name},{value}\n" for name, value in MEANS.items()))
    table = read_scores(source)
    assert table.unit == "percent" and "read as per cent" in table.source
    np.testing.assert_allclose(table.scores, [[0.7, 0.8, 0.9]])
    space = Cells64()
    truth = read_table(source, space, [space.index(space.parse("121")), space.index(space.parse("111"))])
    np.testing.assert_allclose(truth.scores, [[0.9, 0.7]])
    assert read_scores(written(tmp_path, "arch,acc\n111,0.7\n112,0.9\n")).unit == "share"
    assert read_scores(written(tmp_path, "arch,loss\n111,2.7\n112,1.9\n")).unit == "score"


SEEDS = [[0.1, 0.2, 0.3], [0.3, 0.1, 0.5]]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("arch,seed0,seed1\na,0.1,0.3\nb,0.2,0.1\nc,0.3,0.5\n", ""),
        ("arch,one,other,remark,size\na,0.1,0.3,good,5\nb,0.2,0.1,bad,6\nc,0.3,0.5,good,7\n", ":one,other"),
        ("arch,acc\na,0.1\nb,0.2\nc,0.3\na,0.3\nb,0.1\nc,0.5\n", ""),
        ("arch,seed,acc\na,1,0.3\na,0,0.1\nc,0,0.3\nb,0,0.2\nb,1,0.1\nc,1,0.5\n", ""),
    ],
    ids=["numbered columns", "named columns", "a row a seed", "a column says the seed"],
)
def test_seeds_are_columns_or_rows(tmp_path: Path, text: str, columns: str) -> None:
    table = read_scores(written(tmp_path, text) + columns)
    order = [table.names.index(name) for name in "abc"]
    np.testing.assert_allclose(table.scores[:, order], SEEDS)
    assert "2 seeds" in table.source


def test_an_array_has_a_column_a_seed(tmp_path: Path) -> None:
    np.savez(tmp_path / "truth.npz", arch=np.array(["a", "b", "c"]), acc=np.transpose(SEEDS))
    np.testing.assert_allclose(read_scores(str(tmp_path / "truth.npz")).scores, SEEDS)


def test_a_deviation_tells_the_noise(tmp_path: Path) -> None:
    """The closed form against seeds that are drawn with that spread and that noise."""
    table = read_scores(written(tmp_path, "arch,mean,std,seeds\na,70,2,5\nb,80,4,5\n"))
    np.testing.assert_allclose(table.scores, [[0.7, 0.8]])
    assert table.deviation is not None and table.num_seeds == 5
    np.testing.assert_allclose(table.deviation, [0.02, 0.04])
    named = read_scores(written(tmp_path, "arch,top1,top1_std,other\na,0.7,0.02,1\nb,0.8,0.04,2\n") + ":top1")
    np.testing.assert_allclose(named.deviation, [0.02, 0.04])  # type: ignore[arg-type]

    generator = np.random.default_rng(0)
    true, noise = generator.normal(0, 1, 4000), 0.7
    seeds = true + generator.normal(0, noise, (4, 4000))
    drawn = truth_figures(seeds[:, :600], generator=generator)
    told = truth_figures(seeds.mean(axis=0)[None], np.full(4000, noise), 4, generator=generator)
    for name in ("reliability_of_one_seed", "reliability_of_halves"):
        assert told[name] == pytest.approx(drawn[name], abs=0.05)
    assert told["noise"] == pytest.approx(noise)
    assert told["reliability_of_one_seed"] == pytest.approx(tau_of_noise(1.0, noise), abs=0.02)
    assert drawn["halves"]["low"] < drawn["reliability_of_halves"] < drawn["halves"]["high"]


def test_each_column_is_a_ranking(tmp_path: Path) -> None:
    found = read_columns(written(tmp_path, "arch,shared,parameters\na,0.5,100\nb,0.6,200\n"))
    assert list(found) == ["shared", "parameters"]
    np.testing.assert_allclose(found["parameters"].scores, [[100, 200]])


def test_names_with_commas_are_quoted_or_short(tmp_path: Path) -> None:
    from torch import nn

    space = space_of(
        nn.Sequential(*(Choice([nn.Linear(2, 2), nn.Identity()], name=f"layer{place}") for place in range(3)))
    )
    names = [space.name(arch) for arch in space]
    assert [space.short_name(arch) for arch in space][:3] == ["000", "001", "010"]
    assert all(space.parse(space.short_name(arch)) == arch for arch in space)
    assert space.legend() == ["1 to 3 (layer0 to layer2): 0 0, 1 1"]
    quoted = "arch,acc\n" + "".join(f'"{name}",0.{place}\n' for place, name in enumerate(names))
    short = "arch,acc\n" + "".join(f"{space.short_name(arch)},0.{place}\n" for place, arch in enumerate(space))
    for text in (quoted, short):
        truth = read_table(written(tmp_path, text), space, range(8))
        np.testing.assert_allclose(truth.mean, np.arange(8) / 10)
    with pytest.raises(DataError, match="row 2 has 4: put what contains commas in quotes"):
        read_table(written(tmp_path, quoted.replace('"', "")), space, range(8))
