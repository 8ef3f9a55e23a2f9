"""The diagnosis against the slow twin of plain_training.py, and what it does with truths, groups and children."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import plain_training
import pytest
import torch
from exactness import bits

from ramet.cli import main
from ramet.data import load
from ramet.errors import ConfigError
from ramet.execution import Inline
from ramet.jobs.data_options import NumericOptions
from ramet.jobs.rank import RankJob
from ramet.jobs.runner import start
from ramet.ranking import analysis, diagnosis, truth_source
from ramet.ranking.alone import train_alone
from ramet.ranking.plan import Plan
from ramet.registry import Spec
from ramet.runs import read_records
from ramet.seeding import torch_generator
from ramet.sharing import random_groups
from ramet.spaces import NasBench201, make_space
from ramet.training import Settings
from ramet.training.recipe import FIRST_FIELDS

# Eight children of the paper's space, as small as they come.
SPACE = {"channels": 2, "num_cells": 1, "operations": ["max_pool_3x3", "sep_conv_3x3"]}
DATA = {"train_size": 100, "eval_size": 50}
SETTINGS = Settings(epochs=2, batch_size=32, learning_rate=0.1, final_learning_rate=0.01)
PLAN = {"instances": 1, "last_steps": 3, "last_epochs": 2, "truth": "none", "fine_tune_steps": 0}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Any:
    """As every executor has it; the sums of the twin must be split in the same way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def diagnose(folder: Path, name: str = "run", **plan: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The result, and the records by key."""
    job = RankJob(
        space=str(Spec("cells64", options=SPACE)),
        data_options=NumericOptions(**DATA, seed=0),  # the data of the twin
        recipe=SETTINGS,
        seed=plan.pop("seed", 0),
        plan=Plan(**{**PLAN, **plan}),
        truth_cache=str(folder / "truth"),
    )
    result = start(job, folder / name, Inline())
    assert result is not None
    return result.to_json(), {record.pop("key"): record for record in read_records(folder / name)}


def without_losses(record: dict[str, Any]) -> dict[str, Any]:
    """A record without losses by child, whose last bits depend on how children are evaluated together."""
    return {key: value for key, value in record.items() if key != "by_loss"}


def twin(children: Any = range(8), **arguments: Any) -> dict[str, Any]:
    settings = {key: getattr(SETTINGS, key) for key in FIRST_FIELDS if key != "clip_norm"}
    settings |= arguments.pop("settings", {})
    return plain_training.instance(
        make_space("cells64", **SPACE), load(**DATA), list(children), settings, last_steps=3, **arguments
    )


# Against the twin


def test_an_instance_is_what_a_plain_loop_gives(tmp_path: Path) -> None:
    result, records = diagnose(tmp_path, instances=2, also=("momentum=0", "bn-momentum=0.1"))
    for number in range(2):
        expected = twin(number=number)
        assert bits(without_losses(records[f"instance-{number}/group-0"])) == bits(expected)
        assert bits(result["accuracy"]["last"][number]) == bits(expected["steps"][-1])
        assert bits(result["accuracy"]["averaged"][number]) == bits(np.mean(expected["steps"], axis=0).tolist())
        assert bits(result["accuracy"]["reestimated"][number]) == bits(expected["reestimated"])
    assert len({record["steps"][-1][0] for key, record in records.items() if key.endswith("group-0")}) > 1
    assert bits(without_losses(records["momentum=0/instance-0/group-0"])) == bits(twin(settings={"momentum": 0.0}))
    assert bits(without_losses(records["bn-momentum=0.1/instance-1/group-0"])) == bits(twin(number=1, bn_momentum=0.1))
    assert [row["variation"] for row in result["variations"]] == ["momentum=0", "bn-momentum=0.1"]
    assert result["children"] == ["111", "112", "121", "122", "211", "212", "221", "222"]


def test_groups_train_apart_and_their_children_come_back_in_order(tmp_path: Path) -> None:
    result, records = diagnose(tmp_path, sharing="groups:2:random", seed=5)
    groups = random_groups(8, 2, torch_generator(5, "groups"))
    assert groups != ((0, 1, 2, 3), (4, 5, 6, 7)), "otherwise the order of the columns is not tested"
    for place, group in enumerate(groups):
        expected = twin(group, group=place, seed=5)
        assert bits(without_losses(records[f"instance-0/group-{place}"])) == bits(expected)
        for child, scores in zip(group, np.transpose(expected["steps"]), strict=True):
            assert bits(result["accuracy"]["last"][0][child]) == bits(float(scores[-1]))
            assert result["accuracy"]["averaged"][0][child] == pytest.approx(scores.mean())
    assert [[int(name) for name in group] for group in result["groups"]] == [
        [int(result["children"][child]) for child in group] for group in groups
    ]


def test_fine_tuning_starts_from_the_last_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So its children are in the same order, and its snapshot is the trained network, in groups and instances."""
    seen: list[Any] = []

    def analyse(scores: Any, **options: Any) -> Any:
        seen.append(scores)
        return analysis.analyse(scores, **options)

    monkeypatch.setattr(diagnosis, "analyse", analyse)
    plan = {"sharing": "groups:2:random", "seed": 5, "instances": 2, "fine_tune_steps": 2, "fine_tune_instances": 2}
    diagnose(tmp_path, **plan)
    (scores,) = seen
    assert scores.fine_tuned.shape == (2, 3, 8)
    assert (scores.fine_tuned[:, 0] == scores.steps[:, -1]).all()
    assert (scores.fine_tuned[:, 2] != scores.steps[:, -1]).any()


@pytest.mark.parametrize("num_shared_cells", [0, 1])
def test_prefix_sharing_gives_each_child_its_own_rest(tmp_path: Path, num_shared_cells: int) -> None:
    _, records = diagnose(tmp_path, sharing=f"prefix:{num_shared_cells}")
    assert bits(without_losses(records["instance-0/group-0"])) == bits(twin(num_shared_cells=num_shared_cells))


def test_the_truth_is_what_a_plain_loop_gives(tmp_path: Path) -> None:
    result, records = diagnose(tmp_path, truth="train", truth_seeds=2, children=3, last_steps=1)
    space, data = make_space("cells64", **SPACE), load(**DATA)
    settings = {key: getattr(SETTINGS, key) for key in FIRST_FIELDS if key != "clip_norm"}
    children = [space.index(space.parse(name)) for name in result["children"]]
    assert len(children) == 3 and children == sorted(children)
    for seed in range(2):
        for place, child in enumerate(children):
            expected = plain_training.alone(space, data, child, seed, settings)
            assert bits(records[f"truth/child-{child}/seed-{seed}"]) == bits(expected)
            assert result["truth"]["seeds_scores"][seed][place] == expected["test"]
    # All children train, and only those that are drawn are scored.
    expected = twin(range(8), scored=children)
    assert records["instance-0/group-0"]["steps"][-1] == expected["steps"][-1]


# The truth

CALLS: list[tuple[int, int]] = []


def counted_train_alone(setup: Any, *, index: int, seed: int) -> dict[str, Any]:
    CALLS.append((index, seed))
    return train_alone(setup, index=index, seed=seed)


def test_no_child_is_trained_alone_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    monkeypatch.setattr(truth_source, "train_alone", counted_train_alone)
    monkeypatch.setattr(diagnosis, "train_alone", counted_train_alone)
    first, records = diagnose(tmp_path, "first", truth="train", truth_seeds=1, last_steps=1)
    assert sorted(CALLS) == [(child, 0) for child in range(8)]
    CALLS.clear()
    second, _ = diagnose(tmp_path, "second", truth="train", truth_seeds=1, last_steps=1)
    assert CALLS == []
    assert bits(second) == bits(first)
    more, more_records = diagnose(tmp_path, "third", truth="train", truth_seeds=2, last_steps=1)
    assert sorted(CALLS) == [(child, 1) for child in range(8)]
    assert all(bits(more_records[key]) == bits(records[key]) for key in records if key.startswith("truth/"))
    assert more["truth"]["seeds"] == 2


def test_a_torn_line_of_the_cache_is_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth_source, "train_alone", counted_train_alone)
    monkeypatch.setattr(diagnosis, "train_alone", counted_train_alone)
    first, _ = diagnose(tmp_path, "first", truth="train", truth_seeds=1, children=3, last_steps=1)
    (path,) = (tmp_path / "truth").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    CALLS.clear()
    second, _ = diagnose(tmp_path, "second", truth="train", truth_seeds=1, children=3, last_steps=1)
    assert len(CALLS) == 1
    assert bits(second) == bits(first)
    CALLS.clear()
    diagnose(tmp_path, "third", truth="train", truth_seeds=1, children=3, last_steps=1)
    assert CALLS == [], "the torn line did not spoil the one after it"


