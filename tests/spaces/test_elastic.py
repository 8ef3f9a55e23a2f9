"""Elastic spaces: slices equal networks that are built by hand from copies, in outputs and in gradients."""

from __future__ import annotations

import copy
import itertools
import pickle

import architectures
import pytest
import torch
from elastic_networks import Dense, Encoder, FourHeads, Gpt, Residual, ResNet, Vit, inputs_of, mlp, trained
from torch import nn
from torch.nn import functional

from ramet.errors import ConfigError
from ramet.spaces import Sandwich, elastic, make_space
from ramet.spaces.slicing.cuts import Setting, SliceCut
from ramet.spaces.slicing.ordering import magnitudes, taylor
from ramet.testing.spaces import SPACE_CHECKS, sample_archs
from ramet.training import reestimated_batch_norm

SPACES = {
    "mlp": (mlp, {"widths": (0.25, 0.5, 1)}),
    "resnet": (ResNet, {"widths": (0.5, 1), "depths": (0, 0.5, 1), "kernels": (1, 3, 5)}),
    "vit": (Vit, {"widths": (0.5, 1), "heads": (0.25, 0.5, 1), "depths": (0.5, 1)}),
    "encoder": (Encoder, {"widths": (0.5, 1), "heads": (0.5, 1), "depths": (0.5, 1)}),
    "gpt": (Gpt, {"widths": (0.5, 1), "heads": (0.5, 1), "depths": (0.5, 1)}),
    "dense": (Dense, {"widths": (0.5, 1)}),
}


SINGLE_STEPS = torch.finfo(torch.float32).eps / torch.finfo(torch.float64).eps
"""Models of Hugging Face compute their norms and positions in single precision, whatever their weights are."""


def rounding(network: nn.Module, outputs: torch.Tensor) -> float:
    """What sums in another order may differ by: epsilon for every term of every sum, by the size of the outputs.

    A layer's error goes through the layers behind it, none of which makes more of it than a norm of one deviation by
    the smallest that these networks have, which 100 is above.
    """
    terms = sum(parameter[0].numel() for parameter in network.parameters() if parameter.ndim > 1)
    return 100 * terms * torch.finfo(outputs.dtype).eps * float(outputs.detach().abs().max())


def gap(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).detach().abs().max())


@pytest.fixture(scope="module", params=list(SPACES))
def made(request):
    make, options = SPACES[request.param]
    network = trained(make)
    return network, elastic(network, inputs_of(network), **options)


def test_the_whole_computes_what_the_network_did(made):
    network, space = made
    x = inputs_of(network)
    supernet = space.supernet(3, 5).eval()
    with torch.no_grad():
        expected, found = network(x), supernet(x, space.whole)
    assert gap(found, expected) <= rounding(network, expected)


def test_a_child_is_its_slice(made):
    network, space = made
    x = inputs_of(network)
    supernet = space.supernet(3, 5).eval()
    sizes = set()
    with torch.no_grad():
        for arch in space:
            child = supernet.child(arch)
            expected = supernet(x, arch)
            assert gap(child(x), expected) <= rounding(network, expected), space.name(arch)
            sizes.add(sum(parameter.numel() for parameter in child.parameters()))
    assert len(sizes) == len(space), "each size has its own number of weights"
    assert max(sizes) == sum(parameter.numel() for parameter in network.parameters())


def test_gradients_of_a_slice_are_those_of_its_child(made):
    """The child's gradients lie where its weights were taken from, and everything else gets none."""
    network, space = made
    x = inputs_of(network)
    for arch in sample_archs(space):
        supernet = space.supernet(3, 5)
        child = supernet.child(arch)
        supernet(x, arch).square().mean().backward()
        child(x).square().mean().backward()
        cut, twins = space.cut(arch), dict(child.named_parameters())
        # A list closes up where a block was taken out: what is left of it keeps its order.
        kept = [n for n, _ in supernet.module.named_parameters() if not any(n.startswith(f"{s}.") for s in cut.skipped)]
        assert len(kept) == len(twins)
        own = dict(supernet.module.named_parameters())
        largest = max(float(twin.grad.abs().max()) for twin in twins.values() if twin.grad is not None)
        for name, twin in zip(kept, twins.values(), strict=True):
            pieces = cut.pieces.get(name, ())
            grad = own[name].grad
            found = grad
            for piece in pieces:
                found = piece.of(found)
            assert torch.allclose(found, twin.grad, rtol=0, atol=rounding(network, torch.tensor([largest]).double()))
            assert int((grad != 0).sum()) <= twin.numel(), f"{name} got gradients outside of {space.name(arch)}"
        assert all(own[name].grad is None for name in own if name not in kept)


