"""Orthogonal projection: updates only in directions that earlier models' inputs do not notice."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.core_spaces import CoreProjector
from ramet.guards.coverage import Coverage
from ramet.guards.layers import Kind, Product, unknown_before_they_run
from ramet.guards.listening import Ears, SeenProduct, Slot, listening, named_of, planned_products, signature_of
from ramet.guards.matrices import bias_of, check_width, joined, names_of, parted, parts_of, weight_of
from ramet.guards.names import StepSizes, matches, patterns, unwrapped
from ramet.guards.placing import Place
from ramet.guards.projectors import (
    DiagonalProjector,
    MatrixProjector,
    ProductMemory,
    ProjectionMemory,
    Projector,
    RankProjector,
    close_matrices,
    estimate_memory,
)  # fmt: skip
from ramet.guards.ranks import average_over_ranks, part_of, process_group_of, world_size
from ramet.params import Params

logger = logging.getLogger(__name__)

Unit = Literal["input", "energy", "hold"]
"""What lambda is compared with; see ``OrthogonalProjection``."""
Inputs = Literal["all", "columns", "mean"]
"""Which inputs are closed; see ``OrthogonalProjection``."""


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
        if not 0.0 <= regularisation < float("inf"):
            raise ConfigError(f"regularisation must be at least 0 and finite, but got {regularisation}.")
        if unit not in get_args(Unit):
            raise ConfigError(f"unit must be one of {', '.join(get_args(Unit))}, but got {unit!r}.")
        if unit == "hold" and not 0.0 < regularisation <= 1.0:
            raise ConfigError(f"a share to hold must be above 0 and at most 1, but got {regularisation}.")
        if threshold is not None:
            if not 0.0 < threshold <= 1.0:
                raise ConfigError(f"threshold must be above 0 and at most 1, but got {threshold}.")
            if unit != "input" or rank is not None or forgetting != 1.0:
                raise ConfigError(
                    "a threshold of energy has no unit, rank or forgetting beside it, but got "
                    f"{(unit, rank, forgetting)}."
                )
        if inputs not in get_args(Inputs):
            raise ConfigError(f"inputs must be one of {', '.join(get_args(Inputs))}, but got {inputs!r}.")
        if wide not in ("rank", "refuse"):
            raise ConfigError(f"wide must be 'rank' or 'refuse', but got {wide!r}.")
        if not 0.0 < forgetting <= 1.0:
            raise ConfigError(f"forgetting must be above 0 and at most 1, but got {forgetting}.")
        for name, value in {"rank": rank, "max_width": max_width, "reopen_every": reopen_every}.items():
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, but got {value}.")
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
        self._memory: dict[str, ProductMemory] = {}
        self._projectors: dict[str, Projector] = {}
        self._products: dict[Slot, Product] = {}
        self._places: dict[Any, Place | None] = {}
        self._signature: list[Any] | None = None
        self._before: Params = {}

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

        0.97 is what its paper begins with on CIFAR-100. Departs from it: what is held by single entries or rows (norms,
        embeddings) is closed once it was seen. A core is wider than ``max_width`` for no layer.

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
        return ProjectionMemory(
            tuple(self._memory_of(product) for product in planned), tuple(unknown_before_they_run(unwrapped(module)))
        )

    def _memory_of(self, product: Product) -> ProductMemory:
        return estimate_memory(product, rank=self.rank, max_width=self.max_width, wide=self.wide)

    def _is_wanted(self, name: str) -> bool:
        return matches(name, self.protect)

    @contextmanager
    def watch(self, module: nn.Module) -> Iterator[None]:
        """Gather the inputs of the products that are made inside the block, for the next ``remember``."""
        named = named_of(module)
        signature = signature_of(named)
        if signature != self._signature:
            self._plan(module)
            self._signature = signature
        self._group = process_group_of(module)
        part, num_ranks = part_of(module), world_size(self._group)
        means: list[tuple[Product, Tensor]] = []

        def on_product(seen: SeenProduct) -> None:
            product, inputs = seen.product, seen.inputs
            if num_ranks > 1 and self.inputs != "all" and not product.one_hot:
                means.append((product, inputs))
                return
            if part is not None and part.repeated:  # each rank sees all samples, and their sum counts them all
                squared = product.one_hot or (product.kind == "entries" and self.inputs == "all")
                inputs = inputs / (num_ranks if squared else num_ranks**0.5)
            self._gather(product, inputs)

        ears = Ears(
            self._products,
            on_product,
            self._is_wanted,
            mean=self.inputs != "all",
            by_position=self.inputs == "columns",
            places=self._places,
        )
        with listening(module, named, ears):
            yield
        if means:
            # At once, because the square of a mean is not the mean of the ranks' squares.
            weight = 1 / num_ranks if part is None else part.weight
            wholes = average_over_ranks([inputs for _, inputs in means], weight, self._group)
            for (product, _), inputs in zip(means, wholes, strict=True):
                self._gather(product, inputs)

    def _gather(self, product: Product, inputs: Tensor) -> None:
        if product.kind == "matrix" and product.groups < inputs.shape[0]:  # its rows are used in parts
            product = self._products[product.slot] = replace(product, groups=inputs.shape[0])
            self._admit([product])
        elif product.key not in self._projectors:  # not known before it ran
            self._admit([product])
        projector = self._projectors[product.key]
        projector.move(inputs.device)
        projector.gather(inputs)

    def _plan(self, module: nn.Module) -> None:
        """Decide how each projection is held that is known before the module runs, and refuse what does not fit."""
        planned = planned_products(module, self._is_wanted)
        for slot, product in planned.items():
            kept = self._products.get(slot)
            if kept is not None and kept.key in self._projectors and self._projectors[kept.key].closed:
                # What is closed stays, with the bias that it had, also when that is frozen now.
                inputs = product.width - (product.bias is not None)
                check_width(kept.key, inputs, kept.width - (kept.bias is not None))
                planned[slot] = kept
        self._products = {**self._products, **planned}
        self._admit(planned.values())
        logger.info("memory of the projections:\n%s", self.memory_of(module))

    def _admit(self, products: Iterable[Product]) -> None:
        """Make projections for products, unless all of them together would take too much."""
        found = {product.key: self._memory_of(product) for product in products}
        memory = {**self._memory, **found}
        num_bytes = sum(one.num_bytes for one in memory.values())
        if num_bytes > self.max_bytes:
            widest = max(memory.values(), key=lambda one: one.num_bytes)
            raise ConfigError(
                f"projections may take at most {self.max_bytes} bytes, but these take {num_bytes}, of which "
                f"{widest.product.key} {widest.num_bytes}; raise max_bytes, or give rank or a smaller max_width."
            )
        self._memory = memory
        for key, one in found.items():
            if key not in self._projectors:
                self._projectors[key] = self._projector(one.product.kind, one.rank)

    def _projector(self, kind: Kind, rank: int | None, **state: Tensor) -> Projector:
        mean, by_energy = self.inputs != "all", self.unit != "input"
        if self.threshold is not None:
            if kind == "matrix":
                return CoreProjector(self.threshold, mean=mean, **state)
            return DiagonalProjector(0.0, mean=mean and kind == "entries", by_energy=False, **state)
        # Of a direction of energy 1, lambda / (lambda + 1) stays open.
        lam = (1.0 - self.regularisation) / self.regularisation if self.unit == "hold" else self.regularisation
        if kind != "matrix":
            return DiagonalProjector(lam, mean=mean and kind == "entries", by_energy=by_energy, **state)
        if rank is not None:
            return RankProjector(lam, rank, mean=mean, by_energy=by_energy, **state)
        return MatrixProjector(lam, mean=mean, by_energy=by_energy, **state)

    def before_step(self, path: Params) -> None:
        """Note where the guarded parameters on the path are."""
        guarded = [name for key in self._closed_on(path) for name in names_of(key, path)]
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
        self._coverage.hold(path)
        if not self._before:
            return
        names = list(self._before)
        starts = [s.to(torch.promote_types(s.dtype, torch.float32)) for s in self._before.values()]
        ends = [path[name].to(start.dtype) for name, start in zip(names, starts, strict=True)]
        updates = dict(zip(names, torch._foreach_sub(ends, starts), strict=True))
        # One matrix product a layer: shapes differ, so that there is no list form of it. Rows come last, see below.
        for key in sorted(self._closed_on(path), key=lambda key: isinstance(self._projectors[key], DiagonalProjector)):
            self._project(key, updates)
        torch._foreach_copy_([path[name] for name in names], torch._foreach_add(starts, list(updates.values())))

    def _closed_on(self, path: Params) -> list[str]:
        return [k for k, projector in self._projectors.items() if projector.closed and weight_of(k) in path]

    def _project(self, key: str, updates: Params) -> None:
        """Project the update of one product's weight and bias, in place in ``updates``."""
        projector, weight = self._projectors[key], updates[weight_of(key)]
        projector.move(weight.device)
        if parts_of(key).marker == "^E":
            check_width(key, weight.numel(), projector.shape[1])
            updates[weight_of(key)] = projector.project(weight.reshape(-1)).reshape(weight.shape)
            return
        if isinstance(projector, DiagonalProjector):
            check_width(key, len(weight), projector.shape[1])
            # A decoder that is tied to this embedding mixes its weight's rows with its bias, which are scaled alike.
            for name in {n for k in self._projectors if weight_of(k) == weight_of(key) for n in names_of(k, updates)}:
                updates[name] = projector.project(updates[name].mT if updates[name].dim() > 1 else updates[name])
            updates[weight_of(key)] = updates[weight_of(key)].mT
            return
        projected = projector.project(joined(key, *projector.shape, updates))
        if (bias := bias_of(key)) is not None and bias not in updates:
            projected = _without_bias(projector, projected)
        updates.update(parted(key, projected, updates))

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Close the directions of the inputs gathered since the last time."""
        matrices = []
        for projector in self._projectors.values():
            if type(projector) is MatrixProjector:
                matrices.append(projector)
            else:
                projector.close(self.forgetting, self._group)
        close_matrices(matrices, self.forgetting, self._group)
        closed = [key for key, projector in self._projectors.items() if projector.closed]
        self._coverage.finish(path, [name for key in closed for name in names_of(key, path)], self._is_wanted)

    def undo_step(self, path: Params) -> None:
        """Forget where the parameters were; nothing else was changed."""
        self._before = {}

    def discard(self) -> None:
        """Drop the inputs gathered since the last ``remember``."""
        for projector in self._projectors.values():
            projector.discard()

    def start_epoch(self, epoch: int) -> None:
        """Open every direction when it is time."""
        if epoch != self._epoch and epoch > 0 and self.reopen_every is not None and epoch % self.reopen_every == 0:
            self.reopen()
        self._epoch = epoch

    def reopen(self) -> None:
        """Open every direction of every layer, and drop what was gathered."""
        self._projectors, self._memory, self._products, self._before = {}, {}, {}, {}
        self._signature = None
        self._coverage.forget()

    def forget(self) -> None:
        """The same as ``reopen``."""
        self.reopen()

    def cores(self) -> dict[str, Tensor]:
        """With a threshold, the core of each matrix by its product's key, [groups, width, directions]."""
        return {
            key: projector.parts["core"]
            for key, projector in self._projectors.items()
            if isinstance(projector, CoreProjector) and projector.closed
        }

    def gathered(self) -> dict[str, Tensor]:
        """With a threshold, X X' of the inputs gathered since the last ``remember``, by the product's key."""
        found = {
            key: projector.gathered_gram()
            for key, projector in self._projectors.items()
            if isinstance(projector, CoreProjector)
        }
        return {key: gram for key, gram in found.items() if gram is not None}

    def open_shares(self) -> dict[str, float]:
        """For each product the share of input directions still open: the mean eigenvalue of its projection."""
        closed = {key: projector for key, projector in self._projectors.items() if projector.closed}
        shares = {key: projector.open_directions() for key, projector in closed.items()}
        return {key: total / count for key, (total, count) in shares.items()}

    def report(self) -> dict[str, float]:
        """The mean and the least share of open directions over the layers, and how many layers have closed any."""
        shares = list(self.open_shares().values()) or [1.0]
        closed = sum(projector.closed for projector in self._projectors.values())
        return {
            "open_share": math.fsum(shares) / len(shares),  # in whatever order a state was loaded
            "least_open_share": min(shares),
            "closed_layers": float(closed),
        }

    def state_dict(self) -> dict[str, Tensor]:
        """The epoch, and ``PART/KEY`` for each part of each projection, gathered inputs among them."""
        state = {"epoch": torch.tensor(self._epoch), **self._coverage.state_dict()}
        for key, projector in self._projectors.items():
            for part, tensor in projector.tensors().items():
                state[f"{part}/{key}"] = tensor.contiguous().clone()
            if isinstance(projector, RankProjector) and projector.tensors():
                state[f"rank/{key}"] = torch.tensor(projector.rank)
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        parts: dict[str, dict[str, Tensor]] = {}
        known = {"matrix", "gram", "columns", "core", "basis", "energy", "counts", "gathered", "rank"}
        for name, tensor in state.items():
            part, _, key = name.partition("/")
            if part in known:
                parts.setdefault(key, {})[part] = tensor.clone()
            elif name != "epoch" and part != "uncovered":
                raise ConfigError(f"the state of a projection has keys such as matrix/WEIGHT, but got {name!r}.")
        if "epoch" not in state:
            raise ConfigError(f"the state of a projection has a key 'epoch', but got {sorted(state)[:3]}.")
        self.reopen()
        self._epoch = int(state["epoch"])
        self._coverage.load_state_dict(state)
        for key, tensors in parts.items():
            rank = tensors.pop("rank", None)
            diagonal = "counts" in tensors or "gathered" in tensors
            kind: Kind = "matrix" if not diagonal else "entries" if parts_of(key).marker == "^E" else "rows"
            self._projectors[key] = self._projector(kind, None if rank is None else int(rank), **tensors)
            product = _restored(key, kind, next(iter(tensors.values())))
            self._products[product.slot] = product


def _restored(key: str, kind: Kind, part: Tensor) -> Product:
    """The product of a saved projection, by one of its parts."""
    names = parts_of(key)
    groups, width = part.shape[:2] if kind == "matrix" else (1, len(part)) if kind == "rows" else (len(part), 1)
    return Product(key, "", names.weight, names.bias, groups, width, kind, names.transposed)


def _without_bias(projector: Projector, projected: Tensor) -> Tensor:
    """The projection of an update of the weight alone, from that of the weight and a bias of which the update is 0.

    With the bias's row r of P and its own entry b, the inputs without their 1 have the projection P - r r' / b: the
    inverse of a block of P's inverse.
    """
    groups, width = projector.shape
    unit = projected.new_zeros(groups, 1, width)
    unit[..., -1] = 1.0
    row = projector.project(unit)  # [groups, 1, width]
    own = row[..., -1:]
    open_enough = own > torch.finfo(own.dtype).eps  # else the row is 0, too
    share = torch.where(open_enough, projected[..., -1:] / own.clamp(min=torch.finfo(own.dtype).eps), 0.0)
    return projected - share * row