def test_a_table_is_taken_as_the_truth(tmp_path: Path) -> None:
    scores = {name: index / 10 for index, name in enumerate(["212", "111", "122", "222", "112", "121", "211", "221"])}
    lines = ["arch,remark,score", *(f"{name},good,{score}" for name, score in scores.items())]
    (tmp_path / "truth.csv").write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    result, records = diagnose(tmp_path, truth=f"table:{tmp_path / 'truth.csv'}", last_steps=1)
    assert result["truth"]["mean"] == [scores[name] for name in result["children"]]
    assert result["truth_source"] == "truth.csv, column score"
    assert not any(key.startswith("truth/") for key in records)
    assert not (tmp_path / "truth").exists()
    assert any(line.startswith("The truth has a single seed") for line in result["recommendation"])


# The command line


SMALL = ["--epochs", "1", "--train-size", "40", "--eval-size", "20", "--last-steps", "2", "--fine-tune-steps", "1"]
OWN_SPACE = """
from torch import nn
from ramet.spaces import Choice

def network(in_channels, num_classes):
    return nn.Sequential(
        nn.Conv2d(in_channels, 4, 3),
        Choice({"relu": nn.ReLU(), "tanh": nn.Tanh(), "conv": nn.Conv2d(4, 4, 3, padding=1)}),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(4 * 36, num_classes),
    )
"""