def test_a_child_of_a_residual_network_built_by_hand():
    """The slow obvious twin: every layer is made anew in its smaller size, and filled with copied slices."""
    network = trained(ResNet)
    space = elastic(network, inputs_of(network), widths=(0.5, 1), depths=(0, 1), kernels=(3, 5))
    supernet = space.supernet(3, 5).eval()
    whole = supernet.module
    twin = ResNet().double()
    twin.stem = nn.Sequential(nn.Conv2d(3, 2, 3, 1, 1, bias=False), nn.BatchNorm2d(2), nn.ReLU())
    twin.blocks, twin.head = nn.Sequential(Residual(2, 4, 2)), nn.Linear(4, 5)
    twin = twin.double().eval()

    def norm(name, source, count):
        for key in ("weight", "bias", "running_mean", "running_var"):
            getattr(twin.get_submodule(name), key).data.copy_(getattr(whole.get_submodule(source), key)[:count])

    with torch.no_grad():
        twin.stem[0].weight.copy_(whole.stem[0].weight[:2, :, 1:4, 1:4])
        norm("stem.1", "stem.1", 2)
        block, source = twin.blocks[0], whole.blocks[1]  # the only one that changes the shape
        block.conv1.weight.copy_(source.conv1.weight[:4, :2])
        norm("blocks.0.norm1", "blocks.1.norm1", 4)
        block.conv2.weight.copy_(source.conv2.weight[:4, :4])
        norm("blocks.0.norm2", "blocks.1.norm2", 4)
        block.short.weight.copy_(source.short.weight[:4, :2])
        block.short.bias.copy_(source.short.bias[:4])
        twin.head.weight.copy_(whole.head.weight[:, :4])
        twin.head.bias.copy_(whole.head.bias)
    x = inputs_of(network)
    arch = space.parse("width=0.5,depth=0,kernel=3")
    expected = twin(x)
    assert gap(supernet(x, arch), expected) <= rounding(network, expected)
    assert {n: p.shape for n, p in supernet.child(arch).named_parameters()} == {
        n: p.shape for n, p in twin.named_parameters()
    }
    supernet(x, arch).square().sum().backward()
    expected.square().sum().backward()
    grad, other = whole.blocks[1].conv2.weight.grad, twin.blocks[0].conv2.weight.grad
    assert torch.allclose(grad[:4, :4], other, rtol=0, atol=rounding(network, other))
    assert not grad[4:].any() and not grad[:, 4:].any()
    assert whole.blocks[0].conv1.weight.grad is None


def test_heads_are_cut_as_a_mask_would():
    """Leaving out heads is what zero columns behind them give: packed queries, keys and values, no run of rows."""
    network = trained(Vit)
    space = elastic(network, inputs_of(network), heads=(0.5, 1))
    supernet = space.supernet(3, 5).eval()
    masked = copy.deepcopy(supernet.module)
    with torch.no_grad():
        for layer in masked.layers:
            layer.attention.out.weight[:, 4:] = 0  # heads 2 and 3, of two channels each
    x = inputs_of(network)
    child = supernet.child(space.smallest)
    assert child.layers[0].attention.heads == 2 and child.layers[0].attention.qkv.out_features == 12
    expected = masked(x)
    assert gap(supernet(x, space.smallest), expected) <= rounding(network, expected)


def test_heads_whose_number_is_written_into_a_forward_are_refused():
    torch.manual_seed(0)
    network, x = FourHeads().double(), torch.randn(3, 7, 8).double()
    with pytest.raises(ConfigError, match="heads need attention heads that can be left out"):
        elastic(network, x, heads=(0.5, 1))
    assert len(elastic(network, x, widths={"out": (0.5, 1)})) == 2


