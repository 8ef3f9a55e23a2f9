import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.spaces.kernels import depthwise
from ramet.spaces.kernels.depthwise import DepthwiseConv2d

FORMATS = [torch.channels_last, torch.contiguous_format]


@pytest.fixture(autouse=True)
def no_tensor_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depthwise, "_SMALL", 0)


def gradients(module: nn.Conv2d, x: Tensor, grad: Tensor) -> list[Tensor]:
    """Torch's own automatic gradients of ``F.conv2d``: the twin of everything here."""
    x, parameters = x.detach().requires_grad_(), [p.detach().requires_grad_() for p in module.parameters()]
    weight, bias = (*parameters, None)[:2]
    output = F.conv2d(x, weight, bias, module.stride, module.padding, module.dilation, module.groups)
    return list(torch.autograd.grad(output, [x, *parameters], grad))


def assert_near(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max() <= tolerance * expected.abs().max().clamp(min=1)


def check(module: DepthwiseConv2d, x: Tensor, generator: torch.Generator, memory_format: torch.memory_format) -> None:
    """Against torch's in double precision: a sum of n products is at most n u times the sum of their sizes away."""
    x = x.contiguous(memory_format=memory_format).requires_grad_()
    output = module(x)
    assert torch.equal(output, nn.Conv2d.forward(module, x))
    grad = torch.randn(output.shape, generator=generator, dtype=x.dtype).contiguous(memory_format=memory_format)
    actual = torch.autograd.grad(output, [x, *module.parameters()], grad)
    exact, sizes = copy.deepcopy(module).double(), copy.deepcopy(module).double()
    with torch.no_grad():
        for param in sizes.parameters():
            param.abs_()
    expected = gradients(exact, x.double(), grad.double())
    magnitudes = gradients(sizes, x.double().abs(), grad.double().abs())
    per_input, per_weight = module.weight[0].numel(), output.numel() // output.shape[1]
    for a, e, size, n in zip(actual, expected, magnitudes, [per_input, per_weight, per_weight], strict=False):
        # Twice, for terms in u squared and for zeros of the padding that are added too.
        assert ((a - e).abs() <= 2 * (n + 1) * torch.finfo(x.dtype).eps / 2 * size).all()


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_gradients_equal_torchs_for_random_shapes(
    size: int, dilation: int, stride: int, memory_format: torch.memory_format
) -> None:
    generator = torch.Generator().manual_seed(1000 * size + 10 * dilation + stride)
    reach = dilation * (size - 1)
    for case in range(12):
        batch, channels, height, width, padding = (
            int(torch.randint(low, high, (), generator=generator))
            for low, high in ((1, 5), (1, 6), (1, 14), (1, 14), (0, reach + 3))
        )
        padding = reach // 2 if case % 2 else padding
        height, width = max(height, reach + 1 - 2 * padding), max(width, reach + 1 - 2 * padding)
        options = dict(padding=padding, dilation=dilation, bias=bool(case % 3))
        module = DepthwiseConv2d(channels, channels, size, stride, **options, dtype=torch.float64)
        x = torch.randn(batch, channels, height, width, generator=generator, dtype=torch.float64)
        check(module, x, generator, memory_format)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(("size", "dilation", "stride"), [(3, 1, 1), (5, 1, 1), (5, 2, 1), (7, 1, 1), (5, 2, 2)])
def test_gradients_equal_torchs_in_single_precision(
    size: int, dilation: int, stride: int, memory_format: torch.memory_format
) -> None:
    generator = torch.Generator().manual_seed(size)
    for channels, image in ((8, 8), (16, 16), (20, 9)):
        padding = dilation * (size // 2)
        module = DepthwiseConv2d(channels, channels, size, stride, padding=padding, dilation=dilation)
        check(module, torch.randn(16, channels, image, image, generator=generator), generator, memory_format)


def test_torchs_own_backward_where_it_is_as_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_ours(size: int, x: Tensor, **options: int) -> bool:
        return "_Depthwise" in DepthwiseConv2d(4, 4, size, **options)(x).grad_fn.name()

    x = torch.randn(2, 4, 16, 16)
    assert is_ours(5, x) and is_ours(3, x, dilation=2) and is_ours(3, x, dilation=2, stride=2)
    assert not is_ours(3, x) and not is_ours(5, x, stride=2)
    monkeypatch.setattr(depthwise, "_SMALL", x.numel())
    assert not is_ours(5, x) and is_ours(5, x, dilation=2)


@pytest.mark.parametrize("dilation", [1, 2])
def test_only_the_wanted_gradients_are_made(dilation: int) -> None:
    x = torch.randn(2, 4, 9, 9, dtype=torch.float64)
    module = DepthwiseConv2d(4, 4, 5, padding=2, dilation=dilation, dtype=torch.float64)
    expected = gradients(module, x, torch.ones_like(module(x)))
    module(x).sum().backward()
    assert module.weight.grad is not None and x.grad is None
    assert_near(module.weight.grad, expected[1], 1e-10)
    module.zero_grad()
    module.requires_grad_(False)
    x.requires_grad_()
    module(x).sum().backward()
    assert x.grad is not None and module.weight.grad is None
    assert_near(x.grad, expected[0], 1e-10)
    module.requires_grad_(True)
    with torch.no_grad():
        assert not module(x).requires_grad


@pytest.mark.parametrize(("dilation", "stride"), [(1, 1), (2, 1), (2, 2)])
def test_gradients_of_gradients(dilation: int, stride: int) -> None:
    module = DepthwiseConv2d(2, 2, 3, stride, padding=2, dilation=dilation, dtype=torch.float64)
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True)

    def convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.func.functional_call(module, {"weight": weight, "bias": bias}, (x,))

    inputs = (x, module.weight, module.bias)
    assert torch.autograd.gradcheck(convolve, inputs)
    assert torch.autograd.gradgradcheck(convolve, inputs)


def test_gradients_of_each_sample() -> None:
    module = DepthwiseConv2d(3, 3, 5, padding=4, dilation=2, dtype=torch.float64)
    x = torch.randn(4, 3, 6, 6, dtype=torch.float64)

    def loss(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
        return torch.func.functional_call(module, parameters, (sample[None],)).square().sum()

    parameters = {name: parameter.detach() for name, parameter in module.named_parameters()}
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for i, sample in enumerate(x):
        module.zero_grad()
        nn.Conv2d.forward(module, sample[None]).square().sum().backward()
        assert module.weight.grad is not None
        assert_near(each["weight"][i], module.weight.grad, 1e-10)


def test_autocast_casts_as_torch_does() -> None:
    module, x = DepthwiseConv2d(4, 4, 5, padding=2), torch.randn(2, 4, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        output, expected = module(x), module.plain()(x)
    assert output.dtype == torch.bfloat16
    assert torch.equal(output, expected)
    output.sum().backward()
    assert module.weight.grad is not None


@pytest.mark.parametrize(
    "options",
    [dict(padding="same"), dict(padding=(1, 2)), dict(stride=(1, 2)), dict(padding=1, padding_mode="circular")],
)
def test_other_settings_are_torchs_own(options: dict) -> None:
    module, x = DepthwiseConv2d(4, 4, 3, **options), torch.randn(2, 4, 8, 8)
    output = module(x)
    assert torch.equal(output, module.plain()(x))
    output.sum().backward()
    assert torch.equal(module(x[0]), module.plain()(x[0]))  # an image without a batch


def test_plain_shares_the_parameters() -> None:
    module = DepthwiseConv2d(4, 4, 5, 2, padding=4, dilation=2, bias=False).eval()
    plain = module.plain()
    assert type(plain) is nn.Conv2d and not plain.training
    assert plain.weight is module.weight and plain.bias is None
    x = torch.randn(2, 4, 9, 9)
    assert torch.equal(plain(x), module(x))
    assert torch.equal(copy.deepcopy(module)(x), module(x))


def test_starts_as_conv2d_does() -> None:
    torch.manual_seed(0)
    module = DepthwiseConv2d(4, 4, 5)
    torch.manual_seed(0)
    plain = nn.Conv2d(4, 4, 5, groups=4)
    plain.load_state_dict(module.state_dict())
    torch.manual_seed(0)
    assert torch.equal(nn.Conv2d(4, 4, 5, groups=4).weight, module.weight)


@pytest.mark.parametrize(("outputs", "groups"), [(8, None), (4, 2), (8, 4)])
def test_refuses_what_is_not_depthwise(outputs: int, groups: int | None) -> None:
    with pytest.raises(ConfigError, match="as many inputs as outputs and groups"):
        DepthwiseConv2d(4, outputs, 3, groups=groups)
