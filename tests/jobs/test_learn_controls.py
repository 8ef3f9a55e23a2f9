"""Networks of the same size and work beside a method: which, how large, how long trained, and what is advised."""

from __future__ import annotations

import pytest

from ramet.continual.plan import LearnPlan
from ramet.continual.recipe import LearnRecipe
from ramet.errors import ConfigError
from ramet.execution import make_executor
from ramet.jobs.data_options import StreamOptions
from ramet.jobs.learn.advice import advise, in_words, judged
from ramet.jobs.learn.foresight import foresee
from ramet.jobs.learn.job import LearnJob
from ramet.jobs.runner import resume, start
from ramet.runs import read_records

RECIPE = LearnRecipe(epochs=2, learning_rate=0.05)
SMALL = StreamOptions(train_size=120, eval_size=100)


def job(**options):
    plan = LearnPlan(**{"network": "mlp:12,8", "methods": "bind-and-grow,naive", "exports": False, **options})
    return LearnJob(stream="split-digits:3", data_options=SMALL, recipe=RECIPE, plan=plan)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("controls")
    return folder, start(job(controls="all"), folder / "run", make_executor(1))


def test_controls_have_the_size_and_the_work_of_their_method(learned):
    _, result = learned
    assert {"separate, as bind-and-grow", "individual, as naive", "separate, as naive"} <= set(result.controls_of)
    for control, method in result.controls_of.items():
        ours, theirs = result.methods[method], result.controls[control]
        alone = result.methods["individual"].figures
        if control.startswith("separate"):
            assert ours.figures.parameters.mean <= theirs.figures.parameters.mean <= 1.2 * ours.figures.parameters.mean
        else:
            assert theirs.figures.parameters.mean == alone.parameters.mean
        for task, work in enumerate(theirs.work):
            each = work / max(1, theirs.notes[task]["epochs"])
            assert work >= ours.work[task] - each / 2 - 1  # as near as whole epochs come, and never less than one


def test_which_to_take_is_said_in_words_table_and_page(learned):
    folder, result = learned
    advices = advise(result)
    assert [advice.method for advice in advices] == ["bind-and-grow", "naive"]
    assert all(advice.control.startswith("separate") for advice in advices)
    words = result.words()
    assert in_words(advices[0], result) in words
    text = result.table().to_text()
    assert "separate, as naive" in text and "work" in text
    assert in_words(advices[0], result).split(":")[0] in (folder / "run" / "report.html").read_text()


def test_the_best_on_validation_data_alone_gets_controls_by_default(tmp_path):
    result = start(job(), tmp_path / "run", make_executor(2))
    best = max(("bind-and-grow", "naive"), key=lambda name: result.methods[name].validation_accuracy.mean)
    assert set(result.controls_of.values()) == {best}
    assert list(result.methods) == ["individual", "bind-and-grow", "naive"]
    again = resume(tmp_path / "run", make_executor(1))
    assert again == result


def test_without_controls_nothing_is_advised(tmp_path):
    result = start(job(controls="none"), tmp_path / "run", make_executor(1))
    assert result.controls == {} and advise(result) == []


def test_a_kill_among_the_controls_costs_nothing(tmp_path, monkeypatch, learned):
    import ramet.jobs.learn.controls as module

    real = module.learn_control

    def killed(setup, name, of, place, options):
        if name.startswith("separate, as naive"):
            raise KeyboardInterrupt
        return real(setup, name, of, place, options)

    with monkeypatch.context() as patched:
        patched.setattr(killed, "__module__", module.__name__)
        patched.setattr(killed, "__qualname__", "learn_control")
        patched.setattr(module, "learn_control", killed)
        with pytest.raises(KeyboardInterrupt):
            start(job(controls="all"), tmp_path / "run", make_executor(1))
    resumed = resume(tmp_path / "run", make_executor(1))
    for name, control in learned[1].controls.items():
        ours, theirs = resumed.controls[name].figures, control.figures
        assert ours.average_accuracy == theirs.average_accuracy and ours.work == theirs.work
    keys = [record["key"] for record in read_records(tmp_path / "run")]
    assert keys.count("individual, as naive/0") == 1


@pytest.mark.parametrize(
    ("differences", "choice"),
    [
        ([0.01], "method"),
        ([0.004], "either"),
        ([-0.01, -0.008], "separate"),
        ([0.02, -0.02, 0.001], "either"),
        ([0.010, 0.011, 0.012], "method"),
        ([-0.010, -0.011, -0.012], "separate"),
        ([0.0, 0.0, 0.0], "either"),
    ],
)
def test_the_judgement_is_a_function_of_differences(differences, choice):
    assert judged(differences, 0.005)[0] == choice


def test_of_a_method_as_large_as_individual_networks_one_control_is_enough(tmp_path):
    result = start(job(methods="warm-start"), tmp_path / "run", make_executor(1))
    assert result.controls_of == {"separate, as warm-start": "warm-start"}
    sizes = {entry.figures.parameters.mean for entry in (*result.methods.values(), *result.controls.values())}
    assert len(sizes) == 1


def test_a_target_and_a_budget_reach_the_methods_that_have_them(tmp_path):
    result = start(job(methods="warm-start", budget="params=1500", target=0.5), tmp_path / "run", make_executor(1))
    assert result.methods["warm-start"].figures.parameters.mean <= 1500
    for options in ({"target": 0.9}, {"budget": "params=10k"}):
        with pytest.raises(ConfigError, match="is for warm-start"):
            start(job(methods="naive", **options), tmp_path / "other", make_executor(1))


def test_what_to_expect_is_said_before_and_changes_nothing(tmp_path, learned):
    told = []
    start(job(controls="all"), tmp_path / "run", make_executor(1), notify=lambda event, values: told.append(values))
    assert told[0]["line"].startswith("foreseen: individual networks of ")
    expected = foresee(job().build())
    alone = learned[1].methods["individual"].figures
    assert expected.parameters == alone.parameters.mean
    assert expected.work == pytest.approx(alone.work.mean, rel=0.02)  # a last mini-batch of one sample is left out
    assert expected.probed == 2 and 0 <= expected.served <= 2
