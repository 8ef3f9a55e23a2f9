"""A mean that is passed on from one convolution to the next is the mean of what the next one sees."""

import pytest
import torch
from torch import nn

from ramet.guards import OrthogonalProjection
from ramet.guards.convolutions import pooled_column
from ramet.guards.meetings import Meeting
from ramet.guards.passing import PassedMeans
from ramet.params import named_params
from ramet.spaces import Cells64

EXACT = torch.float64


@pytest.fixture
def looked_up(monkeypatch):
    """What each 1 x 1 convolution was told, or None."""
    found, real = [], PassedMeans.column

    def column(self, meeting):
        told = real(self, meeting)
        found.append((meeting, told))
        return told

    monkeypatch.setattr(PassedMeans, "column", column)
    return found


def watched(network, *images):
    guard = OrthogonalProjection(inputs="mean")
    with guard.watch(network):
        sum(network(x).sum() for x in images).backward()
    guard.remember(named_params(network))
    return guard


def images(channels=4, seed=0):
    return torch.randn(6, channels, 7, 8, dtype=EXACT, generator=torch.Generator().manual_seed(seed))


class Between(nn.Module):
    """Does something to the outputs of one convolution before the next one sees them."""

    def __init__(self, change):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 6, 3, padding=1, groups=2), nn.Conv2d(6, 4, 1, groups=2)
        self.change = change

    def forward(self, x):
        return self.second(self.change(self.first(x)))


CHANGES = {
    "nothing": (lambda x: x, True),
    "another tensor": (lambda x: x + 1, False),
    "in place": (lambda x: x.add_(1), False),
    "a part": (lambda x: x[:3], False),
    "an activation": (nn.functional.relu, False),
}


@pytest.mark.parametrize(("change", "is_passed"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("biased", [False, True])
def test_what_is_told_is_the_mean_of_the_pixels(change, is_passed, biased, looked_up):
    torch.manual_seed(0)
    network = Between(change).to(EXACT)
    if not biased:
        network.first.bias = None
    watched(network, images(), images(seed=1))
    told = [(meeting, column) for meeting, column in looked_up if meeting.weight is network.second.weight]
    assert len(told) == 2
    for meeting, column in told:
        assert (column is not None) is is_passed
        if column is not None:
            seen = meeting.pixels.mean((0, 2, 3)).reshape(2, 3, 1)
            torch.testing.assert_close(column, seen)


def test_a_stride_or_padding_is_not_taken_for_pixels(looked_up):
    for layer in (nn.Conv2d(4, 4, 1, stride=2), nn.Conv2d(4, 4, 1, padding=1), nn.Conv2d(4, 4, 3)):
        network = nn.Sequential(nn.Conv2d(4, 4, 3), layer).to(EXACT)
        watched(network, images())
    assert all(told is None for _, told in looked_up)


def test_a_stride_of_the_first_is_not_passed_on(looked_up):
    watched(nn.Sequential(nn.Conv2d(4, 4, 3, stride=2), nn.Conv2d(4, 4, 1)).to(EXACT), images())
    assert [told for _, told in looked_up] == [None]


def test_what_changed_is_not_told():
    """The weight, the output, or another tensor at the same place of memory."""
    x, weight = images(), torch.randn(4, 1, 3, 3, dtype=EXACT)
    for change in ("weight", "output", "gone", None):
        network = nn.Conv2d(4, 4, 3, groups=4, bias=False).to(EXACT)
        passed, output = PassedMeans(), network(x).detach()
        arrangement = _arrangement(network.weight, 4)
        first = Meeting(network.weight, "matrix", lambda mean: x, arrangement)
        passed.note(first, pooled_column(x, (3, 3), (1, 1), 4, pads=(0, 0, 0, 0)), output)
        with torch.no_grad():
            if change == "weight":
                network.weight.copy_(weight)
            if change == "output":
                output.mul_(2)
        pixels = output.clone() if change == "gone" else output
        if change == "gone":
            passed._given[id(pixels)] = passed._given.pop(id(output))
        next_one = torch.randn(2, 4, 1, 1, dtype=EXACT)
        told = passed.column(Meeting(next_one, "matrix", lambda mean: x, _arrangement(next_one, 1), pixels=pixels))
        assert (told is None) is (change is not None), change


def _arrangement(weight, groups):
    from ramet.guards.meetings import Arrangement

    return Arrangement(tuple(weight.shape), (0, 1, 2, 3), (groups, len(weight) // groups, weight[0].numel()))


def test_inference_and_autocast_are_left_alone(looked_up):
    network, x = Between(lambda x: x), images().float()
    guard = OrthogonalProjection(inputs="mean")
    with guard.watch(network):
        with torch.inference_mode():
            network(x)
        with torch.autocast("cpu", torch.bfloat16):
            network(x)
    assert [told for meeting, told in looked_up if meeting.weight is network.second.weight] == [None, None]


def test_projections_are_those_of_means_that_are_looked_for(monkeypatch):
    space = Cells64(channels=4, num_cells=1)
    states = []
    for is_passed in (True, False):
        torch.manual_seed(0)
        network = space.supernet(in_channels=3, num_classes=5).to(EXACT)
        if not is_passed:
            monkeypatch.setattr(PassedMeans, "column", lambda self, meeting: None)
        guard = OrthogonalProjection(inputs="mean")
        for child in ("222", "434"):
            with guard.watch(network):
                network(images(3), space.parse(child)).sum().backward()
            guard.remember(named_params(network))
        states.append(guard.state_dict())
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        # Means of the same pixels, rounded otherwise, and a projection's derivative by them is of the order of 1.
        torch.testing.assert_close(value, states[1][name], msg=name)


def test_a_separable_convolution_passes_its_mean_on(looked_up):
    space = Cells64(channels=4, num_cells=1)
    network = space.supernet(in_channels=3, num_classes=5).to(EXACT)
    guard = OrthogonalProjection(inputs="mean")
    with guard.watch(network):
        network(images(3), space.parse("222")).sum().backward()
    assert sum(told is not None for _, told in looked_up) == 6  # three separable ones of two pairs each
