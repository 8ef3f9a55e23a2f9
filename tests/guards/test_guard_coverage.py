"""Every layer type of torch that has parameters: covered by the projection, or named as not covered."""

from __future__ import annotations

import inspect
import warnings

import pytest
import torch
from guarded_layer import double, guarded_update, seeded
from torch import nn

from ramet.guards import KroneckerPlasticity, NoGuard, OrthogonalProjection
from ramet.guards.coverage import UncoveredWarning
from ramet.params import named_params

INDICES = torch.tensor([[1, 4], [4, 2]])


def sequence(length, features):
    return lambda: seeded(double, length, 1, features)  # one sample, so that directions stay open


def image(channels, dims, size=3):
    return lambda: seeded(double, 1, channels, *[size] * dims)


def pair(*sizes):
    return lambda: tuple(seeded(double, 1, size, seed=place) for place, size in enumerate(sizes))


def attention_inputs(*sizes):
    return lambda: tuple(seeded(double, length, 1, size, seed=place) for place, (length, size) in enumerate(sizes))


LAYERS = {
    nn.Linear: (lambda: nn.Linear(8, 5), pair(8)),
    nn.LazyLinear: (lambda: nn.LazyLinear(5), pair(8)),
    nn.Bilinear: (lambda: nn.Bilinear(3, 4, 5), pair(3, 4)),
    nn.Conv1d: (lambda: nn.Conv1d(6, 4, 3), image(6, 1)),
    nn.Conv2d: (lambda: nn.Conv2d(6, 4, 3, padding=1), image(6, 2)),
    nn.Conv3d: (lambda: nn.Conv3d(6, 4, 3), image(6, 3)),
    nn.LazyConv1d: (lambda: nn.LazyConv1d(4, 3), image(6, 1)),
    nn.LazyConv2d: (lambda: nn.LazyConv2d(4, 3), image(6, 2)),
    nn.LazyConv3d: (lambda: nn.LazyConv3d(4, 3), image(6, 3)),
    nn.ConvTranspose1d: (lambda: nn.ConvTranspose1d(8, 6, 3, groups=2, stride=2), image(8, 1, 2)),
    nn.ConvTranspose2d: (lambda: nn.ConvTranspose2d(8, 4, 3, padding=1, output_padding=1, stride=2), image(8, 2, 2)),
    nn.ConvTranspose3d: (lambda: nn.ConvTranspose3d(12, 4, 2, dilation=2), image(12, 3, 2)),
    nn.LazyConvTranspose1d: (lambda: nn.LazyConvTranspose1d(4, 3), image(8, 1, 2)),
    nn.LazyConvTranspose2d: (lambda: nn.LazyConvTranspose2d(4, 3), image(8, 2, 2)),
    nn.LazyConvTranspose3d: (lambda: nn.LazyConvTranspose3d(4, 3), image(12, 3, 2)),
    nn.Embedding: (lambda: nn.Embedding(6, 3), lambda: INDICES),
    nn.EmbeddingBag: (lambda: nn.EmbeddingBag(6, 3), lambda: INDICES),
    nn.RNN: (lambda: nn.RNN(4, 6, num_layers=2), sequence(2, 4)),
    nn.LSTM: (lambda: nn.LSTM(4, 6, proj_size=3, bidirectional=True, num_layers=2), sequence(2, 4)),
    nn.GRU: (lambda: nn.GRU(4, 6), sequence(2, 4)),
    nn.RNNCell: (lambda: nn.RNNCell(4, 6), pair(4, 6)),
    nn.LSTMCell: (lambda: nn.LSTMCell(4, 6), pair(4)),
    nn.GRUCell: (lambda: nn.GRUCell(4, 6), pair(4, 6)),
    nn.MultiheadAttention: (lambda: nn.MultiheadAttention(8, 2), attention_inputs((2, 8), (3, 8), (3, 8))),
    nn.TransformerEncoderLayer: (lambda: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0), sequence(3, 8)),
    nn.TransformerDecoderLayer: (
        lambda: nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, norm_first=True),
        attention_inputs((3, 8), (2, 8)),
    ),
    nn.TransformerEncoder: (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 12, 0.0), 2, norm=nn.LayerNorm(8), enable_nested_tensor=False
        ),
        sequence(3, 8),
    ),
    nn.TransformerDecoder: (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, 0.0), 2),
        attention_inputs((3, 8), (2, 8)),
    ),
    nn.Transformer: (
        lambda: nn.Transformer(8, 2, 1, 1, 12, dropout=0.0, batch_first=True),
        lambda: (seeded(double, 1, 2, 8), seeded(double, 1, 3, 8, seed=1)),
    ),
    nn.BatchNorm1d: (lambda: nn.BatchNorm1d(3), lambda: seeded(double, 4, 3)),
    nn.BatchNorm2d: (lambda: nn.BatchNorm2d(3), image(3, 2)),
    nn.BatchNorm3d: (lambda: nn.BatchNorm3d(3), image(3, 3)),
    nn.LazyBatchNorm1d: (nn.LazyBatchNorm1d, lambda: seeded(double, 4, 3)),
    nn.LazyBatchNorm2d: (nn.LazyBatchNorm2d, image(3, 2)),
    nn.LazyBatchNorm3d: (nn.LazyBatchNorm3d, image(3, 3)),
    nn.SyncBatchNorm: (lambda: nn.SyncBatchNorm(3).eval(), image(3, 2)),
    nn.InstanceNorm1d: (lambda: nn.InstanceNorm1d(3, affine=True), image(3, 1)),
    nn.InstanceNorm2d: (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True).eval(), image(3, 2)),
    nn.InstanceNorm3d: (lambda: nn.InstanceNorm3d(3, affine=True), image(3, 3)),
    nn.LazyInstanceNorm1d: (lambda: nn.LazyInstanceNorm1d(affine=True), image(3, 1)),
    nn.LazyInstanceNorm2d: (lambda: nn.LazyInstanceNorm2d(affine=True), image(3, 2)),
    nn.LazyInstanceNorm3d: (lambda: nn.LazyInstanceNorm3d(affine=True), image(3, 3)),
    nn.LayerNorm: (lambda: nn.LayerNorm((3, 4)), lambda: seeded(double, 2, 3, 4)),
    nn.GroupNorm: (lambda: nn.GroupNorm(2, 4), image(4, 2)),
    nn.RMSNorm: (lambda: nn.RMSNorm(4), lambda: seeded(double, 2, 4)),
    nn.PReLU: (lambda: nn.PReLU(3), image(3, 2)),
    nn.AdaptiveLogSoftmaxWithLoss: (
        lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 10, [4]),
        lambda: (seeded(double, 2, 16), torch.tensor([1, 7])),
    ),
}
if hasattr(nn, "LinearCrossEntropyLoss"):  # since torch 2.13
    LAYERS[nn.LinearCrossEntropyLoss] = (
        lambda: nn.LinearCrossEntropyLoss(8, 5, bias=True),
        lambda: (seeded(double, 2, 8), torch.tensor([1, 3])),
    )