def test_a_few_children_of_a_large_space_are_ranked_by_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = NasBench201()
    chosen = Plan(children=6, seed=3).scored(space)
    lines = [f"{space.name(space[child])},{child % 7}" for child in chosen]
    (tmp_path / "table.csv").write_text("\n".join(["arch,accuracy", *lines]))
    main([
        "rank", *SMALL, "--instances", "1", "--space", "nasbench201", "--channels", "2", "--cells", "1",
        "--children", "6", "--seed", "3",
        "--truth", f"table:{tmp_path / 'table.csv'}:accuracy", "--out", str(tmp_path / "run"), "--json",
    ])  # fmt: skip
    out, err = capsys.readouterr()
    assert err == "", "no progress bar where there is no terminal"
    result = json.loads(out)
    assert out.count("\n") == 1 and out.endswith("}\n")
    assert result["children"] == [space.name(space[child]) for child in chosen]
    assert result["truth"]["mean"] == [child % 7 for child in chosen]
    (record,) = (record for record in read_records(tmp_path / "run") if record["key"] == "result")
    assert record["recommendation"] == result["recommendation"]
    main(["report", str(tmp_path / "run"), "--json"])
    assert json.loads(capsys.readouterr().out) == result


@pytest.mark.slow
def test_a_space_of_ones_own_gives_the_same_with_two_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_space_for_workers.py").write_text(OWN_SPACE)
    results, records = [], []
    for workers in ("1", "2"):
        main([
            "rank", *SMALL, "--space", f"{tmp_path / 'own_space_for_workers.py'}:network", "--instances", "2",
            "--truth-seeds", "2", "--truth-cache", str(tmp_path / f"truth-{workers}"), "--workers", workers,
            "--out", str(tmp_path / workers), "--json",
        ])  # fmt: skip
        out, err = capsys.readouterr()
        assert err == ""
        results.append(json.loads(out))
        records.append(sorted(read_records(tmp_path / workers), key=lambda record: record["key"]))
    assert results[0] == results[1]
    assert bits(records[0]) == bits(records[1])
    assert results[0]["children"] == ["1=relu", "1=tanh", "1=conv"]
    assert sum(record["key"].startswith("truth/") for record in records[0]) == 6


