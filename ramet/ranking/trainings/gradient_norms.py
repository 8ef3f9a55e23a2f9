"""PA&DA: paths and samples are drawn by the norms of their gradients, so that the gradient varies least."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.params import Params
from ramet.ranking.trainings.base import OfOutputs, SupernetTraining, TrainingSize
from ramet.seeding import torch_generator
from ramet.spaces import Arch, Space, training_loss


def sampling_distribution(norms: Tensor, share: float) -> Tensor:
    r"""The probabilities :math:`\delta g_i / \sum_j g_j + (1 - \delta) / n` of n things with gradient norms g.

    With delta, the ``share``, at one they make an estimate by ``importance_weights`` vary least; the rest is uniform,
    because norms are those of earlier weights, and what is never drawn is never measured again. A norm that is not
    known, a NaN, counts as the mean of the others.

    >>> sampling_distribution(torch.tensor([1.0, 3.0]), 1.0).tolist()
    [0.25, 0.75]
    """
    known = norms[~norms.isnan()]
    filled = torch.where(norms.isnan(), known.mean(), norms) if len(known) else torch.ones_like(norms)
    total = filled.sum()
    own = filled / total if total > 0 else torch.full_like(filled, 1 / len(filled))
    return share * own + (1 - share) / len(norms)


def importance_weights(probabilities: Tensor, chosen: Tensor) -> Tensor:
    """1 / (n p) of what was drawn from n: with these weights the mean is that of a uniform draw."""
    return 1 / (probabilities.shape[0] * probabilities[chosen])


class GradientNormTraining(SupernetTraining):
    """One child a step, drawn by the norms of the gradients of its options, on samples drawn by the norms of theirs.

    After each epoch the probability of an option of a decision becomes proportional to the mean norm of the gradients
    of the steps that had it, and that of a sample to the last norm of the gradient of its loss by the network's
    outputs, which bounds that of the weights. Both are mixed with the uniform distribution; the share of the norms
    grows linearly over the training. The first epoch is the plan's own order of children and samples. What was drawn
    more often weighs less, so that the gradient's mean stays that of a uniform draw; the loss that is shown is plain.

    Departs from the paper: the norm is that of the whole path's gradient and not of an operation's own weights, because
    options without weights, such as pooling, have no such norm. Where the recipe clips, norms are the clipped ones.

    Args:
        space: the architectures.
        seed: of all draws.
        path_share: the share of the norms in the probabilities of options in the last epoch; 0 draws uniformly.
        data_share: the same for samples; 0 keeps the plan's mini-batches.
        weighted: whether what was drawn more often weighs less.

    Reference: Lu and others, PA&DA: Jointly sampling path and data for consistent NAS, 2023. The shares are ours.
    """

    has_state: ClassVar[bool] = True
    chooses_rows: ClassVar[bool] = True

    def __init__(
        self, space: Space, *, seed: int = 0, path_share: float = 0.5, data_share: float = 0.5, weighted: bool = True
    ) -> None:
        super().__init__(space, seed=seed)
        for name, value in (("path_share", path_share), ("data_share", data_share)):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} must be between 0 and 1, but got {value}.")
        self.path_share, self.data_share, self.weighted = path_share, data_share, weighted
        self.begin(TrainingSize(1, 1, 1, 0.0))

    @property
    def children_per_step(self) -> int:
        """One."""
        return 1

    def begin(self, size: TrainingSize) -> None:
        """No norm is known."""
        self._size, self._epochs_done = size, 0
        widest = (len(self.space.num_options), max(self.space.num_options))
        self._path_norms = torch.full(widest, math.nan, dtype=torch.double)  # [decisions, options]
        self._sums, self._counts = (torch.zeros(widest, dtype=torch.double) for _ in range(2))
        self._data_norms = torch.full((size.num_samples,), math.nan, dtype=torch.double)
        self._new_data_norms = self._data_norms.clone()
        self._drawn_rows = torch.empty(0, dtype=torch.long)
        self._outputs: list[Tensor] = []  # of the step that is taken: the norms of its samples, [batch] in all

    # -- what is drawn -----------------------------------------------------------------------------------------------

    def _share(self, most: float) -> float:
        """The share of the norms in this epoch."""
        return most * min(1.0, self._epochs_done / max(1, self._size.num_epochs - 1))

    def _options(self, place: int) -> Tensor:
        """The probabilities of a decision's options, [options]."""
        return sampling_distribution(
            self._path_norms[place, : self.space.num_options[place]], self._share(self.path_share)
        )

    def archs(self, step: int, turn: Arch) -> Sequence[Arch]:
        """The child whose turn it is as long as all are drawn alike; then one option of each decision."""
        if self._share(self.path_share) == 0:
            return [turn]
        generator = torch_generator(self.seed, "path", step)
        places = range(len(self.space.num_options))
        return [tuple(int(torch.multinomial(self._options(place), 1, generator=generator)) for place in places)]

    def _path_weight(self, arch: Arch) -> float:
        if not self.weighted or self._share(self.path_share) == 0:
            return 1.0
        weights = [importance_weights(self._options(place), torch.tensor(option)) for place, option in enumerate(arch)]
        return math.prod(float(weight) for weight in weights)

    def rows(self, step: int, rows: Tensor) -> Tensor:
        """The samples of a step: those whose turn it is, or as many that are drawn."""
        if self._share(self.data_share) > 0:
            probabilities = sampling_distribution(self._data_norms, self._share(self.data_share))
            generator = torch_generator(self.seed, "data", step)
            rows = torch.multinomial(probabilities, len(rows), replacement=True, generator=generator)
        self._drawn_rows, self._outputs = rows, []
        return rows

    def _row_weights(self) -> Tensor:
        if not self.weighted or self._share(self.data_share) == 0:
            return torch.ones(len(self._drawn_rows), dtype=torch.double)
        return importance_weights(
            sampling_distribution(self._data_norms, self._share(self.data_share)), self._drawn_rows
        )

    # -- what is seen ------------------------------------------------------------------------------------------------

    def loss(self, network: nn.Module, x: Tensor, y: Tensor, archs: Sequence[Arch], of_outputs: OfOutputs) -> Tensor:
        """The child's loss; its gradients are weighted where they leave the loss, and seen there."""
        path_weight = self._path_weight(archs[0])
        weights = self._row_weights() if len(self._drawn_rows) else torch.ones(len(y), dtype=torch.double)

        def watched(outputs: Tensor, targets: Tensor) -> Tensor:
            first = sum(len(norms) for norms in self._outputs)
            norms = torch.full((len(outputs),), math.nan, dtype=torch.double)
            own = weights[first : first + len(outputs)]
            if len(own) < len(outputs):  # a second output of the same samples, as of an auxiliary classifier
                own = weights[: len(outputs)]
            self._outputs.append(norms)

            def see(gradient: Tensor) -> Tensor:
                # The loss is a mean over the samples of this call.
                norms.copy_(gradient.detach().flatten(1).norm(dim=1).double().cpu() * len(gradient))
                scale = (own * path_weight).to(gradient.device, gradient.dtype)
                return gradient * scale.reshape(-1, *[1] * (gradient.dim() - 1))

            if outputs.requires_grad:
                outputs.register_hook(see)  # type: ignore[no-untyped-call]
            return of_outputs(outputs, targets)

        return training_loss(network, x, y, archs[0], watched)

    def after_step(self, step: int, archs: Sequence[Arch], loss: float, params: Params) -> None:
        """Take in the norms; at the end of an epoch they become those that later steps are drawn by."""
        gradients = [param.grad for param in params.values() if param.grad is not None]
        total = torch.stack(torch._foreach_norm(gradients)).norm().item() if gradients else 0.0
        places = torch.arange(len(archs[0]))
        self._sums[places, list(archs[0])] += total / self._path_weight(archs[0])
        self._counts[places, list(archs[0])] += 1
        if self._outputs:
            norms = torch.cat(self._outputs)[: len(self._drawn_rows)]
            self._new_data_norms[self._drawn_rows[: len(norms)]] = norms
            self._outputs = []
        if (step + 1) % self._size.steps_per_epoch == 0:
            self._epochs_done += 1
            seen = self._counts > 0
            self._path_norms[seen] = self._sums[seen] / self._counts[seen]
            self._data_norms.copy_(self._new_data_norms)
            self._sums.zero_()
            self._counts.zero_()

    def report(self) -> dict[str, Any]:
        """How far from uniform it draws at the end: the highest probability over the uniform one."""
        options = [float(self._options(place).max()) * n for place, n in enumerate(self.space.num_options)]
        data = sampling_distribution(self._data_norms, self._share(self.data_share))
        return {
            "highest_option_over_uniform": max(options),
            "highest_sample_over_uniform": float(data.max()) * len(data),
        }

    def state_dict(self) -> dict[str, Any]:
        """The norms, and how many epochs they are of."""
        return {
            "path_norms": self._path_norms, "sums": self._sums, "counts": self._counts,
            "data_norms": self._data_norms, "new_data_norms": self._new_data_norms, "epochs_done": self._epochs_done,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        for name in ("path_norms", "sums", "counts", "data_norms", "new_data_norms"):
            getattr(self, f"_{name}").copy_(state[name])
        self._epochs_done = int(state["epochs_done"])