CLOSED = {nn.BatchNorm1d, nn.PReLU, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.SyncBatchNorm, nn.BatchNorm2d}
"""Layers whose every entry has an input of its own: with lambda 0 and inputs that are not 0 nothing may move."""


def takes_parameters(kind):
    """Whether a class of torch.nn may have parameters: all but those that are made without options and have none."""
    try:
        return bool(list(kind().parameters()))
    except (TypeError, NotImplementedError):
        return True


def test_the_table_has_every_layer_type_of_torch():
    kinds = {kind for kind in vars(nn).values() if inspect.isclass(kind) and issubclass(kind, nn.Module)}
    no_layers = {nn.Module, nn.Container, nn.DataParallel, nn.RNNBase, nn.RNNCellBase}
    plain = {kind for kind in kinds if not _has_parameters_by_its_source(kind)}
    found = {kind for kind in kinds - no_layers - plain if takes_parameters(kind)}
    # The source of one speaks of linear layers in an example only; that of the other speaks of its layers alone.
    assert {kind.__name__ for kind in found - {nn.Unflatten}} == {kind.__name__ for kind in LAYERS} - {"Transformer"}


def _has_parameters_by_its_source(kind):
    """Whether torch's code of a class, or of a class above it, makes a parameter or a layer of its own."""
    sources = [inspect.getsource(base) for base in kind.__mro__ if base not in (nn.Module, object)]
    return any(
        word in source for source in sources for word in ("Parameter(", "Linear(", "ModuleList(", "_get_clones(")
    )


def called(layer, inputs):
    """What a layer gives, as one tensor."""
    outputs = layer(*inputs) if isinstance(inputs, tuple) else layer(inputs)
    while isinstance(outputs, tuple):
        outputs = outputs[0]
    return outputs


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_outputs_on_seen_inputs_stay_and_no_parameter_is_unnamed(kind):
    make, inputs = LAYERS[kind]
    results = {}
    for name, guard in {"guarded": OrthogonalProjection(0.0), "plain": NoGuard()}.items():
        layer, x = seeded(make).double(), inputs()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            called(layer, x)  # lazy layers have their parameters now, and are as in the other run
        for place, param in enumerate(layer.parameters()):  # no scale is 1, and no bias 0
            param.data = 0.5 * seeded(double, *param.shape, seed=place + 5)
        layer.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with guard.watch(layer):
                called(layer, x).square().sum().backward()
            guard.remember(named_params(layer))
        before = called(layer, x).detach()
        _, moved = guarded_update(guard, layer)
        results[name] = (called(layer, x).detach() - before).norm(), sum(m.norm() for m in moved.values())
    assert results["guarded"][0] <= 1e-6 < 1e-3 < results["plain"][0]
    if not hasattr(seeded(make), "normalized_shape") and kind not in CLOSED and "Norm" not in kind.__name__:
        assert results["guarded"][1] > 0.1, "what is open still learns"


