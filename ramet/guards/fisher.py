"""How much each weight matters to a model: the diagonal of the Fisher information.

Two estimates are in use, and they are not the same: the mean over samples of the squared gradients, F, and the square
of the mean gradient. The second costs nothing, for training has the mini-batch gradient anyway (section 3.2 of the
paper). Near an optimum the samples' gradients cancel, and its mean is only ``F / N``: the penalty is weaker by the
batch size, and noisier. Far from an optimum it is mostly the squared mean gradient, which says where the loss falls and
not what matters. So a strength tuned for one of them is wrong for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from ramet.errors import ConfigError
from ramet.guards.finite import all_finite
from ramet.guards.names import gradient_of, plain_names, unwrapped
from ramet.guards.precision import precise
from ramet.guards.ranks import process_group_of, sum_over_ranks
from ramet.params import Params


def diagonal_fisher(
    network: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    arguments: tuple[Any, ...] = (),
    chunk_size: int | None = 64,
) -> Params:
    """The mean over samples of squared per-sample gradients, by plain parameter name.

    With the data's own labels this is the empirical Fisher information that the paper and elastic consolidation use.
    With labels drawn from the network's own predictions (``sample_labels``) it is the Fisher information itself. It is
    averaged over ranks where the network is wrapped for them; a parameter that no sample's loss depends on has no
    entry.

    The network must be in evaluation mode, since batch norm in training mode mixes the samples. The loss takes outputs
    and targets of a batch, here of one sample; ``arguments`` are further ones of the network, such as an architecture;
    ``chunk_size`` samples have their gradients in memory at a time, or all.

    Raises:
        ConfigError: if the network is in training mode, or there is no sample.

    >>> layer = nn.Linear(1, 1, bias=False).eval()
    >>> squared_error = lambda out, y: 0.5 * (out - y).square().mean()
    >>> x, y = torch.tensor([[1.0], [2.0]]), layer(torch.tensor([[1.0], [2.0]])).detach() + 1
    >>> diagonal_fisher(layer, squared_error, x, y)["weight"]  # gradients -1 and -2
    tensor([[2.5000]])
    """
    if len(x) == 0 or len(x) != len(y):
        raise ConfigError(
            f"the Fisher information needs as many targets as inputs, at least one, but got {len(y)} and {len(x)}."
        )
    group, network = process_group_of(network), unwrapped(network)
    if network.training:
        raise ConfigError("the Fisher information needs the network in evaluation mode, but network.training is True.")
    params = {name: param.detach() for name, param in network.named_parameters() if param.requires_grad}
    fixed = {name: param.detach() for name, param in network.named_parameters() if not param.requires_grad}
    fixed.update(network.named_buffers())

    def sample_loss(values: Params, sample: Tensor, target: Tensor) -> Tensor:
        output = functional_call(network, {**values, **fixed}, (sample.unsqueeze(0), *arguments))
        return loss(output, target.unsqueeze(0))

    per_sample = vmap(grad(sample_loss), in_dims=(None, 0, 0))
    total = {name: torch.zeros_like(param) for name, param in params.items()}
    size = chunk_size or len(x)
    with sdpa_kernel(SDPBackend.MATH):  # the others have no rule for many samples at once, and torch warns of each
        for xs, ys in zip(torch.split(x, size), torch.split(y, size), strict=True):
            for name, gradients in per_sample(params, xs, ys).items():
                total[name] += gradients.square().sum(0)
    count = torch.tensor([float(len(x))], dtype=torch.float64, device=x.device)
    sum_over_ranks([*total.values(), count], group)
    torch._foreach_div_(list(total.values()), float(count))
    named = zip(plain_names(total), total.values(), strict=True)
    return {name: fisher for name, fisher in named if bool(fisher.any())}


def sample_labels(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Labels drawn from a classifier's own predictions, [n]: with them ``diagonal_fisher`` is not the empirical one."""
    return torch.multinomial(logits.detach().float().softmax(-1).cpu(), 1, generator=generator)[:, 0].to(logits.device)


def squared_gradients(path: Params, max_norm: float | None = None) -> Params | None:
    """The squares of the gradients that parameters hold, in at least float32; None where one is not finite.

    Squares of a tensor are scaled down to the L2 norm ``max_norm`` where they exceed it, as in the released code of the
    paper (10); the paper itself does not limit them.
    """
    gradients = [precise(gradient_of(param)) for param in path.values()]
    if not gradients or not all_finite(gradients):
        return None
    return clipped(dict(zip(path, torch._foreach_mul(gradients, gradients), strict=True)), max_norm)


def clipped(fisher: Params, max_norm: float | None) -> Params:
    """Each tensor scaled down to an L2 norm where it exceeds it."""
    if max_norm is None or not fisher:
        return fisher
    values = list(fisher.values())
    norms = [norm.clamp(min=max_norm) for norm in torch._foreach_norm(values)]
    ratios = torch._foreach_reciprocal(norms)
    torch._foreach_mul_(ratios, max_norm)
    return dict(zip(fisher, torch._foreach_mul(values, ratios), strict=True))
