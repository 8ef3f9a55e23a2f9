"""Any module as the network that tasks are learned with: its blocks, its head, and its first weights."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ramet.continual.networks import SKELETONS
from ramet.continual.networks.coupled import resize, trace_units
from ramet.continual.networks.cutting import Cut, cut_network
from ramet.continual.networks.recording import copied_network
from ramet.continual.networks.skeletons import Skeleton
from ramet.continual.networks.template import Template, seeded
from ramet.continual.networks.wiring import Wiring
from ramet.data import InputForm
from ramet.errors import ConfigError
from ramet.seeding import seeded_globally, torch_generator
from ramet.tracing.coupling import Coupling
from ramet.training.weights import check_module, load_weights


@dataclass(frozen=True)
class NetworkSource:
    """What makes a module, and for which inputs and how many classes; made again, it has other first weights.

    Args:
        network: a text such as ``FILE.py:function``, or a function.
        form: what an input is.
        num_classes: what the function is told; heads are made for each task.
        trusted: whether code that the text names may run.
    """

    network: str | Callable[..., Any]
    form: InputForm
    num_classes: int
    batch_norm: bool = False
    trusted: bool = True

    def make(self, seed: int, *role: str | int) -> Skeleton | nn.Module:
        """A skeleton, or a module whose weights follow from the seed and the role."""
        given = self.form.arguments(self.num_classes)
        with seeded_globally(seed, "weights", *role):
            return SKELETONS.make(self.network, trusted=self.trusted, batch_norm=self.batch_norm, **given)

    def network_of(self, seed: int, *role: str | int) -> nn.Module:
        """The same as a module in any case."""
        made = self.make(seed, *role)
        return made.make_network(self.num_classes, seed, *role) if isinstance(made, Skeleton) else made


class Backbone(Template):
    """A module of the user's own, cut into blocks; every task has a copy of it, or of parts of it, under its own head.

    A task's network is the user's module with another head, made of the user's classes: nothing of ramet is in it.

    Args:
        network: The module; it is copied. Its head is dropped.
        form: What an input is; or the shape of one, such as channels, height and width of an image.
        head: The name of the linear layer that gives the logits; found if none.
        shared_head: Whether all tasks have one head.
        source: What makes the module with other first weights; every network begins with those of ``network`` if none.
        weights: A digest of the first weights, where it is known already.

    Raises:
        ConfigError: The module cannot be learned with; see ``cut_network``.
    """

    def __init__(
        self,
        network: nn.Module,
        form: InputForm | Sequence[int],
        *,
        head: str | None = None,
        shared_head: bool = False,
        source: NetworkSource | None = None,
        is_trained: bool = True,
        weights: str | None = None,
    ) -> None:
        self.module = copied_network(network).eval()
        self._form = InputForm.of(form)
        self.cut: Cut = cut_network(self.module, self._form, head)
        self.source, self.shared_head, self.is_trained = source, shared_head, is_trained
        self.notes = self.cut.notes
        self._weights = weights or (_digest(self.start()) if is_trained else None)

    @property
    def names(self) -> tuple[str, ...]:
        """The blocks."""
        return tuple(block.name for block in self.cut.blocks)

    @property
    def form(self) -> InputForm:
        """What an input is."""
        return self._form

    @property
    def head_name(self) -> str:
        """The linear layer that gives the logits."""
        return self.cut.head

    @property
    def untrained(self) -> frozenset[str]:
        """Buffers, frozen parameters, and the further names of tensors that are known by several."""
        trained = {name for name, param in self.module.named_parameters() if param.requires_grad}
        return frozenset(self.module.state_dict()) - trained

    def start(self) -> dict[str, Tensor]:
        """The first weights below the head."""
        state = self.module.state_dict()
        return {name: value for name, value in state.items() if not name.startswith(f"{self.cut.head}.")}

    def make_features(self, seed: int, *role: str | int) -> nn.Module:
        """The module without its head."""
        return self._with_head(self._drawn(seed, *role), nn.Identity())

    def make_head(self, num_classes: int, *, in_features: int | None = None) -> nn.Linear:
        """A linear layer like the module's own, of so many classes, and of other inputs if given."""
        old = self.module.get_submodule(self.cut.head)
        assert isinstance(old, nn.Linear)
        inputs = in_features or old.in_features
        return nn.Linear(inputs, num_classes, bias=old.bias is not None, dtype=old.weight.dtype)

    def make_network(self, num_classes: int, seed: int, *role: str | int) -> nn.Module:
        """The module with a fresh head."""
        head = seeded(lambda: self.make_head(num_classes), seed, *role, "head")
        return self._with_head(self._drawn(seed, *role), head)

    @cached_property
    def _units(self) -> tuple[Wiring, Coupling]:
        return trace_units(self.module, self.form, self.cut)

    @property
    def wiring(self) -> Wiring:
        """The channels, hidden units and heads that the tensors of the module hold.

        Raises:
            ConfigError: there are none that may come and go.
        """
        return self._units[0]

    def make_of_widths(self, widths: Sequence[int], num_classes: int) -> nn.Module:
        """The module with other widths, drawn from the global generator; a trained one keeps its first units."""
        wiring, coupling = self._units
        seed = int(torch.randint(2**62, ()))
        network = self._drawn(seed, "widths")
        if tuple(widths) != wiring.sizes:
            norms = [name for block in self.cut.blocks for name in block.norms]
            resize(network, wiring, coupling, widths, norms, torch_generator(seed, "units"))
        return self._with_head(network, seeded(lambda: self.make_head_of_widths(widths, num_classes), seed, "head"))

    def make_head_of_widths(self, widths: Sequence[int], num_classes: int) -> nn.Linear:
        """A linear layer like the module's own for features of other widths."""
        wiring = self.wiring
        return self.make_head(num_classes, in_features=wiring.shape(wiring.head_weight, widths)[1])

    def joined(self, body: nn.Module, head: nn.Module) -> nn.Module:
        """The module with these weights."""
        return self._with_head(copy.deepcopy(body), copy.deepcopy(head))

    def body_of(self, network: nn.Module) -> nn.Module:
        """A copy of the module without its head."""
        return self._with_head(copy.deepcopy(network), nn.Identity())

    def head_of(self, network: nn.Module) -> nn.Module:
        """A copy of the module's head."""
        return copy.deepcopy(network.get_submodule(self.cut.head))

    def layer_sizes(self) -> list[int]:
        """The parameters of each block, batch norms included."""
        params = {name: param for name, param in self.module.named_parameters() if param.requires_grad}
        return [
            sum(params[name].numel() for name in (*block.weights, *block.norms) if name in params)
            for block in self.cut.blocks
        ]

    def hollow(self) -> nn.Module:
        """The module's structure: its tensors are this template's own, and are there to be replaced."""
        held = [*self.module.parameters(), *self.module.buffers()]
        return copy.deepcopy(self.module, {id(tensor): tensor for tensor in held})

    def to_json(self) -> dict[str, Any]:
        """What the module is, not how: the name of what makes it, its blocks, and a digest of trained weights."""
        source = self.source
        return {
            "kind": "module",
            "network": source.network if source and isinstance(source.network, str) else None,
            **self.form.to_json(),
            "num_classes": source.num_classes if source else 0,
            "batch_norm": bool(source and source.batch_norm),
            "head": self.cut.head,
            "blocks": list(self.names),
            "shapes": _digest({name: torch.tensor(value.shape) for name, value in self.start().items()}),
            "shared_head": self.shared_head,
            "weights": self._weights,
        }

    @classmethod
    def from_json(
        cls,
        values: Mapping[str, Any],
        *,
        network: nn.Module | None = None,
        start: Mapping[str, Tensor] | None = None,
        trusted: bool = False,
    ) -> Backbone:
        """The inverse of ``to_json``.

        Args:
            values: What ``to_json`` gave.
            network: The module, where it was given as an object; its weights do not count.
            start: Its first weights, where networks that are still to come begin with them.
            trusted: Whether code that the values name may run.

        Raises:
            ConfigError: The module is missing or is another now, or code is not trusted.
        """
        form, source = InputForm.from_json(values), None
        if network is None:
            if values["network"] is None:
                raise ConfigError(
                    "a network that was given as an object is loaded with that object, but got none: network=..."
                )
            source = NetworkSource(values["network"], form, values["num_classes"], values["batch_norm"], trusted)
            network = source.network_of(0)
        made = cls(
            network,
            form,
            head=values["head"],
            shared_head=values["shared_head"],
            source=source,
            is_trained=values["weights"] is not None,
            weights=values["weights"],
        )
        # What the object was made by is not told by it, and no part of what must agree.
        now = made.to_json() | {key: values[key] for key in ("network", "num_classes", "batch_norm")}
        if now != {key: values[key] for key in now}:
            raise ConfigError(
                "a saved network must be made of the module it was learned with, but "
                f"{values['network'] or 'this one'} has other blocks or shapes."
            )
        if start is not None:
            made.module.load_state_dict(dict(start), strict=False)
        return made

    def _drawn(self, seed: int, *role: str | int) -> nn.Module:
        if self.is_trained or self.source is None:
            return copy.deepcopy(self.module)
        return copied_network(self.source.network_of(seed, *role)).eval()

    def _with_head(self, network: nn.Module, head: nn.Module) -> nn.Module:
        network.set_submodule(self.cut.head, head)
        return network.eval()


