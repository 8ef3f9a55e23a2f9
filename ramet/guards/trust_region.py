"""Trust region gradient projection: directions of related tasks are closed, but re-used through scales of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.guards.base import Guard
from ramet.guards.matrices import joined, parts_of
from ramet.guards.names import StepSizes, on_path, plain_names, require_state, unwrapped
from ramet.guards.projection import OrthogonalProjection
from ramet.params import Params


@dataclass(frozen=True)
class Relation:
    """A finished task that is related to the current one in a layer.

    Attributes:
        task: its number, from 0 on.
        share: the share of the gradient's norm that lies in its core.
        core: the directions of its inputs, [width, directions].
    """

    task: int
    share: float
    core: Tensor


class TrustRegionProjection(Guard):
    """Gradient projection memory that knows which earlier tasks are related, so that what they learned can be re-used.

    Updates are projected away from the inputs of all finished tasks, as ``OrthogonalProjection.gpm`` does. A layer's
    trust region are the tasks j whose own core S_j holds much of the new task's first gradient G: |G S_j S_j'| >= trust
    |G|; the best ``most`` of them. In their directions the weights may not change, but the new task may read them
    differently: its weights are W + sum_j W S_j (Q_j - I) S_j', with matrices Q_j of its own that it trains. ``scales``
    makes these, see ``ScaledInputs``; without it, this is gradient projection memory.

    Args:
        threshold: the share of the energy of inputs that a core holds; as in gradient projection memory.
        trust: how much of the gradient must lie in a task's core; 0.5 in the released code's runs on CIFAR-100.
        most: tasks in a trust region; 2 there.

    Raises:
        ConfigError: for a value outside its range.

    Reference: Lin, Yang, Fan and Zhang, TRGP: Trust Region Gradient Projection for Continual Learning, 2022.
    """

    needs_gradients = False

    def __init__(self, threshold: float = 0.97, *, trust: float = 0.5, most: int = 2) -> None:
        if not 0.0 <= trust <= 1.0 or most < 1:
            raise ConfigError(f"trust must lie in [0, 1] and most be at least 1, but got {(trust, most)}.")
        self.threshold, self.trust, self.most = threshold, trust, most
        self._all = OrthogonalProjection.gpm(threshold)
        self._current = OrthogonalProjection.gpm(threshold)
        self._cores: list[dict[str, Tensor]] = []

    @property
    def num_tasks(self) -> int:
        """Finished tasks."""
        return len(self._cores)

    @contextmanager
    def watch(self, module: nn.Module) -> Iterator[None]:
        """Gather inputs twice: for the core of all tasks, and for that of this one."""
        with self._all.watch(module), self._current.watch(module):
            yield

    def related(self, params: Params) -> dict[str, list[Relation]]:
        """The trust region of each matrix by its product's key, from the gradients that the parameters hold.

        The paper takes them at the first mini-batch of a new task, with the weights of the last.
        """
        gradients = {name: param.grad for name, param in on_path(params).items() if param.grad is not None}
        found: dict[str, list[Relation]] = {}
        for task, cores in enumerate(self._cores):
            for key, core in cores.items():
                if parts_of(key).weight not in gradients or core.shape[0] > 1:
                    continue
                gradient = joined(key, 1, core.shape[1], gradients)[0].to(core.dtype)  # [outputs, width]
                size = float(torch.linalg.vector_norm(gradient))
                share = float(torch.linalg.vector_norm(gradient @ core[0])) / size if size else 0.0
                if share >= self.trust:
                    found.setdefault(key, []).append(Relation(task, share, core[0]))
        return {key: sorted(ones, key=lambda one: -one.share)[: self.most] for key, ones in found.items()}

    def scales(self, params: Params) -> ScaledInputs:
        """Matrices Q for the layers that have a trust region, the identity at first; see ``related``."""
        found = {}
        for key, ones in self.related(params).items():
            cores = [one.core[:-1] if parts_of(key).bias is not None else one.core for one in ones]
            found[parts_of(key).weight] = [_spanning(core) for core in cores]
        return ScaledInputs(found)

    def before_step(self, path: Params) -> None:
        """Of the projection."""
        self._all.before_step(path)

    def after_step(self, path: Params, step_sizes: StepSizes) -> None:
        """Of the projection."""
        self._all.after_step(path, step_sizes)

    def undo_step(self, path: Params) -> None:
        """Of the projection."""
        self._all.undo_step(path)

    def consolidate(self, path: Params, fisher: Params | None) -> None:
        """Keep the task's own core, and let that of all grow."""
        self._all.consolidate(path, fisher)
        self._current.consolidate(path, fisher)
        self._cores.append({key: core.clone() for key, core in self._current.cores().items()})
        self._current = OrthogonalProjection.gpm(self.threshold)

    def discard(self) -> None:
        """Drop the inputs gathered since the last ``remember``."""
        self._all.discard()
        self._current.discard()

    def forget(self) -> None:
        """Drop all tasks."""
        self._all.forget()
        self._current.forget()
        self._cores = []

    def report(self) -> dict[str, float]:
        """As a projection, and the finished tasks."""
        return {**self._all.report(), "tasks": float(self.num_tasks)}

    def state_dict(self) -> dict[str, Tensor]:
        """``all/``, ``current/`` and ``task/N/KEY``, and how many tasks there are."""
        state = {"tasks": torch.tensor(self.num_tasks)}
        for place, guard in (("all", self._all), ("current", self._current)):
            state |= {f"{place}/{key}": tensor for key, tensor in guard.state_dict().items()}
        for task, cores in enumerate(self._cores):
            state |= {f"task/{task}/{key}": core.contiguous().clone() for key, core in cores.items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """The inverse of ``state_dict``."""
        require_state(state)
        if "tasks" not in state:
            raise ConfigError(f"the state of a trust region has a key 'tasks', but got {sorted(state)[:3]}.")
        parts: dict[str, dict[str, Tensor]] = {"all": {}, "current": {}}
        cores: list[dict[str, Tensor]] = [{} for _ in range(int(state["tasks"]))]
        for name, tensor in state.items():
            place, _, key = name.partition("/")
            if place in parts:
                parts[place][key] = tensor
            elif place == "task":
                task, _, key = key.partition("/")
                cores[int(task)][key] = tensor.clone()
            elif name != "tasks":
                raise ConfigError(f"the state of a trust region has keys such as all/KEY, but got {name!r}.")
        self._all.load_state_dict(parts["all"])
        self._current.load_state_dict(parts["current"])
        self._cores = cores


def _spanning(core: Tensor) -> Tensor:
    """Orthonormal columns that span those of a core without a bias's row; what was the bias's alone goes."""
    vectors, sizes, _ = torch.linalg.svd(core, full_matrices=False)
    spanning: Tensor = vectors[:, sizes > len(core) * torch.finfo(core.dtype).eps]
    return spanning


class ScaledInputs(nn.Module):
    """The scaled weight projection of one task, for the linear layers of a network.

    W x + sum_j W S_j (Q_j - I) S_j' x is W applied to x + sum_j S_j (Q_j - I) S_j' x. So it is the layers' inputs that
    are changed, by hooks, while a block runs: a guard sees what meets the weight. Train these parameters together with
    the network's; apply them whenever the task is used. The bias of a layer has the input 1, which stays.

    Departs from the paper: convolutions are guarded, but not re-used, since their inputs are patches.

    Args:
        cores: by the weight's name, the directions of each related task, orthonormal columns, [inputs, directions].
    """

    def __init__(self, cores: Mapping[str, list[Tensor]]) -> None:
        super().__init__()
        self._names = {name: f"q{place}" for place, name in enumerate(cores)}
        self._counts = {name: len(ones) for name, ones in cores.items()}
        self.scales = nn.ParameterDict()
        for name, ones in cores.items():
            for number, core in enumerate(ones):
                self.register_buffer(f"{self._names[name]}_core{number}", core)
                self.scales[f"{self._names[name]}_{number}"] = nn.Parameter(torch.eye(core.shape[1], dtype=core.dtype))

    def changed(self, name: str, x: Tensor) -> Tensor:
        """What the weight of a name meets in the place of x, [..., inputs]."""
        found = x
        for number in range(self._counts[name]):
            core: Tensor = getattr(self, f"{self._names[name]}_core{number}").to(x.dtype)
            scale = self.scales[f"{self._names[name]}_{number}"].to(x.dtype)
            inside = x @ core  # [..., directions]
            found = found + (inside @ scale.mT - inside) @ core.mT
        return found

    @contextmanager
    def applied(self, module: nn.Module) -> Iterator[None]:
        """A block in which the linear layers of a module read their weights with these scales."""
        root = unwrapped(module)
        raw = [name for name, _ in root.named_modules()]
        layers = dict(zip(plain_names([f"{name}.weight" for name in raw]), root.modules(), strict=True))
        with ExitStack() as stack:
            for name in self._counts:
                layer = layers.get(name if "." in name else f".{name}")
                if isinstance(layer, nn.Linear):

                    def hook(_: nn.Module, args: tuple[Tensor, ...], name: str = name) -> tuple[Tensor, ...]:
                        return (self.changed(name, args[0]), *args[1:])

                    stack.callback(layer.register_forward_pre_hook(hook).remove)
            yield
