"""Learning rates over a training, against torch's own schedulers where it has them, and by hand."""

from __future__ import annotations

import math

import pytest
import torch

from ramet.errors import ConfigError
from ramet.training import Recipe


def rates(num_steps: int = 12, **options) -> list[float]:
    recipe = Recipe(**{"learning_rate": 0.4, "final_learning_rate": 0.1, "epochs": 6, **options})
    return [recipe.learning_rate_at(step, num_steps) for step in range(num_steps)]


def of_torch(make, num_steps: int = 12) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.4)
    scheduler, found = make(optimizer), []
    for _ in range(num_steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


SCHEDULERS = torch.optim.lr_scheduler


@pytest.mark.parametrize(
    ("text", "make"),
    [
        ("cosine", lambda each: SCHEDULERS.CosineAnnealingLR(each, 12, eta_min=0.1)),
        ("constant", lambda each: SCHEDULERS.ConstantLR(each, factor=1.0)),
        ("linear", lambda each: SCHEDULERS.LinearLR(each, 1.0, 0.25, total_iters=12)),
        ("step", lambda each: SCHEDULERS.StepLR(each, 4, 0.1)),
        ("step:0.5,every=0.25", lambda each: SCHEDULERS.StepLR(each, 3, 0.5)),
        ("restarts:first=1,longer=2", lambda each: SCHEDULERS.CosineAnnealingWarmRestarts(each, 2, 2, eta_min=0.1)),
    ],
)
def test_a_schedule_is_torchs(text, make):
    assert rates(schedule=text) == pytest.approx(of_torch(make))


def test_enas_restarts_after_10_30_and_70_epochs():
    """Its cosine has 10 epochs, then 20, then 40: the released code's ``lr_T_0=10, lr_T_mul=2``."""
    found = rates(schedule="restarts", epochs=150, num_steps=150)
    assert [step for step in range(1, 150) if found[step] > found[step - 1]] == [10, 30, 70]
    assert found[5] == pytest.approx(0.25) and found[20] == pytest.approx(0.25)


def test_one_cycle_rises_and_falls():
    found = rates(100, schedule="one-cycle:rise=0.2,start=0.1")
    assert found[0] == pytest.approx(0.04) and found[20] == pytest.approx(0.4) and max(found) == found[20]
    assert found[10] == pytest.approx(0.22) and found[60] == pytest.approx(0.25)
    assert found[:21] == sorted(found[:21]) and found[20:] == sorted(found[20:], reverse=True)


def test_an_exponential_falls_after_each_epoch():
    found = rates(10, schedule="exponential:factor=0.5,start=2", epochs=5)
    assert found == pytest.approx([0.4] * 6 + [0.2] * 2 + [0.1] * 2)


def test_warm_up_comes_before_any_schedule():
    found = rates(10, schedule="cosine", warmup=0.4)
    assert found[:4] == pytest.approx([0.4 * share / 5 for share in (1, 2, 3, 4)])
    assert found[4:] == pytest.approx(rates(6, schedule="cosine"))
    assert rates(warmup=0.01) == rates()  # less than half a step


def test_a_function_in_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def falling(step, num_steps, power=1):\n    return (1 - step / num_steps) ** power\n"
    )
    found = rates(4, schedule=f"{tmp_path / 'mine.py'}:falling:power=2")
    assert found == pytest.approx([0.4, 0.4 * 9 / 16, 0.1, 0.4 / 16])


@pytest.mark.parametrize(
    "text", ["step:0", "step:every=2", "one-cycle:rise=1", "one-cycle:start=0", "restarts:0", "exponential:0"]
)
def test_numbers_out_of_range(text):
    with pytest.raises(ConfigError, match="but got"):
        rates(schedule=text)


def test_vectors_are_not_decayed():
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    groups = [{"params": list(network.parameters()), "lr": 0.1}]
    made = Recipe(optimizer="adamw", weight_decay=0.5, undecayed="vectors").make_optimizer(groups)
    assert [(group["weight_decay"], [p.ndim for p in group["params"]]) for group in made.param_groups] == [
        (0.5, [2]),
        (0.0, [1, 1, 1]),
    ]
    assert len(Recipe(undecayed="vectors").make_optimizer([{"params": [network[0].weight], "lr": 1}]).param_groups) == 1
    assert math.isclose(made.param_groups[1]["lr"], 0.1)
