"""The language benchmark: its records, its tables, and a tiny version of all of it on Penn Treebank."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.language import growing, searching, tables
from benchmarks.language.__main__ import RECORDS, main
from benchmarks.language.model import LanguageModel
from benchmarks.language.records import Records
from benchmarks.language.training import train_by_hand
from ramet.searching.costs import ArchCosts
from ramet.seeding import torch_generator
from ramet.spaces import make_space


def test_a_record_is_measured_once(tmp_path):
    records = Records(tmp_path / "results" / "figures.jsonl")
    assert records.once(lambda: {"test": 1.5}, arm="a", seed=0)["test"] == 1.5
    again = Records(records.path)
    assert again.once(lambda: pytest.fail("it is there already"), arm="a", seed=0) == {
        "arm": "a",
        "seed": 0,
        "test": 1.5,
    }
    again.once(lambda: {"test": 2.5}, arm="a", seed=1)
    assert len(records.path.read_text().splitlines()) == 2


def test_parameters_of_all_architectures_add_up():
    space = make_space(searching.SPACE)
    costs = ArchCosts(space, (8,), 20)
    sizes = {arch: size for size, arch in searching.fitting(space, costs, float("inf"))}
    assert len(sizes) == len(space)
    generator = torch_generator(0, "test")
    for arch in (space[-1], *(space.sample(generator) for _ in range(3))):
        assert sizes[arch] == costs("params", arch)


def test_the_best_rate_of_the_tuning_seed_is_judged(tmp_path):
    records = Records(tmp_path / "figures.jsonl")
    for rate, validation in ((1.0, 3.0), (2.0, 2.0), (3.0, 2.5)):
        records.once(lambda v=validation: {"validation": v}, part="grown", arm="a", seed=growing.TUNING_SEED, rate=rate)
    scale = growing.Scale(rates=(1.0, 2.0, 3.0))
    assert growing.rates_of(scale, records, "a", growing.TUNING_SEED) == (1.0, 2.0, 3.0)
    assert growing.rates_of(scale, records, "a", 0) == (2.0,)


def test_the_page_has_the_tables_of_the_records():
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
    records = Records(RECORDS)
    for table in (tables.grown(records), tables.searched(records), tables.taught(records)):
        assert table and table in page


def test_the_loop_by_hand_takes_every_window_before_any_again():
    windows = torch.arange(24).reshape(6, 4)
    data = SimpleNamespace(train=SimpleNamespace(x=windows, y=windows))
    network, seen = LanguageModel(24, 4, 8, 1, 2), []
    network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    train_by_hand(network, data, growing.Scale(batch_size=2), 1e-2, seed=0, num_steps=6)
    for epoch in (seen[:3], seen[3:]):
        assert sorted(torch.cat(epoch).tolist()) == windows.tolist()


@pytest.mark.slow
@pytest.mark.realdata
def test_a_tiny_version_of_each_part(tmp_path, capsys):
    arguments = ["--tiny", "--records", str(tmp_path / "figures.jsonl"), "--out", str(tmp_path / "runs")]
    main(arguments)
    printed = capsys.readouterr().out
    assert all(part in printed for part in ("## Grown", "## Searched", "## Taught"))
    lines = (tmp_path / "figures.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]

    grown = {r["arm"]: r for r in records if r["part"] == "grown" and r["seed"] == 0}
    assert set(grown) == set(growing.ORDER)
    most = grown["scratch, same work"]["parameters"]
    assert all(0.9 * most < record["parameters"] <= most for record in grown.values())
    assert grown["scratch, same steps"]["steps"] == grown["grown, one schedule"]["steps"]
    assert all(0 < grown[arm]["own_work"] < grown[arm]["work"] for arm in growing.ARMS)

    searched = [r for r in records if r["part"] == "searched"]
    assert len(searched) == 2 + searching.NUM_RANDOM and all(r["parameters"] <= 20_000 for r in searched)

    (taught,) = (r for r in records if r["part"] == "taught")
    figures = {entry["method"]: entry for entry in taught["methods"]}
    for method in ("frozen", "adapters", "bind-and-grow"):
        assert figures[method]["after"] == figures[method]["before"], "bit for bit"
    assert figures["naive"]["after"] != figures["naive"]["before"]

    main(arguments)
    assert (tmp_path / "figures.jsonl").read_text().splitlines() == lines, "nothing is measured twice"
