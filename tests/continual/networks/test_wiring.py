"""Which units a network's tensors hold, and the master network over them: chains and modules, against slow twins."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from module_networks import Layered, ResNet, Small, TinyViT
from torch import nn

from ramet.continual import make_method
from ramet.continual.methods.den import reachable
from ramet.continual.methods.firefly.candidates import bound_candidates, widened
from ramet.continual.methods.firefly.neuron_masks import MaskedReaders
from ramet.continual.networks.draft_widths import with_new, with_only
from ramet.continual.networks.making import make_template
from ramet.continual.networks.master import Draft, Master
from ramet.errors import ConfigError
from ramet.growth.surgery.writing import read_tensor
from ramet.testing.methods import SETTINGS, make_skeletons

IMAGES = {"in_channels": 1, "image_size": (5, 5), "num_classes": 3}
SKELETONS = make_skeletons()
MODULES = {"residual": ResNet, "small residual": Small, "vit": TinyViT}
TEMPLATES = {name: make_template(make, **IMAGES) for name, make in MODULES.items()} | SKELETONS


def made(template, classes=2):
    """A master of one task, and its draft."""
    draft = Draft.of_own(template, template.make_network(classes, 0).eval())
    master = Master(template, "cpu")
    master.add(draft)
    return master, draft


def everything(master):
    return [torch.arange(width) for width in master.widths]


def images(dtype=torch.float64):
    return torch.randn(4, 1, 5, 5, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("name", TEMPLATES)
def test_units_of_entries_by_counting(name):
    """Each entry of each dimension, by counting through its layout; what is taken is what the units say."""
    wiring = TEMPLATES[name].wiring
    sizes = [size + place for place, size in enumerate(wiring.sizes)]
    given = dict(zip(wiring.axes, sizes, strict=True))
    chosen = [torch.arange(0, size, 2) for size in sizes]
    numbers = {axis: set(units.tolist()) for axis, units in zip(wiring.axes, chosen, strict=True)}
    for tensor, layouts in wiring.layouts.items():
        for dim in wiring.dims(tensor):
            counted = []
            for term in layouts[dim]:
                places = itertools.product(*(range(given.get(axis, axis.size)) for axis in term))
                counted += [dict(zip(term, entry, strict=True)) for entry in places]
            for place, axis in enumerate(wiring.axes):
                units = wiring.units(tensor, dim, place, sizes)
                assert units.tolist() == [entry.get(axis, -1) for entry in counted]
            kept = [
                number
                for number, entry in enumerate(counted)
                if all(unit in numbers[axis] for axis, unit in entry.items() if axis in numbers)
            ]
            assert wiring.entries(tensor, dim, sizes, chosen).tolist() == kept
            flags = [torch.arange(size) % 2 == 0 for size in sizes]
            assert wiring.marked(tensor, dim, flags).nonzero()[:, 0].tolist() == kept


@pytest.mark.parametrize("name", MODULES)
def test_a_network_comes_out_of_the_master_as_it_went_in(name):
    master, draft = made(TEMPLATES[name])
    x = images(torch.float32)
    assert torch.equal(master.network(0, 2)(x), draft.network(x))
    assert master.num_parameters() == sum(param.numel() for param in draft.network.parameters())


@pytest.mark.parametrize("name", MODULES)
def test_later_units_do_not_change_an_earlier_network(name):
    master, _ = made(TEMPLATES[name])
    x = images(torch.float32)
    before = master.network(0, 2)(x)
    some = [torch.arange(0, width, 2) for width in master.widths]
    draft = widened(master.draft(some, 3), 2, seed=1)
    with torch.no_grad():
        for entry in draft.held():  # all that may move, moves
            entry.param.add_(torch.where(entry.mask, 0.0, 0.5))
    expected = copy.deepcopy(draft.network).eval().double()(x.double())
    widths = master.widths
    master.add(draft)
    assert torch.equal(master.network(0, 2)(x), before)
    # The same sums of doubles in another order of units.
    torch.testing.assert_close(master.network(1, 3).double()(x.double()), expected, rtol=1e-9, atol=1e-9)
    assert master.widths == [width + 2 for width in widths]
    read = Master(TEMPLATES[name], "cpu")
    read.load_state(master.state())
    assert read.num_parameters() == master.num_parameters()
    for place, classes in enumerate((2, 3)):
        assert torch.equal(read.network(place, classes)(x), master.network(place, classes)(x))


@pytest.mark.parametrize("name", MODULES)
def test_new_units_change_nothing_at_first_and_go_without_a_trace(name):
    torch.manual_seed(0)
    master, _ = made(TEMPLATES[name])
    draft = master.draft(everything(master), 2)
    wide = with_new(draft, [2] * len(draft.widths))
    assert wide.widths == [width + 2 for width in draft.widths]
    less = with_only(wide, [torch.arange(width + 2) < width for width in draft.widths])
    expected, *others = (each.network.double().eval()(images()) for each in (draft, wide, less))
    for other in others:  # the same doubles, in sums that may be ordered otherwise
        torch.testing.assert_close(other, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODULES)
def test_masks_over_what_reads_units_are_the_network_without_them(name):
    torch.manual_seed(0)
    template = TEMPLATES[name]
    master, _ = made(template)
    full = master.draft(everything(master), 2)
    masked = MaskedReaders(full).double().eval()
    with torch.no_grad():
        for scores in masked.scores:
            scores[::2] = 0.0
    compact = with_only(full, [torch.arange(width) % 2 == 1 for width in master.widths])
    expected = compact.network.double().eval()(images())
    torch.testing.assert_close(masked(images()), expected, rtol=1e-9, atol=1e-9)


def test_what_a_head_depends_on_in_a_residual_network():
    """A channel that a residual connection adds up is needed wherever it is read; one that nobody reads is not."""
    template = TEMPLATES["small residual"]
    network = template.make_network(2, 0)
    with torch.no_grad():
        for param in network.parameters():
            param.zero_()
        network.fc.weight[0, 5 * 4 + 1] = 1.0  # a pixel of channel 5,
        network.block.conv2.weight[5, 2] = 1.0  # which the block makes of its hidden channel 2,
        network.block.conv1.weight[2, 7] = 1.0  # which reads channel 7;
        network.block.conv1.weight[3, 6] = 1.0  # nobody reads this one
    _, stream, hidden = reachable(Draft.of_own(template, network))
    assert stream.nonzero()[:, 0].tolist() == [5, 7] and hidden.nonzero()[:, 0].tolist() == [2]


@pytest.mark.parametrize("name", MODULES)
def test_candidates_of_a_module_stay_within_their_bounds(name):
    """Unit by unit, against norms that are taken by hand; a second time changes nothing."""
    master, _ = made(TEMPLATES[name])
    draft = master.draft(everything(master), 2)
    locked = draft.locked()
    wide = widened(draft, 2, seed=0)
    before = {key: param.detach().clone() for key, param in wide.network.named_parameters()}
    params = wide.params(head=True)
    with torch.no_grad():
        for param in params.values():
            param.add_(torch.randn_like(param))
    bound_candidates(wide, before, locked, 2, epsilon=0.25)
    first = {key: param.detach().clone() for key, param in params.items()}
    bound_candidates(wide, before, locked, 2, epsilon=0.25)
    wiring, is_old = wide.wiring, [torch.arange(width) < width - 2 for width in wide.widths]
    for key, param in params.items():
        torch.testing.assert_close(param.detach(), first[key])
    for place, width in enumerate(wide.widths):
        squares = torch.zeros(3, width)  # what a unit moved by, what it reads, what is read of it
        for key, param in params.items():
            moved = ((param - before[key]) * wiring.mask(key, is_old)).detach()
            kept = (param * wiring.made(key, is_old)).detach()
            for dim in wiring.dims(key, place):
                units = wiring.units(key, dim, place, wide.widths)
                for unit in range(width):
                    rows = (units == unit).nonzero()[:, 0]
                    if (key, dim) in wiring.readers:
                        squares[2, unit] += kept.index_select(dim, rows).square().sum()
                    else:
                        squares[0, unit] += moved.index_select(dim, rows).square().sum()
                        squares[1, unit] += param.detach().index_select(dim, rows).square().sum()
        norms = squares.sqrt()
        torch.testing.assert_close(norms[0, :-2], torch.full((width - 2,), 0.25), rtol=1e-4, atol=0)
        torch.testing.assert_close(norms[1, -2:], torch.ones(2), rtol=1e-4, atol=0)
        torch.testing.assert_close(norms[2, -2:], torch.full((2,), 0.25), rtol=1e-4, atol=0)


def test_what_holds_no_unit_is_the_first_tasks_and_vectors_are_each_tasks_own():
    master, draft = made(TEMPLATES["vit"])
    assert not any(bool(entry.mask.any()) for entry in draft.held())  # the first task trains all of its own
    later = master.draft(everything(master), 2)
    held = {id(entry.param): entry.mask for entry in later.held()}
    network = later.network
    for name in ("patch.weight", "positions"):
        assert bool(held[id(read_tensor(network, name))].all())
    for name in ("cls_token", "patch.bias", "norm.weight", "blocks.0.mlp.2.bias", "head.weight"):
        assert name in master.tops[0] and id(read_tensor(network, name)) not in held


@pytest.mark.parametrize("method", ["firefly", "cpg", "den", "rcl"])
def test_networks_without_units_are_refused(method):
    with pytest.raises(ConfigError, match=f"the method {method} adds and leaves out units: .* Layered has none"):
        make_method(method).start(make_template(Layered, **IMAGES), SETTINGS, 0)
    single = nn.Sequential(nn.Flatten(), nn.Linear(25, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    with pytest.raises(ConfigError, match=r"has none \(1 is under 2\)"):
        make_method(method).start(make_template(single, **IMAGES), SETTINGS, 0)
