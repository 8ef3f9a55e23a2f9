"""Orthogonal projection: updates only in directions that earlier models' inputs do not notice."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.coverage import STATE_PARTS, Coverage
from ramet.guards.held_projections import PARTS, HeldProjections
from ramet.guards.layers import Product, unknown_before_they_run
from ramet.guards.listening import Ears, SeenProduct, listening, planned_products
from ramet.guards.matrices import bias_of, names_of, weight_of
from ramet.guards.names import StepSizes, matches, patterns, require_state, unwrapped
from ramet.guards.projection_settings import Inputs, ProjectionSettings, Unit
from ramet.guards.projectors import ProjectionMemory
from ramet.guards.ranks import average_over_ranks, part_of, process_group_of, world_size
from ramet.guards.walking import Walk, signature_of
from ramet.params import Params

logger = logging.getLogger(__name__)


class OrthogonalProjection(Guard):
    """Project every update away from the inputs of the models before, so that their outputs stay.

    Each weight matrix has a projection P, the identity at first. An update dW becomes dW P (Eq. 6), and when a model is
    finished, ``remember`` closes the directions of the inputs X that were seen inside ``watch`` (Eq. 8, a block at a
    time): P <- P - P X (lambda I + X' P X)^-1 X' P. Whatever the optimizer, a model whose inputs are in P has its layer
    outputs changed by at most sqrt(lambda) |dW| / 2 in a step; see ``closing.theorem_bound`` for the paper's own bound.

    A closed direction stays closed, and a layer that has seen inputs of full rank cannot learn any more. ``report``
    says what share of directions is open. The ways out are ``inputs="mean"``, ``rank``, ``forgetting``, and
    ``reopen_every`` or ``reopen``.

    Covered is every product of a parameter that torch's functions make inside ``watch``, whatever layer they are in:
    linear layers, attention, matrix products, convolutions and transposed ones, bilinear forms, embeddings, recurrent
    layers and cells, the scales of norms, and what is added. Products of other kernels are told by ``product``. What a
    finished model uses and no product was seen of is named in an ``UncoveredWarning``, once.

    Args:
        regularisation: lambda (1 in the paper). Smaller closes more; 0 closes each seen direction entirely.
        unit: what lambda is compared with. "input": the inputs as they are (the paper), so that what it does depends on
            their size and number. "energy": each finished model's X X' is divided by the mean of its eigenvalues, so
            that lambda 1 leaves half of a direction of mean energy open, whatever the inputs were. "hold": the same, by
            the share of such a direction that is closed, above 0 and at most 1.
        threshold: close directions entirely or not at all, in place of lambda: as few as hold this share of the energy
            of each finished model's inputs (gradient projection memory, see ``core_spaces``). None for lambda.
        inputs: "all" closes every input (the paper); "columns" the mean over the samples of a call, which for a
            convolution is a column for each position of the image (the orthogonal weight modification, the paper's
            reference for the method); "mean" a single column a call, the mean over positions as well, which is nobody's
            but this library's: it is cheaper and closes far less.
        rank: the most directions that a layer can close, or None for no limit.
        max_width: the widest layer that keeps a whole matrix; its memory is width squared.
        wide: wider layers are held at a limited "rank" of the same memory, or "refuse" them.
        max_bytes: refuse a network whose projections take more.
        forgetting: how much earlier inputs still count at each ``remember``; 1 keeps them for good.
        reopen_every: open every direction at the start of every so many epochs, or None.
        protect: shell patterns of the parameter names that are guarded.
        freeze_uncovered: hold still what a finished model uses and the guard does not cover.

    Raises:
        ConfigError: for a value outside its range; from ``watch`` for a layer or a network that is too large.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = nn.init.zeros_(layer.weight)
    >>> guard, params = OrthogonalProjection(regularisation=0.0), dict(layer.named_parameters())
    >>> with guard.watch(layer):
    ...     layer(torch.tensor([[1.0, 0.0]])).sum().backward()
    >>> guard.remember(params)
    >>> layer.weight.grad = torch.tensor([[1.0, 1.0]])
    >>> with guard.step(params, 1.0):
    ...     torch.optim.SGD([layer.weight], lr=1.0).step()
    >>> layer.weight.data.round(decimals=3) + 0.0  # only where the first model sees nothing
    tensor([[ 0., -1.]])

    Departures from the paper: the update is projected, and not the gradient, since momentum, weight decay and adaptive
    step sizes would leak along closed directions otherwise. Biases are weights whose input is 1. Embeddings always
    count all inputs, for which their projection is diagonal. So is that of scales and shifts, which are taken for
    themselves, and not as pairs.

    References: Niu, Wu, Zhang et al., Disturbance-immune Weight Sharing for Neural Architecture Search, 2020, section
    4.1; Zeng, Chen, Cui and Yu, Continual learning of context-dependent processing in neural networks, 2019.
    """

    needs_gradients = False

    def __init__(
        self,
        regularisation: float = 1.0,
        *,
        unit: Unit = "input",
        threshold: float | None = None,
        inputs: Inputs = "all",
        rank: int | None = None,
        max_width: int = 4096,
        wide: Literal["rank", "refuse"] = "rank",
        max_bytes: int = 2**31,
        forgetting: float = 1.0,
        reopen_every: int | None = None,
        protect: str | Sequence[str] = "*",
        freeze_uncovered: bool = False,
    ) -> None:
        self._settings = ProjectionSettings(
            regularisation=regularisation,
            unit=unit,
            threshold=threshold,
            inputs=inputs,
            rank=rank,
            max_width=max_width,
            wide=wide,
            max_bytes=max_bytes,
            forgetting=forgetting,
            reopen_every=reopen_every,
        )
        self.regularisation = regularisation
        self.unit: Unit = unit
        self.threshold = threshold
        self.inputs: Inputs = inputs
        self.rank = rank
        self.max_width = max_width
        self.wide: Literal["rank", "refuse"] = wide
        self.max_bytes = max_bytes
        self.forgetting = forgetting
        self.reopen_every = reopen_every
        self.protect = patterns(protect)
        self.freeze_uncovered = freeze_uncovered
        self._epoch = 0
        self._group: Any | None = None
        self._coverage = Coverage("orthogonal projection", freeze=freeze_uncovered)
        self._held = HeldProjections(self._settings)
        self._walk = Walk()
        self._signature: list[Any] | None = None
        self._before: Params = {}
        self._keys: list[str] = []

    @classmethod
    def for_search(
        cls,
        regularisation: float = 1.0,
        *,
        inputs: Inputs = "mean",
        rank: int | None = None,
        forgetting: float = 1.0,
        reopen_every: int | None = None,
        unit: Unit = "input",
        max_width: int = 4096,
        wide: Literal["rank", "refuse"] = "rank",
        max_bytes: int = 2**31,
        protect: str | Sequence[str] = "*",
        freeze_uncovered: bool = False,
    ) -> OrthogonalProjection:
        """Orthogonal projection for a supernet: updates are orthogonal to the mean inputs of earlier models."""
        # All inputs would close a supernet's layers within an epoch; mean inputs leave most directions open.
        return cls(
            regularisation,
            unit=unit,
            inputs=inputs,
            rank=rank,
            forgetting=forgetting,
            reopen_every=reopen_every,
            max_width=max_width,
            wide=wide,
            max_bytes=max_bytes,
            protect=protect,
            freeze_uncovered=freeze_uncovered,
        )

    @classmethod
    def gpm(
        cls,
        threshold: float = 0.97,
        *,
        inputs: Inputs = "all",
        reopen_every: int | None = None,
        max_width: int = 4096,
        protect: str | Sequence[str] = "*",
        freeze_uncovered: bool = False,
    ) -> OrthogonalProjection:
        """Gradient projection memory: the directions that hold most of the energy of earlier inputs are closed.

        0.97 is what its released code begins with on CIFAR-100, where it rises by 0.003 with every task; here it is
        constant. Departs from it, too, in that what is held by single entries or rows (norms, embeddings) is closed
        once it was seen. A core is wider than ``max_width`` for no layer.

        Reference: Saha, Garg and Roy, Gradient Projection Memory for Continual Learning, 2021.
        """
        return cls(
            threshold=threshold,
            inputs=inputs,
            reopen_every=reopen_every,
            max_width=max_width,
            wide="refuse",
            protect=protect,
            freeze_uncovered=freeze_uncovered,
        )

    @classmethod
    def for_tasks(cls, strength: float) -> OrthogonalProjection:
        """Orthogonal projection by mean inputs."""
        return cls(strength, inputs="mean")

    def memory_of(self, module: nn.Module) -> ProjectionMemory:
        """What the projections of a module will take, as far as is known before it runs: print it."""
        planned = planned_products(module, self._is_wanted).values()
        memory = tuple(self._settings.memory_of(product) for product in planned)
        return ProjectionMemory(memory, tuple(unknown_before_they_run(unwrapped(module))))

    def _is_wanted(self, name: str) -> bool:
        return matches(name, self.protect)

    @contextmanager
    def watch(self, module: nn.Module) -> Iterator[None]:
        """Gather the inputs of the products that are made inside the block, for the next ``remember``."""
        layers, named = self._walk.over(module)
        signature = signature_of(named)
        if signature != self._signature:
            self._held.plan(module, self._is_wanted)
            logger.info("memory of the projections:\n%s", self.memory_of(module))
            self._signature = signature
        self._group = process_group_of(module)
        part, num_ranks = part_of(module), world_size(self._group)
        means: list[tuple[Product, Tensor]] = []

        def on_product(seen: SeenProduct) -> None:
            product, inputs = seen.product, seen.inputs
            if self.inputs != "all" and not product.one_hot:
                means.append((product, inputs))  # a column each: there is room for them until the block ends
                return
            if part is not None and part.repeated:  # each rank sees all samples, and their sum counts them all
                squared = product.one_hot or (product.kind == "entries" and self.inputs == "all")
                inputs = inputs / (num_ranks if squared else num_ranks**0.5)
            self._held.gather(product, inputs)

        ears = Ears(
            self._held.products,
            on_product,
            self._is_wanted,
            mean=self.inputs != "all",
            by_position=self.inputs == "columns",
            places=self._held.places,
            missed=self._coverage.missed,
        )
        with listening(layers, named, ears):
            yield
        wholes = [inputs for _, inputs in means]
        if num_ranks > 1 and means:
            # At once, because the square of a mean is not the mean of the ranks' squares.
            wholes = average_over_ranks(wholes, 1 / num_ranks if part is None else part.weight, self._group)
        for (product, _), inputs in zip(means, wholes, strict=True):
            self._held.gather(product, inputs)

    def before_step(self, path: Params) -> None:
        """Note where the guarded parameters on the path are."""
        self._keys = self._held.closed_on(path)
        guarded = [name for key in self._keys for name in names_of(key, path)]
        current = {name: path[name] for name in guarded}
        for name, param in current.items():
            kept = self._before.get(name)
            if kept is None or kept.shape != param.shape or kept.device != param.device or kept.dtype != param.dtype:
                self._before[name] = torch.empty_like(param)
        self._before = {name: self._before[name] for name in current}
        if current:
            torch._foreach_copy_(list(self._before.values()), list(current.values()))
        self._coverage.note(path)

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """Replace the optimizer's update of each guarded parameter by its projection."""
        if self._before:
            self._project(path)
        self._coverage.hold(path)

    def _project(self, path: Params) -> None:
        names = list(self._before)
        starts = [s.to(torch.promote_types(s.dtype, torch.float32)) for s in self._before.values()]
        ends = [path[name].to(start.dtype) for name, start in zip(names, starts, strict=True)]
        updates = dict(zip(names, torch._foreach_sub(ends, starts), strict=True))
        self._held.project(self._keys, updates)
        torch._foreach_copy_([path[name] for name in names], torch._foreach_add(starts, list(updates.values())))

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Close the directions of the inputs gathered since the last time."""
        self._held.close(self._group)
        covered = [names_of(key, path) for key in self._held.closed()]
        self._coverage.finish(path, covered, self._is_wanted)

    def undo_step(self, path: Params) -> None:
        """Forget where the parameters were; nothing else was changed."""
        self._before = {}

    def discard(self) -> None:
        """Drop the inputs gathered since the last ``remember``."""
        self._held.discard()
        self._coverage.discard()

    def start_epoch(self, epoch: int) -> None:
        """Open every direction when it is time."""
        if epoch != self._epoch and epoch > 0 and self.reopen_every is not None and epoch % self.reopen_every == 0:
            self.reopen()
        self._epoch = epoch

    def reopen(self) -> None:
        """Open every direction of every layer, and drop what was gathered."""
        self._held.reopen()
        self._before, self._signature = {}, None
        self._coverage.forget()

    def forget(self) -> None:
        """The same as ``reopen``."""
        self.reopen()

    def cores(self) -> dict[str, Tensor]:
        """With a threshold, the core of each matrix by its product's key, [groups, width, directions]."""
        return self._held.cores()

    def gathered(self) -> dict[str, Tensor]:
        """With a threshold, X X' of the inputs gathered since the last ``remember``, by the product's key."""
        return self._held.gathered()

    def open_shares(self) -> dict[str, float]:
        """For each product the share of input directions still open: the mean eigenvalue of its projection."""
        shares = {key: projector.open_directions() for key, projector in self._held.closed().items()}
        return {key: total / count for key, (total, count) in shares.items()}

    def report(self) -> dict[str, float]:
        """The mean and the least share of open directions over the layers, and how many layers have closed any."""
        shares = list(self.open_shares().values()) or [1.0]
        return {
            "open_share": math.fsum(shares) / len(shares),  # in whatever order a state was loaded
            "least_open_share": min(shares),
            "closed_layers": float(len(self._held.closed())),
        }

    def held(self) -> set[str]:
        """The weights and biases of closed products, and what no product was seen of."""
        names = {name for key in self._held.closed() for name in (weight_of(key), bias_of(key)) if name is not None}
        return names | self._coverage.uncovered

    def state_dict(self) -> dict[str, Tensor]:
        """The epoch, and ``PART/KEY`` for each part of each projection, gathered inputs among them."""
        return {"epoch": torch.tensor(self._epoch), **self._coverage.state_dict(), **self._held.state_dict()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        require_state(state)
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            part, _, key = name.partition("/")
            if part in PARTS:
                parts.setdefault(key, {})[part] = tensor.clone()
            elif name != "epoch" and part not in STATE_PARTS:
                raise ConfigError(f"the state of a projection has keys such as matrix/WEIGHT, but got {name!r}.")
        if "epoch" not in state:
            raise ConfigError(f"the state of a projection has a key 'epoch', but got {sorted(state)[:3]}.")
        self.reopen()
        self._epoch = int(state["epoch"])
        self._coverage.load_state_dict(state)
        self._held.load_parts(parts)
