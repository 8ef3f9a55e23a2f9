"""Each training-free score against a twin that is too slow and too plain to be wrong."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from ramet.costs import count_flops, count_parameters
from ramet.errors import ConfigError
from ramet.ranking import SCORES, combine_ranks
from ramet.ranking.scores.activations import active_units
from ramet.spaces import NasBench201

SPACE = NasBench201(channels=4, cells_per_stage=1)
ARCH = (3, 1, 2, 4, 3, 2)


class Bending(nn.Module):
    """Activations called in three ways, a batch norm, and a layer that a forward pass does not call."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Conv2d(3, 4, 3)
        self.last, self.idle, self.act = nn.Linear(4, 3), nn.Linear(5, 5), nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.act(self.norm(self.first(x)))
        x = torch.nn.functional.relu(self.second(x))
        return self.last(x.mean(dim=(2, 3))).relu()


def by_hand(network, x):
    """Inputs of the three activations, with the batch's own statistics."""
    first = network.first(x)
    mean, variance = first.mean(dim=(0, 2, 3)), first.transpose(0, 1).flatten(1).var(dim=1, correction=0)
    shape = (1, -1, 1, 1)
    first = (first - mean.view(shape)) / (variance.view(shape) + network.norm.eps).sqrt()
    second = network.second(first.relu())
    return [first, second, network.last(second.relu().mean(dim=(2, 3)))]


@pytest.fixture
def scene():
    torch.manual_seed(0)
    return Bending().double(), torch.randn(6, 2, 5, 5, dtype=torch.float64)


def codes_of(network, x):
    with torch.no_grad():
        return np.concatenate([(value > 0).flatten(1).numpy() for value in by_hand(network, x)], axis=1)


def test_active_units_are_seen_however_an_activation_is_called(scene):
    network, x = scene
    with torch.no_grad():
        expected = [(value > 0).flatten(1) for value in by_hand(network, x)]
    from ramet.ranking.scores.base import scored_copy

    seen = active_units(scored_copy(network), x)
    assert [pattern.tolist() for pattern in seen] == [pattern.tolist() for pattern in expected]


def test_sizes_are_those_of_what_is_called(scene):
    network, x = scene
    called = [network.first, network.norm, network.second, network.last]
    assert SCORES.make("parameters", network, x)() == sum(map(count_parameters, called))
    assert SCORES.make("layers", network, x)() == 3
    assert SCORES.make("flops", network, x)() == 25 * 2 * 3 * 9 + 9 * 3 * 4 * 9 + 4 * 3


