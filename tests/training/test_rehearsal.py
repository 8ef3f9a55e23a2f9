"""A recipe that is tried on a few samples: what works passes, and nothing of the network or the generators changes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from ramet.errors import ConfigError
from ramet.training import Recipe
from ramet.training.rehearsal import NUM_LOOKS, rehearse


def network():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(144, 3))


def samples(count=40):
    return torch.randn(count, 1, 8, 8), torch.arange(count) % 3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"optimizer": "adamw", "undecayed": "vectors", "warmup": 0.1, "clip_norm": 1.0},
        {"optimizer": lambda groups: torch.optim.RMSprop(groups, centered=True)},
        {"augment": "crop:2+flip+cutout:3+mixup:0.2", "loss": "cross-entropy:smoothing=0.1"},
        {"augment": "mixup:0.2,3", "accumulate": 2},
        {"loss": lambda outputs, targets: nn.functional.cross_entropy(outputs, targets)},
        {"schedule": lambda step, num_steps: torch.tensor(0.5)},
        {"schedule": lambda step, num_steps: 0, "average": "ema"},
        {"batch_size": 2},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_what_works_passes_and_changes_nothing(options):
    made, (x, y) = network(), samples()
    made[0].eval()
    before, modes = copy.deepcopy(made.state_dict()), [module.training for module in made.modules()]
    drawn = torch.random.get_rng_state()
    rehearse(Recipe(epochs=2, **{"batch_size": 16, **options}), made, x, y)
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())
    assert [module.training for module in made.modules()] == modes
    assert all(param.grad is None for param in made.parameters())
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_the_whole_schedule_is_looked_at():
    asked = []

    def schedule(step, num_steps):
        asked.append(step)
        return 1.0 if step < num_steps - 1 else -1.0

    with pytest.raises(ConfigError, match=r"a finite number of at least 0, but gives -1\.0 for step 299"):
        rehearse(Recipe(epochs=100, batch_size=16, schedule=schedule), network(), *samples())
    assert asked[0] == 0 and len(set(asked)) == NUM_LOOKS


def test_an_architecture_goes_along():
    class Child(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = network()

        def forward(self, x, arch):
            assert arch == (1, 2)
            return self.body(x)

    rehearse(Recipe(batch_size=16), Child(), *samples(), (1, 2))
    with pytest.raises(ConfigError, match="a network must run on a batch of shape"):
        rehearse(Recipe(batch_size=16), Child(), *samples())


def test_tokens_and_numbers_are_targets_too():
    words = torch.arange(70).view(10, 7) % 5
    rehearse(Recipe(batch_size=4), nn.Embedding(5, 5), words, words)
    rehearse(Recipe(batch_size=4), nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), samples(10)[0], torch.randn(10, 2))
