"""Weight plasticity: shared weights move the less, the more they matter to the models before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.guards.names import StepSizes, require_state
from ramet.guards.quadratic import FisherGuard, Form, Unit
from ramet.guards.turns import Turns
from ramet.params import Params

Towards = Literal["last", "mean"]
"""Whether weights are held where the model trained last had them, or at the mean of all."""


class WeightPlasticity(FisherGuard):
    """The weight plasticity loss, for two models, for many, and for architecture search.

    Training model 2 on weights that model 1 uses too, the loss gains a penalty on leaving model 1's weights, weighted
    by how much each of them matters to model 1 (Eq. 8; its term in lambda is the optimizer's weight decay): alpha / 2
    times the sum over the shared weights of F_i (theta_i - anchor_i)^2. ``strength`` is alpha; ``remember`` takes F and
    the anchor. After more than one model the penalties add up (``eta=None``): one Fisher information and one anchor
    hold the sum exactly. For a search (section 3.2) give ``eta``, or use ``for_search``: then F <- (1 - eta) F + eta
    (dL/dtheta)^2 and the anchor is the model trained last. That needs turns of several mini-batches (7 in the released
    code): in the first step after ``remember`` the weights are at the anchor, and nothing pulls. Where a turn is a
    single mini-batch, ``towards="mean"`` keeps what earlier models had while others train.

    Args:
        strength: alpha, how firmly earlier models are held. The paper does not say; 60 is the released
            code's value for recurrent search. With per-sample Fisher information from a converged model, 100 to
            10,000 act on an MLP under SGD, and 1e7 on a transformer under AdamW: see ``unit``, and ``tune``.
        form: "implicit" takes the penalty's proximal step after the optimizer's, which is stable at any strength;
            "explicit" adds its gradient, the loss as written, and diverges once step size x alpha x F exceeds 2.
        eta: weight of the newest squared gradient (0.9 in the paper), or None to add them up.
        towards: with ``eta``, where weights are held: as the model trained "last" had them (the paper), or at the
            "mean" of all models, weighted by their Fisher information, of which each leaves 1 - eta of those before.
        warmup_epochs: epochs, from 0 on, in which nothing is guarded nor remembered (5 for RNNs, 3 for CNNs).
        flush_every: set F to zero at the start of every so many epochs after the warm-up (3), or None.
        decay: alpha falls by this in each epoch (1 in the released code), not below 0.
        decay_from: the last epoch with the whole alpha (15 in the released code).
        fall_from: of ``for_search``, the share of the epochs after which alpha falls; from the end of the warm-up, if
            that is later.
        fall_to: of ``for_search``, the share of the epochs after which it is 0.
        num_epochs: of ``for_search``, the epochs of the search, which tells them itself.
        max_fisher_norm: scale the squared gradients of a tensor down to this L2 norm (10 in the released code).
        unit: what the strength is measured in, see ``quadratic.Unit``: "fisher" (the paper), "trace", which does not
            depend on the size of gradients, or "hold", a share from 0 to 1 of each step.
        protect: shell patterns of the parameter names that are guarded.

    Raises:
        ConfigError: for a value outside its range; from ``remember`` when there are no gradients to learn from.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
    >>> guard, params, optimizer = WeightPlasticity(3.0), {"w": weight}, torch.optim.SGD([weight], lr=1.0)
    >>> weight.grad = torch.tensor([1.0, 0.0])  # the first model needs the first weight only
    >>> guard.remember(params)
    >>> weight.grad = torch.tensor([1.0, 1.0])
    >>> with guard.step(params, 1.0):
    ...     optimizer.step()
    >>> weight.data  # a quarter of the way, and the whole way
    tensor([0.7500, 0.0000])

    Departures from the paper: the penalty is implicit by default. Parameters off a finished model's path keep their F;
    the formula of section 3.2, read literally, would shrink it whenever another model is trained. The buffer is flushed
    at an epoch's start and not within one, so that no epoch of guarding begins with a half-full one.

    Reference: Benyahia, Yu et al., Overcoming Multi-model Forgetting, 2019, sections 3.1 and 3.2.
    """

    def __init__(
        self,
        strength: float = 60.0,
        *,
        form: Form = "implicit",
        eta: float | None = None,
        towards: Towards = "last",
        warmup_epochs: int = 0,
        flush_every: int | None = None,
        decay: float = 0.0,
        decay_from: float = 0,
        max_fisher_norm: float | None = None,
        unit: Unit = "fisher",
        protect: str | Sequence[str] = "*",
    ) -> None:
        super().__init__(strength, form, protect, max_fisher_norm, unit)
        if eta is not None and not 0.0 < eta <= 1.0:
            raise ConfigError(f"eta must be above 0 and at most 1, but got {eta}.")
        if warmup_epochs < 0 or decay < 0 or decay_from < 0:
            worst = min(warmup_epochs, decay, decay_from)
            raise ConfigError(f"warmup_epochs, decay and decay_from must not be negative, but got {worst}.")
        if flush_every is not None and flush_every < 1:
            raise ConfigError(f"flush_every must be at least 1 epoch, but got {flush_every}.")
        if max_fisher_norm is not None and max_fisher_norm <= 0:
            raise ConfigError(f"max_fisher_norm must be above 0, but got {max_fisher_norm}.")
        if towards not in get_args(Towards):
            raise ConfigError(f"towards must be 'last' or 'mean', but got {towards!r}.")
        self.eta, self.warmup_epochs, self.flush_every = eta, warmup_epochs, flush_every
        self.towards: Towards = towards
        self.holds_last = eta is not None and towards == "last"
        if self.holds_last:
            self.least_turn = 2
            self.what_is_void = "weight plasticity holds weights where the model trained last left them"
        self._turns = Turns()
        self.decay, self.decay_from = decay, decay_from
        self._epoch = 0

    @classmethod
    def for_search(
        cls,
        strength: float = 60.0,
        *,
        form: Form = "implicit",
        eta: float | None = 0.9,
        towards: Towards = "last",
        warmup_epochs: int = 5,
        flush_every: int | None = 3,
        decay: float | None = None,
        decay_from: float | None = None,
        fall_from: float = 0.1,
        fall_to: float = 0.5,
        num_epochs: int | None = None,
        max_fisher_norm: float | None = None,
        unit: Unit = "fisher",
        protect: str | Sequence[str] = "*",
    ) -> WeightPlasticity:
        """Weight plasticity for a search, with the paper's values: shared weights that matter to others move less.

        Over the epochs of a search alpha falls to 0 along a line. The defaults are what the released code does in its
        150 epochs: 60, less 1 an epoch from epoch 15 on. Where ``decay`` or ``decay_from`` is given, or the number of
        epochs is not known, they are taken as they are; 1 and 15 in the released code.
        """
        if not 0 <= fall_from < fall_to:
            raise ConfigError(f"fall_from must be at least 0 and below fall_to, but got {fall_from} and {fall_to}.")
        if decay is None and decay_from is None and num_epochs is not None:
            decay_from = max(fall_from * num_epochs, float(warmup_epochs))
            # A warm-up that ends after the fall would leave nothing to fall from; alpha is then whole in one epoch.
            decay = strength / max(fall_to * num_epochs - decay_from, 1.0)
        decay, decay_from = 1.0 if decay is None else decay, 15 if decay_from is None else decay_from
        return cls(
            strength,
            form=form,
            eta=eta,
            towards=towards,
            warmup_epochs=warmup_epochs,
            flush_every=flush_every,
            decay=decay,
            decay_from=decay_from,
            max_fisher_norm=max_fisher_norm,
            unit=unit,
            protect=protect,
        )

    @property
    def alpha(self) -> float:
        """The strength in the current epoch; 0 during the warm-up."""
        if self._epoch < self.warmup_epochs:
            return 0.0
        return max(0.0, self.strength - self.decay * max(0, self._epoch - self.decay_from))

    def start_epoch(self, epoch: int) -> None:
        """Set alpha for the epoch, and flush the Fisher buffer when it is time."""
        since = epoch - self.warmup_epochs
        if epoch != self._epoch and self.flush_every is not None and since > 0 and since % self.flush_every == 0:
            self.flush()
        self._epoch = epoch

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Update the Fisher information and the anchor."""
        if self._epoch < self.warmup_epochs:
            return
        self._turns.finish(self)
        if self.eta is None:
            self.learn(path, fisher, keep=1.0, share=1.0, refresh=False)
        else:
            self.learn(path, fisher, keep=1.0 - self.eta, share=self.eta, refresh=self.holds_last)

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """As every penalty; and a turn is a step longer."""
        self._turns.step()
        super().after_step(path, step_sizes)

    def state_dict(self) -> dict[str, Tensor]:
        """The epoch, and ``fisher/NAME`` and ``anchor/NAME`` for each parameter."""
        return {"epoch": torch.tensor(self._epoch), **super().state_dict()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        require_state(state)
        if "epoch" not in state:
            raise ConfigError(f"the state of weight plasticity has a key 'epoch', but got {sorted(state)[:3]}.")
        super().load_state_dict({key: tensor for key, tensor in state.items() if key != "epoch"})
        self._epoch = int(state["epoch"])