def test_statistics_are_written_where_the_slice_lies():
    """Also where that is no run: half of both parts of a concatenation."""
    network = trained(Dense)
    space = elastic(network, inputs_of(network), widths=(0.5, 1))
    supernet, x = space.supernet(3, 5).train(), inputs_of(network, 8)
    child, before = supernet.child(space.smallest).train(), supernet.module.joined.running_mean.clone()
    with torch.no_grad():
        supernet(x, space.smallest)
        child(x)
    after = supernet.module.joined.running_mean
    kept = [0, 1, 4, 5, 6]
    others = [place for place in range(10) if place not in kept]
    assert torch.allclose(after[kept], child.joined.running_mean, rtol=1e-12)
    assert torch.equal(after[others], before[others]) and not torch.equal(after[kept], before[kept])


def test_reestimated_statistics_reach_the_child():
    network = trained(ResNet)
    space = elastic(network, inputs_of(network), widths=(0.5, 1))
    supernet, x = space.supernet(3, 5).eval(), inputs_of(network, 16)
    with reestimated_batch_norm(supernet, [x], space.smallest):
        child = supernet.child(space.smallest).eval()
        expected = supernet(x, space.smallest)
    batch = functional.conv2d(x, child.stem[0].weight, padding=2).mean((0, 2, 3))
    assert torch.allclose(child.stem[1].running_mean, batch, rtol=1e-9, atol=1e-12)
    assert gap(child(x), expected) <= rounding(network, expected)


def test_important_units_come_first():
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        for scale, unit in zip((2.0, 0.1, 5.0, 1.0), range(4), strict=True):
            network[0].weight[unit] = scale
            network[2].weight[:, unit] = 1.0
        network[0].bias.zero_()
    space = elastic(network, torch.rand(4, 3), widths=(0.5, 1))
    assert space.supernet(3, 2).child(space.smallest)[0].weight[:, 0].tolist() == [5.0, 2.0]


def test_importance_by_data_is_what_the_loss_would_lose():
    """A unit that is never active, or that nothing reads, has none, whatever its weights."""
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    torch.manual_seed(0)
    x, y = torch.rand(32, 3), torch.randint(2, (32,))
    with torch.no_grad():
        network[0].weight.abs_()
        network[0].bias.zero_()
        network[0].weight[0] = -9.0  # never active on inputs that are not negative
        network[2].weight[:, 1] = 0.0
    space = elastic(network, x[:4], widths=(0.5, 1), data=(x, y))
    kept = space.supernet(3, 2).child(space.smallest)[0].weight
    assert sorted(kept[:, 0].tolist()) == sorted(network[0].weight[2:, 0].tolist())
    coupling = space.coupling
    found = taylor(space.module, coupling, list(coupling.groups.values()), x, y, functional.cross_entropy)
    assert list(found["0"]) == sorted(found["0"], reverse=True) and found["0"][2:].max().item() == 0
    assert float(magnitudes(space.module, coupling, coupling.groups["0"]).min()) > 0


def test_the_sandwich_by_hand():
    network = trained(mlp)
    space = elastic(
        network, inputs_of(network), widths=(0.25, 0.5, 1), sandwich=Sandwich(distillation=0.75, weight=0.5)
    )
    supernet, x, y = space.supernet(3, 5).train(), inputs_of(network), torch.tensor([0, 4, 2, 2])
    found = supernet.loss(x, y, (1,), functional.cross_entropy)
    whole = supernet(x, (2,))
    expected = functional.cross_entropy(whole, y)
    for arch in ((0,), (1,)):
        outputs = supernet(x, arch)
        soft = functional.cross_entropy(outputs, whole.detach().softmax(-1))
        expected = expected + 0.5 * (0.75 * soft + 0.25 * functional.cross_entropy(outputs, y))
    assert gap(found, expected) <= rounding(network, expected)
    found.backward()
    own = [parameter.grad.clone() for parameter in supernet.parameters()]
    supernet.zero_grad()
    expected.backward()
    for grad, parameter in zip(own, supernet.parameters(), strict=True):
        assert torch.allclose(grad, parameter.grad, rtol=0, atol=rounding(network, parameter.grad))
    again = supernet.loss(x, y, space.whole, functional.cross_entropy)  # a size that comes twice counts once
    two = space.sandwich.loss(supernet, x, y, (space.whole, space.smallest), functional.cross_entropy)
    assert again.item() == two.item()


