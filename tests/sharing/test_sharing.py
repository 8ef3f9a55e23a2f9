"""Groups, orders, prefix sharing and interference."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ramet.errors import ConfigError
from ramet.searching.shared import share
from ramet.seeding import seeded_globally, torch_generator
from ramet.sharing import (
    Order,
    PrefixShared,
    Sharing,
    affinity_groups,
    gradient_affinity,
    make_sharing,
    random_groups,
    similar_groups,
    trained_effect,
)
from ramet.sharing.orders import MOST_LISTED
from ramet.sharing.permuting import permuted
from ramet.spaces import Cells64, Darts, NasBench201


def within(affinity, groups):
    return sum(affinity[i, j] for group in groups for i, j in itertools.permutations(group, 2))


def test_similar_groups_are_the_papers_slices():
    space = Cells64()
    groups = similar_groups(64, 8)
    assert [space.name(space[i]) for i in groups[0]] == ["111", "112", "113", "114", "121", "122", "123", "124"]
    assert space.name(space[groups[1][0]]) == "131"


def test_random_groups_are_a_partition_of_equal_parts():
    groups = random_groups(64, 16, torch.Generator().manual_seed(0))
    assert sorted(itertools.chain(*groups)) == list(range(64))
    assert {len(group) for group in groups} == {4}


def test_affinity_groups_find_the_best_partition_of_a_small_set():
    generator = np.random.default_rng(0)
    for _ in range(10):
        affinity = generator.normal(size=(6, 6))
        affinity = (affinity + affinity.T) / 2
        best = max(
            within(affinity, (a, tuple(set(range(6)) - set(a)))) for a in itertools.combinations(range(6), 3) if 0 in a
        )
        assert within(affinity, affinity_groups(affinity, 2)) == pytest.approx(best)


def test_affinity_groups_recover_planted_groups_of_equal_size():
    generator = np.random.default_rng(1)
    planted = generator.permutation(np.repeat(np.arange(8), 8))
    affinity = (planted[:, None] == planted[None, :]) + 0.3 * generator.normal(size=(64, 64))
    groups = affinity_groups(affinity, 8)
    assert {len(group) for group in groups} == {8}
    assert all(len({planted[i] for i in group}) == 1 for group in groups)


@pytest.mark.parametrize("num_groups", [0, 65, -1])
def test_impossible_numbers_of_groups_are_refused(num_groups):
    with pytest.raises(ConfigError, match="between 1 and the 64 children"):
        similar_groups(64, num_groups)


@pytest.mark.parametrize(
    "text", ["full:1", "groups", "groups:x", "groups:0", "groups:4:alike", "prefix", "prefix:-1", "half", ""]
)
def test_sharings_that_do_not_exist_are_refused(text):
    with pytest.raises(ConfigError, match=r"sharing|grouping|NAME|num_groups of groups"):
        make_sharing(text)


@pytest.mark.parametrize("text", ["full", "groups:6:similar", "groups:6:random", "prefix:2"])
def test_a_search_and_a_diagnosis_have_the_same_groups(text):
    """The diagnosis asks for lists, the search for the group of a child; 64 children make no 6 equal groups."""
    space, seed = Cells64(channels=2, num_cells=1), 3
    sharing = make_sharing(text)
    of_child = [sharing.group_of(place, len(space), seed) for place in range(len(space))]
    listed = sharing.groups(len(space), seed)
    assert [[place for place, group in enumerate(of_child) if group == number] for number in range(len(listed))] == [
        list(group) for group in listed
    ]
    if sharing.num_groups > 1:
        network = share(space, space.supernet(1, 2), text, seed)
        assert [network.group_of(arch) for arch in space] == of_child


def test_groups_are_those_that_earlier_diagnoses_had():
    """The claims of *Deeper insights* rest on them."""
    assert make_sharing("groups:6:similar").groups(64, 0) == similar_groups(64, 6)
    assert make_sharing("groups:6:random").groups(64, 5) == random_groups(64, 6, torch_generator(5, "groups"))
    assert make_sharing("groups:4:random").groups(64, 5) != make_sharing("groups:4:random").groups(64, 6)


@pytest.mark.parametrize("grouping", ["similar", "random"])
def test_groups_of_a_space_that_fits_into_no_list_are_balanced(grouping):
    sharing, size = make_sharing(f"groups:7:{grouping}"), 10**18
    places = range(0, size, size // 2000)
    counts = np.bincount([sharing.group_of(place, size, 0) for place in places], minlength=7)
    # Five standard deviations of a multinomial draw; slices are exact.
    assert abs(counts - len(places) / 7).max() < 5 * np.sqrt(len(places) / 7)
    assert sharing.group_of(size - 1, size, 0) in range(7)


def test_a_sharing_of_ones_own_must_fill_its_groups():
    class Odd(Sharing):
        num_groups = 3

        def group_of(self, place, num_children, seed):
            return place % 2

    with pytest.raises(ConfigError, match="group 2 has none"):
        make_sharing(Odd).groups(8, 0)
    Odd.num_groups = 1
    with pytest.raises(ConfigError, match="must be one of the 1, but got 1"):
        make_sharing(Odd()).groups(8, 0)


def test_cyclic_repeats_one_order_and_shuffled_does_not():
    cyclic, shuffled = Order("cyclic", 16, seed=0), Order("shuffled", 16, seed=0)
    rounds = [[order[step] for step in range(first, first + 16)] for order in (cyclic, shuffled) for first in (0, 16)]
    assert rounds[0] == rounds[1]
    assert rounds[2] != rounds[3]
    assert all(sorted(r) == list(range(16)) for r in rounds)


def test_uniform_draws_each_child_about_equally_often():
    order = Order("uniform", 8, seed=0)
    counts = np.bincount([order[step] for step in range(8000)], minlength=8)
    assert abs(counts - 1000).max() < 4 * np.sqrt(1000)
    assert any(len({order[step] for step in range(first, first + 8)}) < 8 for first in range(0, 80, 8))


def test_an_order_depends_on_the_seed_and_the_step_alone():
    forward, backward = Order("shuffled", 7, seed=3), Order("shuffled", 7, seed=3)
    assert [forward[s] for s in range(50)] == [backward[s] for s in reversed(range(50))][::-1]
    assert [forward[s] for s in range(50)] != [Order("shuffled", 7, seed=4)[s] for s in range(50)]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 64, 65, 1000])
def test_an_order_without_a_list_has_each_place_once(count):
    orders = [[permuted(place, count, seed) for place in range(count)] for seed in range(3)]
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert count < 16 or (orders[0] != orders[1] != orders[2] != list(range(count)))


def test_what_stands_first_without_a_list_is_anything_equally_often():
    counts = np.bincount([permuted(0, 5, seed) for seed in range(5000)], minlength=5)
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)


@pytest.mark.parametrize("kind", ["cyclic", "shuffled", "uniform"])
@pytest.mark.parametrize("count", [MOST_LISTED + 1, 10**40])
def test_a_space_that_no_list_holds_has_turns(kind, count):
    order, again = Order(kind, count, seed=0), Order(kind, count, seed=0)
    steps = [*range(500), *range(count, count + 500)]
    taken = [order[step] for step in steps]
    assert [again[step] for step in reversed(steps)][::-1] == taken and all(0 <= child < count for child in taken)
    if kind != "uniform":
        assert len(set(taken[:500])) == 500 and (taken[:500] == taken[500:]) == (kind == "cyclic")
    assert 0.4 * count < np.median(np.array(taken, dtype=float)) < 0.6 * count, "8 standard errors on either side"


@pytest.fixture
def supernet():
    with seeded_globally(0, "test"):
        return Cells64(channels=2, num_cells=2).supernet(in_channels=1, num_classes=3)


def test_prefix_sharing_updates_the_trunk_for_all_and_the_rest_for_one(supernet):
    a, b = (3, 2, 3), (1, 1, 1)
    net = PrefixShared(supernet, [a, b], num_shared_cells=1)
    net(torch.randn(4, 1, 8, 8), a).sum().backward()
    assert all(p.grad is not None for p in net.trunk[0].parameters())
    assert any(p.grad is not None for p in net.copies[0].parameters())
    assert all(p.grad is None for p in net.copies[1].parameters())


@pytest.mark.parametrize("num_shared_cells", [0, 1, 2])
def test_prefix_sharing_starts_as_the_supernet_and_scores_all_as_one_by_one(supernet, num_shared_cells):
    archs = [(3, 2, 3), (1, 1, 1), (0, 0, 2)]
    x = torch.randn(4, 1, 8, 8)
    net = PrefixShared(supernet, archs, num_shared_cells).eval()
    supernet.eval()
    with torch.no_grad():
        for arch, logits in zip(archs, net.forward_all(x, archs), strict=True):
            assert torch.equal(logits, net(x, arch))
            assert torch.equal(logits, supernet(x, arch))


def test_prefix_copies_have_statistics_of_their_own(supernet):
    a, b = (3, 2, 3), (1, 1, 1)
    net = PrefixShared(supernet, [a, b], num_shared_cells=0)
    before = [buffer.clone() for buffer in net.copies[1].buffers()]
    net(torch.randn(4, 1, 8, 8), a)
    assert all(torch.equal(old, new) for old, new in zip(before, net.copies[1].buffers(), strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(net.copies[0].buffers(), net.copies[1].buffers(), strict=True))


def test_prefix_of_more_cells_than_there_are_is_refused(supernet):
    with pytest.raises(ConfigError, match="between 0 and 2 cells"):
        PrefixShared(supernet, [(0, 0, 0)], num_shared_cells=3)


def test_gradient_affinity_is_the_cosine_of_each_pairs_gradients(supernet):
    archs = [(3, 2, 3), (1, 1, 1), (3, 2, 1)]
    x, y = torch.randn(12, 1, 8, 8), torch.randint(3, (12,))
    found = gradient_affinity(supernet, archs, x, y, batch_size=12)

    def flat(arch):
        supernet.zero_grad()
        cross_entropy(supernet(x, arch), y).backward()
        return torch.cat(
            [torch.zeros(p.numel()) if p.grad is None else p.grad.reshape(-1) for p in supernet.parameters()]
        )

    gradients = [flat(arch) for arch in archs]
    for i, j in itertools.product(range(3), repeat=2):
        assert found[i, j] == pytest.approx(torch.cosine_similarity(gradients[i], gradients[j], dim=0).item(), abs=1e-5)


def test_gradient_affinity_leaves_statistics_as_they_were(supernet):
    before = {name: buffer.clone() for name, buffer in supernet.named_buffers()}
    gradient_affinity(supernet, [(0, 1, 2), (3, 3, 3)], torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 0]))
    assert all(torch.equal(before[name], buffer) for name, buffer in supernet.named_buffers())
    assert all(p.grad is None for p in supernet.parameters())


def test_trained_effect_is_nan_for_a_child_that_was_never_trained():
    effect = trained_effect(np.array([[0.1, 0.2], [0.3, 0.1]]), [0, 0])
    assert np.isnan(effect[1]).all()
    np.testing.assert_allclose(effect[0], [0.2, -0.1])


def test_prefix_sharing_works_for_any_chain_of_stages():
    class Stage(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear = nn.Linear(width, width)

        def forward(self, x, arch):
            return self.linear(x) * arch[0]

    chain = nn.Module()
    chain.stages = nn.ModuleList(Stage(3) for _ in range(4))
    net = PrefixShared(chain, [(1,), (2,)], num_shared_cells=1)
    assert len(net.trunk) == 2
    assert net(torch.ones(1, 3), (2,)).shape == (1, 3)


def test_an_edge_parts_children_by_its_option() -> None:
    """For any decision, of spaces that no list holds too; against the architectures themselves."""
    space = NasBench201()
    for decision in range(6):
        edge = make_sharing(f"edge:{decision}").of_options(space.num_options)
        assert edge.num_groups == 5 and str(edge) == f"edge:{decision}"
        for place in (0, 1, 777, 15_624):
            assert edge.group_of(place, len(space), 0) == space[place][decision]
    large = Darts()
    arch = large.sample(torch.Generator().manual_seed(0))
    edge = make_sharing("edge:3").of_options(large.num_options)
    assert edge.group_of(large.index(arch), large.num_archs, 0) == arch[3]
    with pytest.raises(ConfigError, match="one of the 6 decisions of the space, from 0, but got 6"):
        make_sharing("edge:6").of_options(space.num_options)
    with pytest.raises(ConfigError, match="follow from the decisions of a space"):
        make_sharing("edge:0").group_of(0, 10, 0)
