"""The core of what models see: as few directions as hold a share of the energy of their inputs (GPM).

Where a ridge lets every direction through by how much was seen in it, a core closes some directions entirely and leaves
the others entirely open. Inputs X, one a column, have the energy |X|^2, the trace of X X'.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ramet.guards.closing import gram_of
from ramet.guards.projectors import MatrixProjector


def grown_core(core: Tensor | None, gram: Tensor, threshold: float) -> Tensor:
    """A core with as few further directions as hold a share of the energy of new inputs, together with those it has.

    With the core M (orthonormal columns) and new inputs X, what the core does not hold is R = X - M M' X. Of R's
    singular vectors the first k are added, for the least k with |M M' X|^2 + |R_k|^2 >= threshold |X|^2.

    Args:
        core: [groups, width, any], columns of zeros where a group has fewer; none at first.
        gram: X X', [groups, width, width], in float64.
        threshold: the share.

    Returns:
        The same for all inputs so far.

    >>> gram = torch.diag(torch.tensor([8.0, 1.5, 0.5], dtype=torch.float64)).unsqueeze(0)
    >>> grown_core(None, gram, 0.9)[0].abs()
    tensor([[1., 0.],
            [0., 1.],
            [0., 0.]], dtype=torch.float64)

    Reference: Saha, Garg and Roy, Gradient Projection Memory for Continual Learning, 2021, section 5.
    """
    total = gram.diagonal(dim1=-2, dim2=-1).sum(-1)  # [groups]
    if core is None:
        rest, held = gram, torch.zeros_like(total)
    else:
        m = core.to(gram.dtype)
        held = (m * (gram @ m)).sum((-2, -1))
        outside = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device) - m @ m.mT
        rest = outside @ gram @ outside
        rest = (rest + rest.mT) / 2
    values, vectors = torch.linalg.eigh(rest)
    values, vectors = values.flip(-1), vectors.flip(-1)  # the strongest first
    noise = 8 * gram.shape[-1] * torch.finfo(gram.dtype).eps * total.unsqueeze(-1)
    values = torch.where(values > noise, values, 0.0)
    before = held.unsqueeze(-1) + values.cumsum(-1) - values  # what is held before each direction, [groups, width]
    # The last bit of a sum must not add a direction that holds nothing.
    wanted = (before < (threshold * total * (1 - 1e-12)).unsqueeze(-1)) & (values > 0)
    added = torch.where(wanted.unsqueeze(-2), vectors, 0.0)[..., : max(1, int(wanted.sum(-1).max()))]
    return added if core is None else torch.cat([core.to(added.dtype), added], dim=-1)


class CoreProjector(MatrixProjector):
    """A layer's core, groups x width x directions, and P = I - M M'; gathers inputs as the whole matrix does.

    The part is ``core``, M. A group whose core is smaller than another's has columns of zeros.
    """

    kept = "core"
    lasting = ("core",)

    def __init__(self, threshold: float, *, mean: bool, **parts: Tensor) -> None:
        super().__init__(0.0, mean=mean, by_energy=False, **parts)
        self.threshold = threshold

    def close(self, keep: float, group: Any | None) -> None:
        """Let the core grow by what the gathered inputs need."""
        columns, gram = self.take(group)
        if gram is None and columns is None:
            return
        gram = gram_of(columns) if gram is None and columns is not None else gram
        assert gram is not None
        core = grown_core(self.parts.get("core"), gram, self.threshold)
        used = (core != 0).any(-2).any(0)  # columns that no group uses are dropped
        self.parts["core"] = core[..., used if bool(used.any()) else slice(0, 1)].to(self.dtype)

    def gathered_gram(self) -> Tensor | None:
        """X X' of the inputs gathered since the last time, in float64, [groups, width, width]; they stay gathered."""
        tensors = self.tensors()
        if "gram" in tensors:
            return tensors["gram"]
        return gram_of(tensors["columns"]) if "columns" in tensors else None

    def project(self, update: Tensor) -> Tensor:
        """Take out what lies in the core."""
        core = self.parts["core"].to(update.dtype)
        return update - (update @ core) @ core.mT

    def open_directions(self) -> tuple[float, int]:
        """The width less the core, over all groups."""
        groups, width = self.shape
        closed = int((self.parts["core"] != 0).any(-2).sum())
        return float(groups * width - closed), groups * width
