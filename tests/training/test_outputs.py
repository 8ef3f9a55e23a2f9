"""What a loss is taken of, whatever a network returns; and that growing, measuring and exporting go by it."""

from __future__ import annotations

import io
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch import nn

from ramet.errors import ConfigError
from ramet.exporting import export
from ramet.growth import grow
from ramet.growth.tracing.checking import find_coupling
from ramet.tracing.probing import outputs
from ramet.training import Recipe, accuracy, output_of

Named = namedtuple("Named", ["logits", "more"])
A, B = torch.tensor([1.0]), torch.tensor([2.0])


@pytest.mark.parametrize(
    "result",
    [
        A,
        {"loss": B, "logits": A},
        OrderedDict(logits=A, hidden=(B, B)),
        Named(A, B),
        (A,),
        [A, None],
        (A, (B, B)),
        (None, {"cache": B}, A),
        {"prediction": A, "cache": object()},
    ],
)
def test_the_output_is_found(result):
    assert output_of(result) is A


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ((A, B), "tuple with tensors 0, 1"),
        ({"boxes": A, "classes": B}, "dict with tensors boxes, classes"),
        ({"logits": None}, "dict with no tensor"),
        (None, "NoneType with no tensor"),
        ([(A, B)], "list with no tensor"),
    ],
)
def test_what_is_not_clear_is_refused(result, words):
    with pytest.raises(ConfigError, match=f"must give one tensor, or its logits by that name, but got {words}"):
        output_of(result)


class Wordy(nn.Module):
    """A classifier that returns more than its logits; the rest would keep it from growing if it counted."""

    def __init__(self, wrap):
        super().__init__()
        self.a, self.b, self.wrap = nn.Linear(4, 5), nn.Linear(5, 3), wrap

    def forward(self, x):
        hidden = self.a(x).relu()
        return self.wrap(self.b(hidden), hidden)


WRAPS = {
    "logits": lambda logits, hidden: {"hidden": hidden, "logits": logits},
    "only": lambda logits, hidden: (logits, {"hidden": object()}),
}


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("method", ["firefly", "gradmax", "random:num_tries=2,num_steps=1"])
def test_growth_goes_by_the_output(wrap, method):
    torch.manual_seed(0)
    x, y = torch.randn(24, 4), torch.arange(24) % 3
    settings = Recipe(epochs=1, batch_size=12, learning_rate=0.1)
    grown, history = grow(Wordy(wrap), (x, y, x, y), "neurons=7, step=2", method, settings=settings, max_steps=1)
    assert grown.a.out_features == 7
    assert history.steps[-1].score == accuracy(grown, x, y)
    program = torch.export.load(io.BytesIO(export(grown, (4,)))).module()
    torch.testing.assert_close(program(x), output_of(grown.eval()(x)))


def test_what_no_loss_can_be_taken_of_is_refused_before_training():
    x, y = torch.randn(8, 4), torch.arange(8) % 3
    with pytest.raises(ConfigError, match="tensors 0, 1"):
        grow(Wordy(lambda logits, hidden: (logits, hidden)), (x, y, x, y), "neurons=7, step=2")


def test_without_logits_every_tensor_that_is_returned_stays():
    network, x = Wordy(lambda logits, hidden: (logits, hidden)), torch.randn(3, 4)
    assert not find_coupling(network, x).groups and len(outputs(network, x)) == 2
    network = Wordy(WRAPS["logits"])
    assert list(find_coupling(network, x).groups) == ["a"] and len(outputs(network, x)) == 1


def test_tokens_count_one_by_one():
    """Two texts of three tokens with four classes each; four of six are right."""
    logits = torch.eye(4)[torch.tensor([[0, 1, 2], [3, 3, 3]])]
    assert accuracy(nn.Identity(), logits, torch.tensor([[0, 1, 2], [3, 0, 0]])) == pytest.approx(4 / 6)