def test_sizes_of_a_path_are_those_of_the_child():
    supernet = SPACE.supernet(3, 5)
    child, x = supernet.child(ARCH), torch.randn(2, 3, 8, 8)
    assert SCORES.make("parameters", supernet, x)(ARCH) == count_parameters(child)
    assert SCORES.make("flops", supernet, x)(ARCH) == count_flops(child, (3, 8, 8))
    layers = [module for module in child.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    assert SCORES.make("layers", supernet, x)(ARCH) == len(layers)


def test_naswot_counts_agreeing_bits_pair_by_pair(scene):
    network, x = scene
    codes = codes_of(network, x)
    kernel = [[sum(int(a == b) for a, b in zip(one, two, strict=True)) for two in codes] for one in codes]
    assert SCORES.make("naswot", network, x)() == pytest.approx(
        math.log(abs(np.linalg.det(np.array(kernel)))), rel=1e-9
    )


def test_naswot_of_equal_inputs_is_minus_infinity(scene):
    network, x = scene
    assert SCORES.make("naswot", network, x[:1].expand(4, -1, -1, -1))() == -math.inf


@pytest.mark.parametrize("count", [6, 70])
def test_swap_counts_the_patterns_of_units(scene, count):
    network, _ = scene
    x = torch.randn(count, 2, 5, 5, dtype=torch.float64)
    patterns = {tuple(column) for column in codes_of(network, x).T.tolist()}
    assert SCORES.make("swap", network, x)() == len(patterns)


def test_swap_of_a_network_that_does_not_bend_is_nothing():
    assert SCORES.make("swap", nn.Linear(3, 2), torch.randn(4, 3))() == 0


def test_zico_weight_by_weight(scene):
    network, x = scene
    y = torch.tensor([0, 2, 1, 1, 0, 2])
    total = 0.0
    gradients = []
    for rows in ([0, 1, 2], [3, 4, 5]):
        twin = Bending().double()
        twin.load_state_dict(network.state_dict())
        twin.train()
        twin.zero_grad()
        torch.nn.functional.cross_entropy(twin(x[rows]), y[rows]).backward()
        gradients.append({name: param.grad for name, param in twin.named_parameters() if param.ndim > 1})
    for name in ("first.weight", "second.weight", "last.weight"):
        summed = 0.0
        for a, b in zip(*(each[name].flatten().tolist() for each in gradients), strict=True):
            deviation = math.sqrt(((a - (a + b) / 2) ** 2 + (b - (a + b) / 2) ** 2) / 2)
            summed += (abs(a) + abs(b)) / 2 / deviation if deviation > 0 else 0.0
        total += math.log(summed)
    assert SCORES.make("zico", network, x, y=y)() == pytest.approx(total, rel=1e-6)


def test_zico_without_labels_takes_classes_in_turns(scene):
    network, x = scene
    assert SCORES.make("zico", network, x)() == SCORES.make("zico", network, x, y=torch.arange(6) % 3)()


def features_by_hand(network, x):
    """What the stages of a supernet give before the head, in training mode's statistics."""
    found = []
    for stage in list(network.stages)[:-1]:
        x = stage(x, ARCH)
        found.append(x)
    return found


def entropy_by_hand(features):
    rows = features.detach().permute(0, 2, 3, 1).reshape(-1, features.shape[1]).numpy()
    shares = np.linalg.eigvalsh(np.cov(rows.T, bias=True))
    shares = np.clip(shares, 0, None) / np.clip(shares, 0, None).sum()
    return -float(sum(share * math.log(share + 1e-8) for share in shares))


@pytest.fixture
def supernet():
    torch.manual_seed(3)
    return SPACE.supernet(3, 5).double(), torch.randn(5, 3, 8, 8, dtype=torch.float64)


def count(counts, norm, inputs):
    counts[norm] = inputs[0].numel() // inputs[0].shape[1]


def remembered(network, x):
    """The network with the statistics of this one batch, as its first step has them; evaluation then uses these."""
    counts = {}
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
            module.register_forward_pre_hook(partial(count, counts))
    network.train()(x, ARCH)
    for norm, size in counts.items():
        norm.running_var *= (size - 1) / size
    return network.eval()


def test_expressivity_and_progressivity_block_by_block(supernet):
    network, x = supernet
    scores = [SCORES.make(name, network, x)(ARCH) for name in ("expressivity", "progressivity")]
    entropies = [entropy_by_hand(features) for features in features_by_hand(remembered(network, x), x)]
    assert len(entropies) == 6  # the stem, three cells, two reductions
    assert scores[0] == pytest.approx(sum(entropies), rel=1e-6)
    assert scores[1] == pytest.approx(min(b - a for a, b in itertools.pairwise(entropies)), rel=1e-5)


def test_trainability_of_linear_blocks_is_their_largest_singular_value():
    """Of a 1x1 convolution the Jacobian is its matrix; the mean over many positions comes near to it."""
    torch.manual_seed(4)
    first, second = nn.Conv2d(2, 3, 1, bias=False), nn.Conv2d(3, 3, 1, bias=False)
    score = SCORES.make("trainability", nn.Sequential(first, second), torch.randn(64, 2, 32, 32))()
    largest = float(torch.linalg.matrix_norm(second.weight.detach()[:, :, 0, 0], ord=2))
    # 65,536 rows of signs: the noise of an entry of the 3 x 3 mean is 1/256, a few of them are far below 0.05.
    assert score == pytest.approx(2 - largest - 1 / largest, abs=0.05)


def test_trainability_of_a_reduction_is_that_of_its_folded_jacobian():
    pool = nn.AvgPool2d(2)
    score = SCORES.make("trainability", nn.Sequential(nn.Conv2d(2, 3, 1), pool), torch.randn(64, 2, 32, 32))()
    assert score == pytest.approx(2 - 0.5 - 1 / 0.5, abs=0.05)  # each of 4 pixels has a share of 1/4: sqrt(4 / 16)


def test_blocks_that_hand_on_are_not_trainable(supernet):
    network, x = supernet
    assert SCORES.make("trainability", network, x)((0, 0, 0, 1, 0, 0)) == -math.inf


def test_vkdnw_by_finite_differences(supernet):
    network, x = supernet
    score = SCORES.make("vkdnw:num_inputs=3", network, x)(ARCH)
    chosen = dict(network.named_parameters())
    from ramet.seeding import derive_seed

    network = remembered(network, x[:3])  # and held: no gradient goes through the statistics
    columns = []
    with torch.no_grad():
        logits = network(x[:3], ARCH)
        for name, param in chosen.items():
            if param.ndim < 2:
                continue
            entry = derive_seed(0, "vkdnw", name) % param.numel()
            place = np.unravel_index(entry, tuple(param.shape))
            before = float(param[place])
            sides = []
            for sign in (1, -1):
                param[place] = before + sign * 1e-5
                sides.append(network(x[:3], ARCH))
            param[place] = before
            columns.append((sides[0] - sides[1]) / 2e-5)
    called = [column for column in columns if float(column.abs().sum()) > 0]
    jacobian = torch.stack(called, dim=2).numpy()  # [inputs, classes, weights]
    shares = logits.softmax(dim=1).numpy()
    fisher = np.zeros((len(called), len(called)))
    for rows, p in zip(jacobian, shares, strict=True):
        fisher += rows.T @ (np.diag(p) - np.outer(p, p)) @ rows / 3
    deciles = np.quantile(np.clip(np.linalg.eigvalsh(fisher), 0, None), np.arange(1, 10) / 10)
    deciles = deciles / deciles.sum()
    entropy = -sum(value * math.log(value) for value in deciles if value > 0)
    layers = SCORES.make("layers", network, x)(ARCH)
    assert score == pytest.approx(layers + entropy / math.log(9), abs=1e-3)
    assert layers < score < layers + 1


@pytest.mark.parametrize("name", ["naswot", "swap", "zico", "expressivity", "trainability", "vkdnw"])
def test_words_are_refused_in_one_line(name):
    with pytest.raises(ConfigError, match="floating-point numbers, but got 4"):
        SCORES.make(name, nn.Embedding(3, 2), torch.tensor([0, 1, 2, 0]))


def test_labels_must_fit():
    with pytest.raises(ConfigError, match="a label for each of 4 inputs"):
        SCORES.make("zico", nn.Linear(2, 2), torch.randn(4, 2), y=torch.zeros(3, dtype=torch.long))


def test_ranks_by_logarithm_punish_a_last_place():
    rows = [[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]
    assert combine_ranks(rows).tolist() == [-2.0, -2.0, -2.0]
    by_logarithm = combine_ranks(rows, by="logarithm")
    assert by_logarithm.tolist() == pytest.approx([math.log(3) / 2, math.log(2), math.log(3) / 2])
    assert by_logarithm[1] > by_logarithm[0]
