"""One network that several ranks train: each takes its part of a mini-batch, and what counts is summed over all.

The sums are those of one process with the whole mini-batch, up to rounding: gradients, batch-norm statistics, losses,
errors and outputs. Whatever is decided from them is therefore decided alike on every rank. With one process every
method does the plain thing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.execution.ranks import BatchPart, Ranks
from ramet.params import Params
from ramet.searching.measures import Gathered, Score, batch_statistics, measure, measuring, score_of_tally, tally
from ramet.searching.plan import BatchNormMode
from ramet.spaces import Arch
from ramet.training import (
    Metric,
    Recipe,
    Step,
    SynchronisedNorms,
    in_batches,
    reestimated_batch_norm,
)


class RankedTraining:
    """A network, called as ``network(x, arch)``, and the ranks that train it, of which guards learn, too."""

    def __init__(self, network: nn.Module, ranks: Ranks) -> None:
        self.network, self.ranks = network, ranks
        self._norms = SynchronisedNorms(network, ranks.sum_) if ranks.size > 1 else None
        self._checked: Arch | None = None
        ranks.adopt(network)

    @property
    def draws(self) -> tuple[str | int, ...]:
        """What is added to the role of what layers draw, so that ranks leave out different things of their samples."""
        return () if self.ranks.is_leader else ("rank", self.ranks.rank)

    def step(self, optimizer: torch.optim.Optimizer, recipe: Recipe, **options: Any) -> Step:
        """Takes the ranks' steps by a recipe, each inside a ``batch`` that all cut into equally many micro-batches."""
        if self.ranks.size > 1 and recipe.accumulate > 1:
            raise ConfigError(f"ranks divide a mini-batch as it is: accumulate must be 1, but got {recipe.accumulate}.")
        sums = self.sum_gradients if self.ranks.size > 1 else None
        return Step(self.network, optimizer, recipe, sum_gradients=sums, **options)

    @contextmanager
    def batch(self, count: int, *, checked: Arch | None = None) -> Iterator[BatchPart]:
        """A block for this rank's part of a mini-batch of ``count`` samples; batch norms see the whole of it.

        ``checked`` is the architecture that is trained, if the ranks are to compare theirs before they sum gradients.
        """
        part = self.ranks.part(count)
        norms = None if part.repeated else self._norms  # what every rank sees whole needs no sums
        self._checked = checked
        with self.ranks.taking(part), nullcontext() if norms is None else norms.synchronised():
            yield part

    def share(self, part: BatchPart, loss: Tensor) -> Tensor:
        """This rank's summand of the whole mini-batch's mean loss, from the mean over its own samples."""
        return loss if self.ranks.size == 1 else loss * part.weight

    def sum_gradients(self, params: Params, loss: Tensor) -> Tensor:
        """Make the gradients those of the whole mini-batch, for the parameters on the path only; gives its loss."""
        loss = loss.detach()
        if self.ranks.size > 1:
            if self._checked is not None:
                self.check_path(params, self._checked)
            loss = loss.reshape(1).clone()
            self.ranks.sum_([param.grad for param in params.values() if param.grad is not None] + [loss])
        return loss.reshape(())

    def sum_each(self, gradients: Sequence[Tensor | None]) -> None:
        """The same for gradients that ``torch.autograd.grad`` gave."""
        self.ranks.sum_([gradient for gradient in gradients if gradient is not None])

    def check_path(self, params: Params, arch: Arch) -> None:
        """Raise a ``RunError`` if the ranks train different architectures; sums over them would mean nothing."""
        if self.ranks.size > 1:
            path = [name for name, param in params.items() if param.grad is not None]
            digest = hashlib.sha256(repr((tuple(arch), path)).encode()).digest()
            number = int.from_bytes(digest[:8], "big") >> 2
            self.ranks.check_same(number, "all ranks must train the same architecture in a step")

    def measure(
        self,
        arch: Arch,
        x: Tensor,
        y: Tensor,
        *,
        batch_norm: BatchNormMode,
        calibration: Sequence[Tensor] = (),
        outputs: list[Tensor] | None = None,
        metric: Metric | None = None,
    ) -> Score:
        """``measures.measure`` with the samples divided among the ranks; all of them get all outputs."""
        if self.ranks.size == 1:
            options: dict[str, Any] = {"batch_norm": batch_norm, "calibration": calibration, "metric": metric}
            return measure(self.network, arch, x, y, outputs=outputs, **options)
        if batch_norm == "reestimated":
            # Each rank makes all of the few statistics by itself, which needs no messages.
            with reestimated_batch_norm(self.network, calibration, arch):
                return self.measure(arch, x, y, batch_norm="running", outputs=outputs, metric=metric)
        if metric is not None:
            return self._measure_by(metric, arch, x, y, batch_norm, outputs)
        total = torch.zeros(3, dtype=torch.float64)
        with measuring(self.network, batch_norm):
            for inputs, labels in in_batches(x, y):
                with self.batch(len(labels)) as part:
                    logits = self.network(inputs[part.rows], arch)
                    counted = tally(logits, labels[part.rows])
                if not part.repeated or self.ranks.is_leader:
                    total += counted
                if outputs is not None:
                    outputs.append(self._whole(logits, part, len(labels)))
            self.ranks.sum_([total])
        return score_of_tally(total, y)

    def _measure_by(
        self,
        metric: Metric,
        arch: Arch,
        x: Tensor,
        y: Tensor,
        batch_norm: BatchNormMode,
        outputs: list[Tensor] | None,
    ) -> Score:
        """The same by a metric: its sums are summed over the ranks; for one without, every rank gets all outputs."""
        gathered = Gathered(metric)
        with measuring(self.network, batch_norm):
            for inputs, targets in in_batches(x, y):
                with self.batch(len(targets)) as part:
                    own = self.network(inputs[part.rows], arch)
                    if metric.sums is not None:
                        gathered.add(own, targets[part.rows], counts=not part.repeated or self.ranks.is_leader)
                if metric.sums is None or outputs is not None:
                    whole = self._whole(own, part, len(targets))
                    if metric.sums is None:
                        gathered.add(whole, targets)
                    if outputs is not None:
                        outputs.append(whole)
            if gathered.sums is not None:
                self.ranks.sum_([gathered.sums, gathered.num_broken])
        return gathered.score(y)

    def outputs(self, arch: Arch, x: Tensor) -> Tensor:
        """The outputs for all samples, by the batch's own statistics, on every rank."""
        with batch_statistics(self.network), self.batch(len(x)) as part:
            return self._whole(self.network(x[part.rows], arch), part, len(x))

    def _whole(self, own: Tensor, part: BatchPart, count: int) -> Tensor:
        """The outputs of all ``count`` samples from those of this rank."""
        if self.ranks.size == 1 or part.repeated:
            return own.clone()
        whole = own.new_zeros(count, *own.shape[1:])
        whole[part.rows] = own
        self.ranks.sum_([whole])
        return whole

    def score_each(self, archs: Sequence[Arch], score: Callable[[Arch], Score]) -> list[Score]:
        """The scores of children, who are divided among the ranks; all ranks get all of them."""
        if self.ranks.size == 1:
            return [score(arch) for arch in archs]
        table = torch.zeros(len(archs), 2, dtype=torch.float64)
        for place in range(self.ranks.rank, len(archs), self.ranks.size):
            found = score(archs[place])
            table[place] = torch.tensor([found.error, found.reward], dtype=torch.float64)
        self.ranks.sum_([table])
        return [Score(error, reward) for error, reward in table.tolist()]