def test_children_of_one_size_are_not_said_to_beat_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = OWN_SPACE.replace(', "conv": nn.Conv2d(4, 4, 3, padding=1)', "")
    assert code != OWN_SPACE
    (tmp_path / "own_space_of_one_size.py").write_text(code)
    (tmp_path / "truth.csv").write_text("arch,score\n1=relu,1\n1=tanh,2\n")
    main([
        "rank", "--epochs", "4", *SMALL[2:], "--instances", "1", "--out", str(tmp_path / "run"),
        "--space", f"{tmp_path / 'own_space_of_one_size.py'}:network",
        "--truth", f"table:{tmp_path / 'truth.csv'}",
    ])  # fmt: skip
    out = capsys.readouterr().out
    assert "All children have the same size" in out
    assert "It beats" not in out


def test_a_projection_tells_how_much_it_leaves_open(tmp_path: Path) -> None:
    result, records = diagnose(tmp_path, guard="projection", instances=2)
    shares = [records[f"instance-{i}/group-0"]["guard"]["open_share"] for i in range(2)]
    assert result["guard"]["open_share"] == pytest.approx(np.mean(shares))
    assert 0 < result["guard"]["least_open_share"] <= result["guard"]["open_share"] < 1
    (sentence,) = [line for line in result["recommendation"] if line.startswith("The guard leaves")]
    assert f"{result['guard']['open_share']:.0%}" in sentence


def test_children_take_turns_of_several_mini_batches(tmp_path: Path) -> None:
    """By turns of two the same children follow each other as mini-batch by mini-batch."""
    orders = []
    for turn in (1, 2):
        _, records = diagnose(tmp_path, f"run-{turn}", batches_per_model=turn, last_steps=100)
        orders.append(records["instance-0/group-0"]["trained"])
    assert orders[1] == [orders[0][step // 2] for step in range(len(orders[0]))]


def test_a_penalty_that_could_not_act_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must last at least 2 mini-batches, but got 1; give --batches-per-model 7"):
        diagnose(tmp_path, guard="plasticity:60")
    assert not (tmp_path / "run").exists()
    result, _ = diagnose(tmp_path, guard="plasticity:60:warmup_epochs=0", batches_per_model=2)
    assert result["guard"]["guarded_values"] > 0
    diagnose(tmp_path, "mean", guard="plasticity:60:towards=mean")


def test_without_a_guard_nothing_is_said_of_one(tmp_path: Path) -> None:
    result, _ = diagnose(tmp_path)
    assert result["guard"] == {}
    assert not any("guard" in line for line in result["recommendation"])


def test_groups_by_an_edge_score_the_children_that_are_drawn(tmp_path: Path) -> None:
    """A supernet for each option of the second decision; all its children train, those drawn are scored."""
    result, records = diagnose(tmp_path, sharing="edge:1", children=5, seed=2)
    space = make_space("cells64", **SPACE)
    scored = [space.index(space.parse(name)) for name in result["children"]]
    for option in range(2):
        group = [index for index in range(8) if space[index][1] == option]
        members = [index for index in group if index in scored]
        assert 0 < len(members) < len(group)
        expected = twin(group, group=option, seed=2, scored=members)
        assert bits(without_losses(records[f"instance-0/group-{option}"])) == bits(expected)
        for child, value in zip(members, expected["steps"][-1], strict=True):
            assert result["accuracy"]["last"][0][scored.index(child)] == value