def test_outputs_that_are_numbers_are_taught_by_the_same_loss():
    network = trained(mlp)
    space = elastic(network, inputs_of(network), widths=(0.5, 1))
    supernet, x, y = space.supernet(3, 5), inputs_of(network), torch.randn(4, 5).double()
    loss = functional.mse_loss
    found = space.sandwich.loss(supernet, x, y, (space.whole, space.smallest), loss, are_numbers=True)
    whole = supernet(x, space.whole)
    expected = loss(whole, y) + loss(supernet(x, space.smallest), whole.detach())
    assert found.item() == expected.item()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "vit"])
def test_models_of_hugging_face(name):
    network, x = architectures.make(name)
    network = network.double()
    x = x.double() if x.is_floating_point() else x
    space = elastic(network, x, widths=(0.5, 1), heads=(0.5, 1), depths=(0.5, 1))
    supernet, sizes = space.supernet(3, 5).eval(), set()
    with torch.no_grad():
        expected = network(x).logits
        assert gap(supernet(x, space.whole), expected) <= SINGLE_STEPS * rounding(network, expected)
        for arch in space:
            child = supernet.child(arch)
            assert gap(child(x).logits, supernet(x, arch)) <= rounding(network, expected)
            sizes.add(sum(parameter.numel() for parameter in child.parameters()))
    assert len(sizes) == 8


def test_dials_can_be_turned_apart_and_by_pattern():
    network = trained(ResNet)
    x = inputs_of(network)
    apart = elastic(network, x, widths=(0.5, 1), apart=True)
    assert {dial.name for dial in apart.dials} >= {"width:blocks.0.conv1", "width:blocks.1.conv1"}
    inner = elastic(network, x, widths={"blocks.*.conv1": (0.25, 1)})
    assert [dial.name for dial in inner.dials] == ["width:blocks.*.conv1"]
    child = inner.supernet(3, 5).child(inner.smallest)
    assert child.blocks[3].conv1.out_channels == 2 and child.head.in_features == 8


def test_what_is_applied_is_taken_back_also_after_an_error():
    network = trained(ResNet)
    space = elastic(network, inputs_of(network), widths=(0.5, 1), depths=(0, 1), kernels=(3, 5))
    supernet = space.supernet(3, 5).eval()
    before = {name: tensor.data_ptr() for name, tensor in supernet.state_dict(keep_vars=True).items()}
    with pytest.raises(RuntimeError):
        supernet(torch.randn(2, 4, 8, 8).double(), space.smallest)
    assert {name: tensor.data_ptr() for name, tensor in supernet.state_dict(keep_vars=True).items()} == before
    assert supernet.module.stem[0].padding == (2, 2)
    x = inputs_of(network)
    with torch.no_grad():
        assert gap(supernet(x, space.whole), network(x)) <= rounding(network, network(x))


def test_names_and_sizes_of_a_space():
    network = trained(ResNet)
    space = elastic(network, inputs_of(network), widths=(1, 0.5), depths=(0, 0.5, 1))
    assert space.name(space.smallest) == "width=0.5,depth=0" and space.name(space.whole) == "width=1,depth=1"
    assert [space.parse(space.name(arch)) for arch in space] == list(space)
    assert any("it makes [8, 4, 4] of [4, 8, 8]" in refusal.reason for refusal in space.refusals)
    cut = SliceCut(space.module, space.coupling, Setting())
    assert not cut.pieces and not cut.numbers


