"""The same projections on low-rank adapters: O-LoRA keeps adapters apart, InfLoRA chooses where a new one reads.

An adapter adds U D to a frozen weight: D, [rank, inputs], reads ``rank`` directions of the inputs, and U, [outputs,
rank], begins at 0. An adapter whose D reads nothing of an input changes nothing for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.matrices import parts_of
from ramet.guards.names import StepSizes, plain_names, require_state
from ramet.guards.projection import OrthogonalProjection
from ramet.params import Params


def apart_from(down: Tensor, earlier: Sequence[Tensor], share: float = 1.0) -> Tensor:
    """Rows without what lies in the span of earlier rows, or without a share of it; [rank, inputs] all of them.

    >>> apart_from(torch.tensor([[1.0, 1.0]]), [torch.tensor([[2.0, 0.0]])])
    tensor([[0., 1.]])
    """
    rows = torch.cat([one.to(torch.float64) for one in earlier])
    rows = rows[torch.isfinite(rows).all(1)]  # of a training that diverged
    if len(rows) == 0:
        return down
    _, sizes, basis = torch.linalg.svd(rows, full_matrices=False)
    noise = max(rows.shape) * torch.finfo(torch.float32).eps * sizes.amax()
    basis = basis[sizes > noise]  # [directions, inputs]
    exact = down.to(torch.float64)
    found: Tensor = (exact - share * (exact @ basis.T) @ basis).to(down.dtype)
    return found


def unread_rows(gram: Tensor, core: Tensor | None, rank: int) -> Tensor:
    """The strongest directions of new inputs outside of a core, as orthonormal rows, [rank, inputs].

    With the new task's X X' and the core M of all earlier ones, these are the first eigenvectors of (I - M M') X X' (I
    - M M'). Rows beyond what the new inputs have outside of the core are 0: such an adapter has less to learn with.

    >>> unread_rows(torch.diag(torch.tensor([9.0, 4.0, 1.0])), torch.tensor([[1.0], [0.0], [0.0]]), 1).abs()
    tensor([[0., 1., 0.]])

    Reference: Liang and Li, InfLoRA: Interference-Free Low-Rank Adaptation for Continual Learning, 2024, section 3.2.
    """
    exact = gram.to(torch.float64)
    if core is not None:
        m = core.to(torch.float64)
        outside = torch.eye(len(exact), dtype=torch.float64, device=exact.device) - m @ m.T
        exact = outside @ exact @ outside
    values, vectors = torch.linalg.eigh((exact + exact.T) / 2)
    noise = 8 * len(exact) * torch.finfo(torch.float32).eps * gram.diagonal().sum()
    rows = torch.where(values > noise, vectors, 0.0).flip(-1)[:, :rank].T
    found = rows.new_zeros(rank, len(exact))
    found[: len(rows)] = rows
    return found.to(gram.dtype if gram.dtype != torch.float64 else torch.get_default_dtype())


def design_adapters(guard: OrthogonalProjection, params: Params, *, down: str = "lora_A") -> list[str]:
    """Let new adapters read where no earlier task reads, and this one does most (InfLoRA); gives the names set.

    For each task: ``watch`` a pass over its data, call this, train the up-matrices alone, add U D to the weight and set
    U to 0, ``watch`` a pass again, ``remember``. The guard is ``OrthogonalProjection.gpm(protect=["*lora_A*"])``, whose
    core is the method's memory. What the first pass gathered is dropped.

    Raises:
        ConfigError: the guard has no threshold, or has seen no adapter since the last ``remember``.
    """
    if guard.threshold is None:
        raise ConfigError("adapters are designed by a guard with a threshold of energy, but it has none.")
    named = dict(zip(plain_names(params), params.values(), strict=True))
    cores, found = guard.cores(), []
    for key, gram in guard.gathered().items():
        name = parts_of(key).weight
        if down in name and name in named:
            param = named[name]
            rows = unread_rows(gram[0], cores[key][0] if key in cores else None, len(param))
            with torch.no_grad():
                param.copy_(rows.to(param.dtype))
            found.append(name)
    if not found:
        raise ConfigError(f"an input of a parameter with {down!r} in its name must be watched first, but none was.")
    guard.discard()
    return found


class OrthogonalAdapters(Guard):
    """Each task's adapter reads other directions of the inputs than those of the tasks before it (O-LoRA).

    A task has adapters of its own, with names of their own; those of one layer have the same name up to ``down``, as in
    ``layer.lora_A.TASK.weight``. After each step, the down-matrix of the task that is trained loses what lies in the
    span of the rows of finished tasks' down-matrices in that layer. Finished adapters and the weights beneath are
    frozen by whoever trains.

    Args:
        share: how much of the overlap a step takes away, above 0 and at most 1.
        down: what the names of down-matrices have in them.

    Raises:
        ConfigError: for a share outside its range.

    Departs from the paper, where the overlap is a penalty beside the loss, |D_i D_t'|^2 times lambda: the projection is
    what it comes to as lambda grows, and needs no lambda.

    Reference: Wang, Chen, Ge et al., Orthogonal Subspace Learning for Language Model Continual Learning, 2023.
    """

    needs_gradients = False

    def __init__(self, share: float = 1.0, *, down: str = "lora_A") -> None:
        if not 0.0 < share <= 1.0:
            raise ConfigError(f"share must be above 0 and at most 1, but got {share}.")
        self.share, self.down = share, down
        self._finished: Params = {}

    def _layer(self, name: str) -> str:
        return name.partition(self.down)[0]

    def before_step(self, path: Params) -> None:
        """Nothing."""

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """Project the down-matrices on the path, which also takes in what they began with."""
        for name, param in path.items():
            layer = self._layer(name)
            others = [rows for other, rows in self._finished.items() if other != name and self._layer(other) == layer]
            if self.down in name and others:
                param.copy_(apart_from(param, [rows.to(param.device) for rows in others], self.share))

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Keep the rows of the finished task's down-matrices."""
        self._finished |= {name: param.detach().clone() for name, param in path.items() if self.down in name}

    def forget(self) -> None:
        """No finished tasks."""
        self._finished = {}

    def report(self) -> dict[str, float]:
        """How many finished adapters there are."""
        return {"finished_adapters": float(len(self._finished))}

    def state_dict(self) -> dict[str, Tensor]:
        """``down/NAME`` for each."""
        return {f"down/{name}": rows.contiguous().clone() for name, rows in self._finished.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        require_state(state)
        if any(not key.startswith("down/") for key in state):
            raise ConfigError(f"the state of adapters has keys down/NAME, but got {sorted(state)[0]!r}.")
        self._finished = {key.removeprefix("down/"): rows.clone() for key, rows in state.items()}
