"""A walk finds the parameters that torch does; a remembered one as well, whatever happened to the module since."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from ramet.guards import OrthogonalProjection
from ramet.guards.walking import Walk, layers_of, named_of
from ramet.params import named_params
from ramet.spaces import Cells64


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4)), nn.Linear(4, 2))


def replaced_weight(module):
    module[1][1].weight = nn.Parameter(torch.ones(4, 4))


def tied_weight(module):
    module[1][1].weight = module[0].weight


def removed_bias(module):
    module[2].bias = None


def moved_weight(module):
    """The same tensors under another name."""
    del module[2].bias
    module[2].shift = nn.Parameter(torch.zeros(2))


CHANGES = {
    "nothing": lambda module: None,
    "a layer more": lambda module: module.append(nn.Linear(2, 2)),
    "a layer more inside": lambda module: module[1].append(nn.Linear(4, 4)),
    "a layer less": lambda module: module.pop(2),
    "another layer in its place": lambda module: module[1].__setitem__(0, nn.LayerNorm(4)),
    "a weight of its own": replaced_weight,
    "a weight that is shared": tied_weight,
    "no bias": removed_bias,
    "another name": moved_weight,
    "a parametrization": lambda module: parametrizations.spectral_norm(module[0]),
    "layers in another order": lambda module: module[1]._modules.update({"0": module[1][1], "1": module[1][0]}),
}


def fresh(module):
    layers = layers_of(module)
    return layers, named_of(module, layers)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_module_is_walked_again(change):
    module, walk = network(), Walk()
    walk.over(module)
    change(module)
    found, expected = walk.over(module), fresh(module)
    for mine, others in zip(found, expected, strict=True):
        assert [(name, id(each)) for name, each in mine] == [(name, id(each)) for name, each in others]


def test_another_module_is_walked():
    first, second, walk = network(), network(), Walk()
    walk.over(first)
    assert walk.over(second)[0][0][1] is second


def test_an_unchanged_module_is_walked_once(monkeypatch):
    module, walk = network(), Walk()
    found = walk.over(module)
    monkeypatch.setattr("ramet.guards.walking.layers_of", lambda module: pytest.fail("walked again"))
    assert walk.over(module)[0] is found[0]


def test_a_module_that_names_its_parameters_otherwise_is_asked_each_time():
    class Renamed(nn.Linear):
        own = "first"

        def named_parameters(self, *given, **options):
            yield self.own, self.weight

    module, walk = Renamed(2, 2), Walk()
    assert [name for name, _ in walk.over(module)[1]] == ["first"]
    module.own = "second"
    assert [name for name, _ in walk.over(module)[1]] == ["second"]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda walk: pickle.loads(pickle.dumps(walk))])
def test_a_copy_takes_no_network_along(copied):
    walk = Walk()
    walk.over(network())
    assert copied(walk)._layers == []


def test_a_copied_guard_goes_on_with_the_network_of_its_own():
    module, guard = network(), OrthogonalProjection()
    with guard.watch(module):
        module(torch.randn(5, 3)).sum().backward()
    other, another = copy.deepcopy(guard), copy.deepcopy(module)
    with other.watch(another):
        another(torch.randn(5, 3)).sum().backward()
    assert other._walk._layers[0][1] is another and guard._walk._layers[0][1] is module


def test_a_walk_names_all_parameters_as_torch_does():
    layer = nn.Linear(2, 2)
    tied = nn.ModuleDict({"one": nn.Sequential(layer, nn.ReLU()), "other": layer, "none": nn.Identity()})
    for network in (tied, nn.DataParallel(tied), Cells64(channels=2, num_cells=1).supernet(1, 3), layer):
        root = network.module if isinstance(network, nn.DataParallel) else network
        expected = list(root.named_parameters(remove_duplicate=False))
        named = named_of(network, layers_of(network))
        assert [(name, id(param)) for name, param in named] == [(n, id(p)) for n, p in expected]
    names = [name for name, _ in named_of(tied, layers_of(tied))]
    assert names == ["one.0.weight", "one.0.bias", "other.weight", "other.bias"]


def test_a_network_with_names_of_its_own_keeps_them():
    class Renamed(nn.Linear):
        def named_parameters(self, *args, **kwargs):
            return [(f"mine.{name}", param) for name, param in super().named_parameters(*args, **kwargs)]

    renamed = Renamed(2, 1)
    assert [name for name, _ in named_of(renamed, layers_of(renamed))] == ["mine.weight", "mine.bias"]
    assert list(named_params(nn.Linear(2, 1))) == ["weight", "bias"]