REFUSALS = {
    "no module": (lambda: elastic(torch.zeros(2), torch.zeros(2, 3), widths=(0.5, 1)), "made of an nn.Module"),
    "no dial": (lambda: elastic(nn.Linear(3, 2), torch.zeros(2, 3)), "needs widths, depths, heads or kernels"),
    "no whole": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), widths=(0.25, 0.5)), "the whole, 1, among them"),
    "no share": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), widths=(0, 1)), r"shares in \(0, 1\]"),
    "one value": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), widths=0.5), r"shares in \(0, 1\]"),
    "twice": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), widths=(1, 1.0)), "differ from each other"),
    "the same size": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), widths=(0.99, 1)), "different sizes"),
    "no units": (lambda: elastic(nn.Linear(3, 2), torch.zeros(2, 3), widths=(0.5, 1)), "the network's output"),
    "no heads": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), heads=(0.5, 1)), "need attention heads"),
    "no blocks": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), depths=(0.5, 1)), "need residual blocks"),
    "no kernels": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), kernels=(3, 5)), "need odd kernels"),
    "even kernels": (lambda: elastic(ResNet(), torch.randn(2, 3, 8, 8), kernels=(2, 5)), "odd sides"),
    "small kernels": (lambda: elastic(ResNet(), torch.randn(2, 3, 8, 8), kernels=(1, 3)), "the whole, 5, among them"),
    "no pattern": (lambda: elastic(mlp(), torch.zeros(2, 3, 8, 8), widths={"x": (0.5, 1)}), "pattern of widths"),
    "one input": (lambda: elastic(mlp(), torch.zeros(1, 3, 8, 8), widths=(0.5, 1)), "at least two inputs"),
    "does not run": (lambda: elastic(mlp(), torch.zeros(2, 3), widths=(0.5, 1)), "must run on a batch"),
    "distillation": (lambda: Sandwich(distillation=2), r"must lie in \[0, 1\]"),
    "weight": (lambda: Sandwich(weight=0), "weight must be positive"),
    "temperature": (lambda: Sandwich(temperature=0), "must be positive"),
}


@pytest.mark.parametrize("case", list(REFUSALS))
def test_what_cannot_be_is_refused_in_one_line(case):
    make, words = REFUSALS[case]
    with pytest.raises(ConfigError, match=words) as refused:
        make()
    assert "\n" not in str(refused.value)


FILE = """
import torch
from torch import nn
from ramet.spaces import elastic

def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                         nn.Linear(4 * 64, 10))

def {name}():
    return elastic(network(), torch.randn(4, 1, 8, 8), widths=(0.5, 0.75, 1))
"""
NEITHER = ("check_gradients",)  # a slice's gradients lie in the whole's tensors: tested above


@pytest.mark.parametrize("check", [c for c in SPACE_CHECKS if c.__name__ not in NEITHER], ids=lambda c: c.__name__)
def test_a_space_from_a_file_passes_the_suite(check, tmp_path):
    name = f"sizes_{check.__name__}"
    (tmp_path / f"{name}.py").write_text(FILE.format(name="sizes"), encoding="utf-8")
    check(make_space(f"{tmp_path / name}.py:sizes"), (1, 8, 8), 10)


def test_another_network_is_not_taken_for_the_one_that_was_described(tmp_path):
    (tmp_path / "sizes_changed.py").write_text(FILE.format(name="sizes"), encoding="utf-8")
    description = make_space(f"{tmp_path / 'sizes_changed.py'}:sizes").describe()
    with pytest.raises(ConfigError, match="it has changed"):
        make_space({**description, "fingerprint": "0"}, trusted=True)
    with pytest.raises(ConfigError, match="--trust"):
        make_space(description)
    with pytest.raises(ConfigError, match="it has none"):
        make_space(elastic(mlp(), torch.zeros(2, 3, 8, 8), widths=(0.5, 1)).describe(), trusted=True)


def test_a_space_of_an_object_travels_with_its_weights():
    network = trained(Vit)
    space = elastic(network, inputs_of(network), widths=(0.5, 1), heads=(0.5, 1), depths=(0.5, 1))
    again, x = pickle.loads(pickle.dumps(space)), inputs_of(network)
    assert again.describe() == space.describe()
    for arch in itertools.islice(space, 4):
        assert torch.equal(again.supernet(3, 5).eval()(x, arch), space.supernet(3, 5).eval()(x, arch))