@pytest.mark.parametrize("kind", [nn.LazyLinear, nn.LazyConv2d])
def test_layers_that_are_still_lazy_when_they_are_watched(kind):
    make, inputs = LAYERS[kind]
    layer, x, guard = make().double(), inputs(), OrthogonalProjection(0.0)
    with guard.watch(layer):
        called(layer, x)
    guard.remember(named_params(layer))
    assert set(guard.open_shares()) == {"weight+bias"}


@pytest.mark.parametrize(
    "options", [{"kdim": 5, "vdim": 6}, {"add_bias_kv": True}, {"bias": False}, {"batch_first": True}]
)
def test_attention_of_every_form(options):
    layer = seeded(nn.MultiheadAttention, 8, 2, **options).double()
    query, key = seeded(double, 2, 1, 8), seeded(double, 3, 1, options.get("kdim", 8), seed=1)
    value = seeded(double, 3, 1, options.get("vdim", 8), seed=2)
    if "batch_first" in options:
        query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
    guard = OrthogonalProjection(0.0)
    with guard.watch(layer):
        layer(query, key, value)[0].sum().backward()
    guard.remember(named_params(layer))
    before = layer(query, key, value)[0].detach()
    _, moved = guarded_update(guard, layer)
    torch.testing.assert_close(layer(query, key, value)[0].detach(), before, rtol=0, atol=1e-6)
    assert moved["out_proj.weight"].norm() > 0.1


def parametrised():
    layer = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))
    nn.utils.parametrizations.weight_norm(layer[0])
    return layer


NAMED = "0.parametrizations.weight.original"


def test_what_is_not_covered_is_named_once_with_its_share():
    layer, x = seeded(parametrised), seeded(torch.randn, 3, 6)
    guard = OrthogonalProjection()
    with guard.watch(layer):
        layer(x).sum().backward()
    # 4 x 6 directions and 4 lengths, of 42 parameters; the bias is added, and the second layer is covered
    with pytest.warns(
        UncoveredWarning, match=rf"does not cover 66.7% of the parameters \(28 of 42\).*{NAMED}1, {NAMED}0"
    ):
        guard.remember(named_params(layer))
    with warnings.catch_warnings(), guard.watch(layer):
        warnings.simplefilter("error")
        layer(x).sum().backward()
        guard.remember(named_params(layer))


@pytest.mark.filterwarnings("ignore::ramet.guards.coverage.UncoveredWarning")
@pytest.mark.parametrize("freeze", [False, True])
def test_what_is_not_covered_is_held_still_if_wanted(freeze):
    layer, x = seeded(parametrised).double(), seeded(double, 2, 6)
    guard = OrthogonalProjection(0.0, freeze_uncovered=freeze)
    raw, moved = guarded_update(guard, layer)
    torch.testing.assert_close(moved, raw)  # nothing is finished yet, and all is free
    layer.zero_grad()
    with guard.watch(layer):
        layer(x).sum().backward()
    guard.remember(named_params(layer))
    restored = OrthogonalProjection(0.0, freeze_uncovered=freeze)
    restored.load_state_dict(guard.state_dict())
    for keeper in (guard, restored):
        before = layer(x).detach()
        raw, moved = guarded_update(keeper, layer)
        for name in (f"{NAMED}0", f"{NAMED}1"):
            assert torch.equal(moved[name], torch.zeros_like(raw[name])) == freeze
        assert torch.allclose(layer(x).detach(), before, rtol=0, atol=1e-9) == freeze
        assert moved["1.weight"].norm() > 0.1
    guard.forget()
    raw, moved = guarded_update(guard, layer)
    torch.testing.assert_close(moved, raw)


def test_what_is_left_out_on_purpose_is_not_named():
    layer, guard = seeded(parametrised), OrthogonalProjection(protect=["1.*"])
    with warnings.catch_warnings(), guard.watch(layer):
        warnings.simplefilter("error")
        layer(torch.randn(3, 6)).sum().backward()
        guard.remember(named_params(layer))
    assert set(guard.open_shares()) == {"1.weight+bias"}


