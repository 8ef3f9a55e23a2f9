"""Training-free scores against slow twins: a product of magnitudes by hand, a Jacobian row by row."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from ramet.errors import ConfigError
from ramet.ranking import SCORES, JacobianCovariance, Synflow, combine_ranks
from ramet.spaces import Cells64, Darts, NasBench201
from ramet.testing.scores import SCORE_CHECKS

SPACES = {
    "nasbench201": NasBench201(channels=4, cells_per_stage=1),
    "cells64": Cells64(channels=4, num_cells=1),
    "darts": Darts(channels=4, num_cells=3, num_nodes=2),
}
ARCHS = {
    "nasbench201": (3, 1, 2, 4, 3, 2),
    "cells64": (1, 2, 3),
    "darts": SPACES["darts"].sample(torch.Generator().manual_seed(0)),
}


def without_batch_norm(module):
    """A copy in which every batch norm is replaced by nothing."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, nn.Identity())
        else:
            without_batch_norm(child)
    return module


def slow_synflow(network, shape, *arguments):
    """The derivative of each tensor by scaling it: R is a polynomial, so a central difference of one factor is exact.

    Where R is linear in a tensor, theta dR/dtheta = R(2 theta) - R(theta).
    """
    network = without_batch_norm(network).double().eval()
    with torch.no_grad():
        for param in network.parameters():
            param.abs_()
        ones = torch.ones(1, *shape, dtype=torch.float64)
        first = float(network(ones, *arguments).sum())
        total = 0.0
        for param in network.parameters():
            param.mul_(2)
            total += float(network(ones, *arguments).sum()) - first
            param.div_(2)
    return math.log(total)


@pytest.mark.parametrize("name", SPACES)
def test_synflow_is_the_change_of_the_flow_when_each_tensor_is_doubled(name):
    torch.manual_seed(0)
    space, arch = SPACES[name], ARCHS[name]
    network = space.supernet(3, 5)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    score = Synflow(network, (3, 8, 8))(arch)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert score == pytest.approx(slow_synflow(network, (3, 8, 8), arch), rel=1e-7)


def test_synflow_by_hand():
    """Two linear layers: each contributes the sum over all paths of the product of magnitudes."""
    network = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, -2.0], [0.5, 3.0]]))
        network[2].weight.copy_(torch.tensor([[-4.0, 1.0]]))
    # Hidden: 3 and 3.5; R = 4 * 3 + 1 * 3.5 = 15.5, once for each of the two layers.
    assert Synflow(network, (2,))() == pytest.approx(math.log(31.0))


@pytest.mark.parametrize("name", SPACES)
def test_a_child_by_itself_scores_as_its_path(name):
    torch.manual_seed(1)
    space, arch = SPACES[name], ARCHS[name]
    network = space.supernet(3, 5)
    child = network.child(arch)
    x = torch.randn(6, 3, 8, 8)
    assert Synflow(network, (3, 8, 8))(arch) == pytest.approx(Synflow(child, (3, 8, 8))(), rel=1e-7)
    assert JacobianCovariance(network, x)(arch) == pytest.approx(JacobianCovariance(child, x)(), rel=1e-4)
    exact = JacobianCovariance(network.double(), x.double())(arch)
    assert JacobianCovariance(child, x)() == pytest.approx(exact, rel=1e-4), "the score is not one of rounding"


def test_the_jacobian_row_by_row():
    """The gradient of one input's outputs at a time, correlated by numpy."""
    torch.manual_seed(2)
    network = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Tanh(), nn.Flatten())
    network = network.double()
    x = torch.randn(5, 2, 4, 4, dtype=torch.float64)
    statistics = network[1].running_mean.clone()
    score = JacobianCovariance(network, x)()
    assert torch.equal(network[1].running_mean, statistics)

    network[1].momentum, network[2].p = 1.0, 0.0
    network.train()(x)  # the running statistics are the mini-batch's
    network.eval()
    network[1].running_var *= 19 / 20  # torch remembers the variance of 20 values as an estimate of all others'
    rows = []
    for one in x:
        rows.append(torch.autograd.functional.jacobian(lambda z: network(z[None]).sum(), one).flatten().numpy())
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(np.array(rows)))
    assert score == pytest.approx(-np.sum(np.log(eigenvalues + 1e-5) + 1 / (eigenvalues + 1e-5)), rel=1e-6)


def test_inputs_that_are_treated_alike_score_lowest():
    x = torch.randn(4, 6)
    linear = nn.Linear(6, 3)  # the same Jacobian for every input
    varied = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1))
    assert JacobianCovariance(linear, x)() < JacobianCovariance(varied, x)() <= -4


def test_where_nothing_flows_the_score_is_minus_infinity():
    space = SPACES["nasbench201"]
    network = space.supernet(3, 5)
    nothing = (0,) * 6
    x = torch.randn(4, 3, 8, 8)
    assert JacobianCovariance(network, x)(nothing) == -math.inf
    assert Synflow(network, (3, 8, 8))(nothing) < Synflow(network, (3, 8, 8))((3,) * 6)


def test_combined_ranks_are_the_mean_of_the_places():
    combined = combine_ranks([[0.2, 0.9, 0.9, -math.inf], [4, 3, 2, 1]])
    assert combined.tolist() == [-(3 + 1) / 2, -(1.5 + 2) / 2, -(1.5 + 3) / 2, -4.0]


@pytest.mark.parametrize(
    "action, words",
    [
        (lambda: Synflow(nn.Linear(2, 1), ()), "positive numbers"),
        (lambda: Synflow(nn.Linear(2, 1), (0,)), "positive numbers"),
        (lambda: JacobianCovariance(nn.Linear(2, 1), torch.randn(1, 2)), "at least 2 inputs"),
        (lambda: JacobianCovariance(nn.Embedding(3, 1), torch.tensor([0, 1])), "floating-point"),
        (lambda: combine_ranks([[1.0, 2.0], [1.0, 2.0, 3.0]]), "same children"),
        (lambda: combine_ranks([]), "same children"),
        (lambda: combine_ranks([[1.0, math.nan]]), "NaN"),
    ],
)
def test_bad_input_is_one_line(action, words):
    with pytest.raises(ConfigError, match=words):
        action()


@pytest.mark.parametrize("check", SCORE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", SCORES)
def test_conformance(name, check):
    check(lambda network, x: SCORES.make(name, network, x))
