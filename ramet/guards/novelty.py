"""NSAS: a small and diverse set of earlier models is trained beside the current one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.names import StepSizes, require_state
from ramet.params import Params

Model = tuple[int, ...]
"""A model by its choices."""


def distance(one: Sequence[int], other: Sequence[int]) -> int:
    """In how many choices two models differ.

    >>> distance((1, 2, 3), (1, 0, 0))
    2
    """
    return sum(a != b for a, b in zip(one, other, strict=True))


def novelty(model: Model, others: Sequence[Model], num_neighbours: int) -> float:
    """The mean distance of a model to its nearest others; 0 if there are none.

    >>> novelty((0, 0, 0), [(1, 1, 1), (0, 0, 1), (0, 1, 1)], 2)
    1.5
    """
    nearest = sorted(distance(model, other) for other in others)[:num_neighbours]
    return sum(nearest) / len(nearest) if nearest else 0.0


def with_model(constraints: Sequence[Model], model: Model, *, size: int, num_neighbours: int) -> list[Model]:
    """The set after a model was trained: it is added while there is room, or changes places if that adds novelty.

    In a full set, the model may take the place of the one that is most like it. It does if it is farther from all the
    others than that one is: so the set's diversity never falls.

    >>> with_model([(0, 0), (0, 1)], (5, 5), size=2, num_neighbours=1)
    [(5, 5), (0, 1)]
    """
    found = list(constraints)
    if model in found:
        return found
    if len(found) < size:
        return [*found, model]
    place = min(range(len(found)), key=lambda i: distance(found[i], model))
    rest = found[:place] + found[place + 1 :]
    if novelty(model, rest, num_neighbours) > novelty(found[place], rest, num_neighbours):
        found[place] = model
    return found


class NoveltyConstraints(Guard):
    """Earlier models are kept by training a few of them on each mini-batch, chosen to be unlike each other.

    The loss of a step is (1 - beta) L(current) + beta / n sum of L(m) over the n constraints m: see ``loss``, which a
    loop calls in the place of its own loss. The constraints are earlier models, a greedily chosen diverse subset; see
    ``with_model``. Nothing is assumed about the weights, and nothing but the models' choices is kept. A step takes n
    more forward and backward passes.

    Args:
        weight: beta, what the constraints weigh together; 0.5 in the released code.
        size: the most constraints; 8 there.
        num_neighbours: how many of the nearest a model's novelty is measured by; 10 there, which of 8 are all.

    Raises:
        ConfigError: for a value outside its range.

    Departs from the released code: what may take a place in a full set is the model that was trained, and not the most
    novel of the last 50. And the constraints' loss has a gradient here, as the paper has it; the released search takes
    it as a number, so that it changes nothing but the size of the step.

    Reference: Zhang, Li, Pan, Chang and Su, Overcoming Multi-Model Forgetting in One-Shot NAS with Diversity
    Maximization, 2020.
    """

    needs_gradients = False

    def __init__(self, weight: float = 0.5, *, size: int = 8, num_neighbours: int = 3) -> None:
        if not 0.0 <= weight < 1.0 or size < 1 or num_neighbours < 1:
            raise ConfigError(
                "weight must lie in [0, 1), and size and num_neighbours be at least 1, but got "
                f"{(weight, size, num_neighbours)}."
            )
        self.weight, self.size, self.num_neighbours = weight, size, num_neighbours
        self.constraints: list[Model] = []
        self._current: Model | None = None

    def loss(self, model: Sequence[int], loss_of: Callable[[Sequence[int]], Tensor]) -> Tensor:
        """The current model's loss with that of the constraints."""
        self._current = tuple(model)
        others = [other for other in self.constraints if other != self._current]
        own = loss_of(model)
        if not others or self.weight == 0:
            return own
        beside = torch.stack([loss_of(other) for other in others]).mean()
        return (1 - self.weight) * own + self.weight * beside

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """The model whose loss was asked for last may become a constraint."""
        if self._current is not None:
            self.constraints = with_model(
                self.constraints, self._current, size=self.size, num_neighbours=self.num_neighbours
            )

    def before_step(self, path: Params) -> None:
        """Nothing: the loss has all of it."""

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """Nothing."""

    def discard(self) -> None:
        """The current model came to nothing."""
        self._current = None

    def forget(self) -> None:
        """No constraints."""
        self.constraints, self._current = [], None

    def report(self) -> dict[str, float]:
        """How many constraints there are, and how unlike each other."""
        own = [
            novelty(model, [other for other in self.constraints if other != model], self.num_neighbours)
            for model in self.constraints
        ]
        return {"constraints": float(len(own)), "novelty": sum(own) / len(own) if own else 0.0}

    def state_dict(self) -> dict[str, Tensor]:
        """The constraints, as the bytes of JSON: models may have different lengths."""
        text = json.dumps({"constraints": self.constraints, "current": self._current})
        return {"novelty": torch.tensor(list(text.encode()), dtype=torch.uint8)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        require_state(state)
        if set(state) != {"novelty"}:
            raise ConfigError(f"the state of novelty constraints has a key 'novelty', but got {sorted(state)[:3]}.")
        kept = json.loads(bytes(state["novelty"].tolist()))
        self.constraints = [tuple(model) for model in kept["constraints"]]
        self._current = None if kept["current"] is None else tuple(kept["current"])
