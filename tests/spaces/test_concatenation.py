"""The concatenation at the end of a cell: torch's own values and gradients, laid out for the layers before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ramet.spaces import Cells64, Darts, Space
from ramet.spaces.layers import concatenate


def _nodes() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(2, channels, 4, 4, generator=generator) for channels in (3, 5)]
    return [part.contiguous(memory_format=torch.channels_last).requires_grad_() for part in parts]


def test_it_is_torchs_own_with_gradients_of_the_same_bits() -> None:
    ours, theirs = _nodes(), _nodes()
    weight = torch.randn(2, 8, 4, 4, generator=torch.Generator().manual_seed(1))

    joined, expected = concatenate([node * 2 for node in ours]), torch.cat([node * 2 for node in theirs], dim=1)
    (joined * weight).sum().backward()
    (expected * weight).sum().backward()

    assert torch.equal(joined, expected)
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours, theirs, strict=True) if a.grad is not None)


def test_it_can_be_differentiated_twice() -> None:
    nodes = _nodes()
    (first,) = torch.autograd.grad(concatenate([nodes[0] ** 3, nodes[1]]).sum(), nodes[:1], create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), nodes[:1])
    torch.testing.assert_close(second, 6 * nodes[0].detach())


def test_no_batch_norm_of_a_cell_gets_a_gradient_with_gaps() -> None:
    for space in (Cells64(4, 2), Darts(4, 3)):
        assert _gaps(space) == []


def _gaps(space: Space) -> list[str]:
    """The batch norms whose backward pass would be the slow one."""
    torch.manual_seed(0)
    found: list[str] = []

    def look(name: str) -> object:
        def hook(module: nn.Module, grads_in: object, grads_out: tuple[Tensor, ...]) -> None:
            if not grads_out[0].is_contiguous(memory_format=torch.channels_last):
                found.append(name)

        return hook

    supernet = space.supernet(in_channels=3, num_classes=10)
    norms = {name: module for name, module in supernet.named_modules() if isinstance(module, nn.BatchNorm2d)}
    for name, module in norms.items():
        module.register_full_backward_hook(look(name))  # type: ignore[arg-type]
    arch = space.sample(torch.Generator().manual_seed(3))
    supernet(torch.randn(4, 3, 8, 8), arch).sum().backward()
    return found
