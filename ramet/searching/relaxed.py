"""DARTS: choices relaxed to weights, which descend the validation loss, to first or second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.execution.ranks import ALONE, Ranks
from ramet.ranking.setup import SupernetSetup
from ramet.runs import Checkpoints
from ramet.searching.distributed import RankedTraining
from ramet.searching.measures import Score, measure, other_metric
from ramet.searching.plan import SearchPlan
from ramet.seeding import derive_seed, seeded_globally, torch_generator
from ramet.spaces import Arch, Relaxed, Supernet
from ramet.training import Batches, SavedPart, Saver, Values, make_optimizer, read_ahead
from ramet.training.optimizers import group_rates

Batch = tuple[Tensor, Tensor]


class RelaxedSearch:
    """DARTS on any space whose cells can be mixed.

    Every edge has a row of logits alpha; its operations are added up with the weights softmax(alpha). In turns, alpha
    descends the loss on a validation mini-batch (Adam) and the shared weights descend that on a training mini-batch
    (SGD). To second order the validation loss is taken after a virtual step of the weights, see ``unrolled_gradient``.

    It has the arguments and methods of ``Search``; of the plan, epochs, warm-up epochs (in which only the weights are
    trained) and seed are used. The plan's strategy options are ``order`` (1 or 2), ``alpha_learning_rate`` (3e-4) and
    ``alpha_weight_decay`` (1e-3), DARTS' own values. An epoch is a pass over the training split.

    Reference: Liu, Simonyan and Yang, DARTS: Differentiable Architecture Search, 2019.
    """

    epsilon = 0.01
    """The length of the finite difference of ``unrolled_gradient``, DARTS' own."""

    def __init__(
        self,
        setup: SupernetSetup,
        plan: SearchPlan,
        *,
        record: Callable[..., object] = lambda key, **fields: None,
        progress: Callable[[float, str], None] = lambda share, text: None,
        checkpoints: Checkpoints | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        plan.check(setup.space)
        options = {"order": 1, "alpha_learning_rate": 3e-4, "alpha_weight_decay": 1e-3} | plan.relaxed_options
        if len(options) > 3 or options["order"] not in (1, 2):
            raise ConfigError(f"DARTS takes order (1 or 2) and alpha_learning_rate, but got {plan.relaxed_options}.")
        setup = replace(setup, settings=replace(setup.settings, epochs=plan.epochs))
        self.setup, self.plan, self.order = setup, plan, options["order"]
        self._record, self._progress, self._checkpoints = record, progress, checkpoints
        supernet = setup.new_supernet(plan.seed)
        assert isinstance(supernet, Supernet)
        self.network = Relaxed(supernet, setup.space)
        self._together = RankedTraining(self.network, ranks)
        generator = torch_generator(plan.seed, "alphas")
        device = setup.data.train.x.device
        self.alphas = [
            nn.Parameter((1e-3 * torch.randn(count, generator=generator)).to(device))
            for count in self.network.num_options
        ]
        self._weights = list(self.network.parameters())
        self._optimizer = make_optimizer(self.network, setup.settings)
        rates = group_rates(self._optimizer, setup.settings)
        self._step = self._together.step(self._optimizer, setup.settings, group_rates=rates, only=self._weights)
        self._alpha_optimizer = torch.optim.Adam(
            self.alphas,
            lr=options["alpha_learning_rate"],
            betas=(0.5, 0.999),
            weight_decay=options["alpha_weight_decay"],
        )

    def run(self) -> RelaxedSearch:
        """All epochs."""
        data, settings, plan = self.setup.data, self.setup.settings, self.plan
        training = Batches(len(data.train), settings.batch_size, derive_seed(plan.seed, "batches"))
        held_out = Batches(len(data.validation), settings.batch_size, derive_seed(plan.seed, "rewards"))
        num_steps = plan.epochs * training.steps_per_epoch
        first = self._saver.resume() or 0
        read_ahead(data.train.x, training, first * training.steps_per_epoch, num_steps)
        for epoch in range(first, plan.epochs):
            total, validation = 0.0, 0.0
            with seeded_globally(plan.seed, "draws", epoch, *self._together.draws):
                for step in range(epoch * training.steps_per_epoch, (epoch + 1) * training.steps_per_epoch):
                    learning_rate = settings.learning_rate_at(step, num_steps)
                    batch = settings.batch(data.train.x, data.train.y, training[step], seed=plan.seed, step=step)
                    if epoch >= plan.warmup_epochs:
                        rows = held_out[step]
                        held = (data.validation.x[rows], data.validation.y[rows])
                        validation += self._step_alphas(batch, held, learning_rate)
                    total += self._step_weights(step, batch, learning_rate)
            weights = self.mixture()
            entropy = torch.stack([-(row * row.clamp_min(1e-12).log()).sum() for row in weights]).sum()
            self._record(
                f"epoch/{epoch}",
                loss=total / training.steps_per_epoch,
                validation_loss=validation / training.steps_per_epoch,
                strategy={"entropy": float(entropy.detach())},
                best={"arch": self.setup.space.name(self.network.derive(weights)), "reward": None},
            )
            self._saver.save(epoch + 1)
            self._progress((epoch + 1) / plan.epochs, f"epoch {epoch + 1}")
        return self

    def mixture(self) -> list[Tensor]:
        """The weights of the operations of each edge."""
        return [torch.softmax(alpha, dim=0) for alpha in self.alphas]

    def derive(self, n: int) -> list[Arch]:
        """The one architecture of the strongest operations."""
        return [self.network.derive(self.mixture())]

    def score(self, archs: Sequence[Arch]) -> list[Score]:
        """Children on the whole validation split, by their single path."""
        data = self.setup.data.validation
        metric, network = other_metric(self.setup.settings, data.y), self.network.supernet
        return [measure(network, arch, data.x, data.y, batch_norm="batch", metric=metric) for arch in archs]

    def loss(self, batch: Batch) -> Tensor:
        """The loss of the mixture."""
        of_outputs = self.setup.settings.loss_for(self.setup.data.train.y)  # mixup makes shares of classes, no numbers
        return of_outputs(self.network(batch[0], self.mixture()), batch[1])

    def _step_weights(self, number: int, batch: Batch, learning_rate: float) -> float:
        self.network.train()
        with self._together.batch(len(batch[0])) as part:
            return self._step(
                number,
                learning_rate,
                lambda x, y: self._together.share(part, self.loss((x, y))),
                batch[0][part.rows],
                batch[1][part.rows],
            )

    def _step_alphas(self, batch: Batch, held: Batch, learning_rate: float) -> float:
        self.network.train()
        if self.order == 1:
            loss, gradients = self._gradients(held, self.alphas)
        else:
            loss, gradients = self.unrolled_gradient(batch, held, learning_rate)
        for alpha, gradient in zip(self.alphas, gradients, strict=True):
            alpha.grad = gradient
        self._alpha_optimizer.step()
        return float(loss.detach())

    def _gradients(self, batch: Batch, inputs: Sequence[Tensor]) -> tuple[Tensor, list[Any]]:
        """The loss on a mini-batch of all ranks and its gradients, None for an input that it does not depend on."""
        with self._together.batch(len(batch[0])) as part:
            loss = self._together.share(part, self.loss((batch[0][part.rows], batch[1][part.rows])))
            gradients = list(torch.autograd.grad(loss, inputs, allow_unused=True))
        loss = loss.detach()
        self._together.sum_each([*gradients, loss])
        return loss, gradients

    def unrolled_gradient(self, batch: Batch, held: Batch, step_size: float) -> tuple[Tensor, list[Tensor]]:
        """The gradient of the validation loss after one virtual step of the weights, DARTS Eqs. 7 and 8.

        With w' = w - xi dL_train/dw(w, alpha) it is dL_val/dalpha(w', alpha) minus xi / (2 epsilon) times
        dL_train/dalpha(w+, alpha) - dL_train/dalpha(w-, alpha), where w+- = w +- epsilon dL_val/dw' and
        epsilon = 0.01 / |dL_val/dw'|.

        Departs from the authors' code: the virtual step has neither momentum nor weight decay, as in the paper.
        """
        weights = self._weights
        kept = [weight.detach().clone() for weight in weights]
        _, inner = self._gradients(batch, weights)
        self._move(kept, inner, -step_size)
        loss, both = self._gradients(held, [*self.alphas, *weights])
        direct, outer = both[: len(self.alphas)], both[len(self.alphas) :]
        norm = torch.stack([gradient.norm() for gradient in outer if gradient is not None]).norm()
        epsilon = float(self.epsilon / norm.clamp_min(1e-12))
        slopes = []
        for sign in (1, -1):
            self._move(kept, outer, sign * epsilon)
            slopes.append(self._gradients(batch, self.alphas)[1])
        self._move(kept, outer, 0.0)
        gradients = [
            gradient - step_size * (plus - minus) / (2 * epsilon)
            for gradient, plus, minus in zip(direct, *slopes, strict=True)
        ]
        return loss, gradients

    def _move(self, kept: Sequence[Tensor], direction: Sequence[Tensor | None], length: float) -> None:
        """Put the weights a way from where they were."""
        with torch.no_grad():
            for weight, value, gradient in zip(self._weights, kept, direction, strict=True):
                weight.copy_(value if gradient is None else value + length * gradient)

    @cached_property
    def _saver(self) -> Saver:
        parts: dict[str, SavedPart] = {
            "network": self.network,
            "optimizer": self._optimizer,
            "alphas": Values(lambda: [alpha.detach() for alpha in self.alphas], self._put_alphas),
            "alpha optimizer": self._alpha_optimizer,
        }
        return Saver(self._checkpoints, parts, several=self._together.ranks)

    def _put_alphas(self, values: Sequence[Tensor]) -> None:
        with torch.no_grad():
            for alpha, value in zip(self.alphas, values, strict=True):
                alpha.copy_(value)