class Hidden(nn.Linear):
    """The weight is used twice, and torch's functions show one of its products."""

    def forward(self, x):
        return super().forward(x) + nn.functional.linear(x.flip(0), self.weight.clone())


class Scaled(nn.Linear):
    """A product with the weight is seen, and it is not the one with the input."""

    def forward(self, x):
        return nn.functional.linear(x, self.weight / (self.weight @ torch.ones(6)).norm(), self.bias)


class Tied(nn.Module):
    """A Kronecker factor knows the decoder, and not the rows that are looked up."""

    def __init__(self):
        super().__init__()
        self.words, self.decoder = nn.Embedding(6, 6), nn.Linear(6, 6, bias=False)
        self.decoder.weight = self.words.weight

    def forward(self, x):
        return self.decoder(self.words(torch.tensor([1, 2])))


IN_PART = {
    "hidden": (lambda: Hidden(6, 4), OrthogonalProjection, "weight"),
    "scaled": (lambda: Scaled(6, 4), OrthogonalProjection, "weight"),
    "spectral": (
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)).eval(),
        OrthogonalProjection,
        "parametrizations.weight.original",
    ),
    "tied": (Tied, KroneckerPlasticity, "words.weight"),
}


@pytest.mark.parametrize("name", IN_PART)
def test_a_parameter_with_another_use_beside_its_product_is_named_and_held_still(name):
    make, guard_of, weight = IN_PART[name]
    layer, guard, x = seeded(make), guard_of(freeze_uncovered=True), seeded(torch.randn, 2, 6)

    def see(network):
        with guard.watch(network):
            network(x).square().sum().backward()

    see(layer)
    restored = guard_of(freeze_uncovered=True)
    restored.load_state_dict(guard.state_dict())
    for keeper in (guard, restored):
        with pytest.warns(UncoveredWarning, match=rf"{weight} \(in part\)"):
            keeper.remember(named_params(layer))
        _, moved = guarded_update(keeper, layer)
        assert not moved[weight].any()


def test_a_penalty_on_weights_beside_the_forward_pass_is_no_use_of_the_model():
    layer, guard = seeded(nn.Linear, 6, 4), OrthogonalProjection()
    with warnings.catch_warnings(), guard.watch(layer):
        warnings.simplefilter("error")
        x = seeded(torch.randn, 3, 6).type_as(layer.weight)
        (layer(x).sum() + sum(param.square().sum() for param in layer.parameters())).backward()
        guard.remember(named_params(layer))


class Mapped(nn.Linear):
    """The product is made for each sample by itself."""

    def forward(self, x):
        return torch.vmap(lambda row: nn.functional.linear(row, self.weight, self.bias))(x)


class Ragged(nn.Module):
    """Sequences of several lengths in one tensor."""

    def __init__(self, layout):
        super().__init__()
        self.layer, self.layout = nn.Linear(6, 4), layout

    def forward(self, x):
        ragged = torch.nested.as_nested_tensor([x[:1], x], layout=self.layout)
        return torch.cat(list(self.layer(ragged).unbind()))


class MappedParameters(nn.Module):
    """The same, of a layer whose class is not torch's."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        return torch.vmap(lambda row: self.weight @ row)(x)


OPAQUE = {
    "vmap": MappedParameters,
    "jagged": lambda: Ragged(torch.jagged),
    "nested": lambda: Ragged(torch.strided),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("guard_of", [OrthogonalProjection, KroneckerPlasticity])
@pytest.mark.parametrize("name", OPAQUE)
def test_products_with_tensors_that_cannot_be_taken_apart_are_named(name, guard_of):
    layer, guard = seeded(OPAQUE[name]), guard_of(freeze_uncovered=True)
    with guard.watch(layer):
        layer(seeded(torch.randn, 2, 6)).square().sum().backward()
    with pytest.warns(UncoveredWarning, match="does not cover 100.0% of the parameters"):
        guard.remember(named_params(layer))
    _, moved = guarded_update(guard, layer)
    assert not any(change.any() for change in moved.values())


def test_a_layer_of_torchs_class_that_is_mapped_is_held_by_its_input():
    layer, x, guard = seeded(Mapped, 6, 4).double(), seeded(double, 2, 6), OrthogonalProjection(0.0)
    with guard.watch(layer):
        layer(x).square().sum().backward()
    guard.remember(named_params(layer))
    before = layer(x).detach()
    _, moved = guarded_update(guard, layer)
    torch.testing.assert_close(layer(x).detach(), before, rtol=0, atol=1e-9)
    assert moved["weight"].norm() > 0.1