def make_backbone(
    network: nn.Module | NetworkSource,
    form: InputForm | Sequence[int],
    *,
    start: str | None = None,
    head: str | None = None,
    shared_head: bool = False,
    seed: int = 0,
) -> Backbone:
    """A backbone from a module, which counts as trained, or from what makes one, with the weights of a file if given.

    What a function makes counts as trained, too, if it gives the same weights whatever the generator holds: it has read
    them somewhere.

    Raises:
        ConfigError: The module cannot be learned with, or the file's weights do not fit below its head.
    """
    source = network if isinstance(network, NetworkSource) else None
    if isinstance(network, nn.DataParallel):
        network = network.module  # of which parts are called with other weights, on one device
    if isinstance(network, nn.Module):
        check_module(network)  # before it is copied, which weights that are not there do not survive
    made = network.network_of(seed, "template") if isinstance(network, NetworkSource) else copied_network(network)
    if source is not None:
        check_module(made)
    if start is not None:
        head = cut_network(made, form, head).head
        load_weights(made, start, without=head)
    is_trained = start is not None or source is None
    backbone = Backbone(made, form, head=head, shared_head=shared_head, source=source, is_trained=is_trained)
    if source is not None and not is_trained:
        again = source.network_of(seed, "template again").state_dict()
        if all(torch.equal(value, again[name]) for name, value in backbone.start().items() if name in again):
            return Backbone(made, form, head=head, shared_head=shared_head, source=source)
    return backbone


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
