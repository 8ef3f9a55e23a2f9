"""Table 1 by methods and Table 2 of the disturbance-immune paper, at a size for a test."""

from dataclasses import replace

import pytest

from ramet.execution import Inline
from ramet.jobs.data_options import TextOptions
from ramet.jobs.search import SearchJob
from ramet.searching import SearchPlan
from ramet.training import Recipe
from ramet_papers import TARGETS, Workspace
from ramet_papers.disturbance_immune.table_1 import PRESETS
from ramet_papers.disturbance_immune.table_1_rows import STRATEGIES, searches_of
from ramet_papers.disturbance_immune.table_2 import PRESETS as IMAGENET
from ramet_papers.disturbance_immune.table_2 import table_2
from ramet_papers.searches import GuardedSearches

TINY = GuardedSearches(
    name="tiny",
    guard="projection",
    strengths=(1.0,),
    seeds=1,
    num_random=1,
    job=SearchJob(
        space="darts:channels=2,num_cells=2,num_nodes=1",
        data="digits",
        data_options=TextOptions(train_size=40, eval_size=16),
        recipe=Recipe(batch_size=8, learning_rate=0.1),
        plan=SearchPlan(
            epochs=2,
            warmup_epochs=1,
            guard_warmup_epochs=0,
            models_per_epoch=4,
            batches_per_model=1,
            strategy_steps=1,
            archs_per_step=2,
            reward_samples=8,
            error_samples=8,
            num_candidates=2,
            final_epochs=1,
            final_recipe="disturbance-immune:batch_size=8,augment=None",
        ),
    ),
)


@pytest.fixture
def workspace(tmp_path):
    return Workspace(runs=tmp_path / "runs", results=tmp_path / "results", executor=Inline())


def test_all_methods_train_on_equally_many_mini_batches():
    study = PRESETS["small"]
    plan = study.job.plan
    wanted = plan.epochs * plan.models_per_epoch * plan.batches_per_model
    jobs = searches_of(study, STRATEGIES["small"], num_images=4000)
    assert list(jobs) == ["random", "DARTS", "ENAS", "NAO"]
    for name, job in jobs.items():
        own = job.plan
        per_epoch = 63 if own.is_relaxed else own.models_per_epoch * own.batches_per_model  # 4,000 / 64, and a rest
        assert abs(own.epochs * per_epoch - wanted) <= per_epoch / 2, name
        assert own.final_recipe == plan.final_recipe and own.final_epochs == plan.final_epochs
    paper = PRESETS["paper"].job.plan
    relaxed = searches_of(PRESETS["paper"], STRATEGIES["paper"], num_images=20000)["DARTS"].plan
    assert abs(relaxed.epochs * 157 - paper.epochs * paper.models_per_epoch) <= 157 / 2


@pytest.mark.slow
def test_every_method_has_its_rows(workspace, monkeypatch):
    monkeypatch.setitem(PRESETS, "small", TINY)
    small = {
        name: "nao:num_seeds=2,epochs=1,hidden_size=8,embedding_size=4" if name == "NAO" else text
        for name, text in STRATEGIES["small"].items()
    }
    small["ENAS"] = "enas"
    monkeypatch.setitem(STRATEGIES, "small", small)
    outcome = TARGETS["disturbance-immune/table-1-methods"].run(workspace, "small")
    rows = outcome.to_json()["tables"][0]["rows"]
    assert [(row["search"], row["guard"]) for row in rows[1:]] == [
        ("random", "none"),
        ("random", "projection:1"),
        ("DARTS", "none"),
        ("ENAS", "none"),
        ("ENAS", "projection:1"),
        ("NAO", "none"),
        ("NAO", "projection:1"),
    ]
    assert rows[0]["paper"] == 96.71 and rows[5]["paper"] == 97.38 and outcome.claims == []


def test_table_2_counts_the_papers_network_and_trains_the_presets(workspace, monkeypatch):
    options = {"train_size": 300, "eval_size": 16}
    tiny = replace(IMAGENET["small"], data="digits", data_options=options, epochs=1, channels=2)
    monkeypatch.setitem(IMAGENET, "small", tiny)
    outcome = TARGETS["disturbance-immune/table-2"].run(workspace, "small")
    sizes, trained = (table["rows"] for table in outcome.to_json()["tables"])
    assert sizes[0]["parameters, M"] == pytest.approx(4.718752) and sizes[0]["multiply-adds, M"] < 600
    assert 0 <= trained[0]["top-1, %"] <= 100 and outcome.notes == ["At most 600 million multiply-adds: kept."]
    assert IMAGENET["paper"].epochs == 250


def test_the_papers_training_streams_an_image_folder_from_the_data_folder(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="the extra 'images' is not installed")
    data = tmp_path / "where data: is"
    for split, number in (("train", 8), ("val", 2)):
        for place, name in enumerate(("n01", "n02")):
            folder = data / "imagenet" / split / name
            folder.mkdir(parents=True)
            for each in range(number):
                image.new("RGB", (40 + each, 36), (200 * place, 9 * each, 50)).save(folder / f"{each}.JPEG")
    paper = IMAGENET["paper"]
    assert paper.data == "image-folder:imagenet" and paper.recipe == "imagenet" and not paper.data_options["in_memory"]
    options = {**paper.data_options, "validation_fraction": 0.25}
    # At 224 x 224 as it stands; only the network and the training are small.
    small = replace(paper, channels=2, cells=3, epochs=1, data_options=options)
    monkeypatch.setitem(IMAGENET, "paper", small)
    # The test above counts the large network, which takes a second.
    monkeypatch.setitem(table_2.__globals__, "count_flops", lambda network, shape: 0)
    workspace = Workspace(runs=tmp_path / "runs", results=tmp_path / "results", executor=Inline(), data_dir=data)
    outcome = TARGETS["disturbance-immune/table-2"].run(workspace, "paper")
    trained = outcome.to_json()["tables"][1]["rows"][0]
    assert trained["top-1, %"] in (0, 25, 50, 75, 100)  # of two test images a class
