"""A user's own space: any ``nn.Module`` with ``Choice`` markers inside, each one of several modules, to be decided."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ramet.errors import ConfigError
from ramet.registry import reference_to, resolve_reference
from ramet.spaces.base import Arch, Space, Supernet
from ramet.spaces.child import copy_layer
from ramet.spaces.kernels.depthwise import DepthwiseConv2d
from ramet.spaces.short_names import read_short_name
from ramet.spaces.walk import walk_stages
from ramet.training.outputs import logits_of

Factory = Callable[..., nn.Module]
"""Makes a freshly initialised module with choices inside: ``factory(in_channels, num_classes)``, or of language models
``factory(length, words)``."""

TEXT_ARGUMENTS = ("length", "words")
"""What a factory of language models asks for: the tokens in a window and in the vocabulary."""

# The architecture of the supernet call under way. A context variable belongs to a thread, so that two threads can run
# two architectures of one supernet at the same time; nothing is written to the modules.
_PATH: ContextVar[Arch | None] = ContextVar("ramet_path", default=None)


class Choice(nn.Module):
    """One of several modules; an architecture says which.

    Put it anywhere inside an ``nn.Module`` and call it as any of its options would be called. Only the chosen option is
    touched. A ``Choice`` runs inside ``supernet(x, arch)`` only; an exported child has the option in its place.

    A choice inside an option of another choice is refused when the space is made: architectures that differ in
    a place which is not used would be the same network under two names. List the combinations as options instead.

    Args:
        options: the modules, or the modules by name; without names they are called "0", "1", ...
        name: choices of the same name take one decision together, and must have the same options' names. Without it,
            each choice is a decision of its own, named by its place in the module.

    Raises:
        ConfigError: if there is no option, an option is no module, or a name has a comma, an equals sign or a space.

    >>> stack = nn.Sequential(Choice({"narrow": nn.Linear(4, 4), "skip": nn.Identity()}), nn.Linear(4, 2))
    """

    def __init__(self, options: Sequence[nn.Module] | Mapping[str, nn.Module], *, name: str | None = None) -> None:
        super().__init__()
        if isinstance(options, Mapping):
            names, modules = list(options), list(options.values())
        else:
            names, modules = [str(i) for i in range(len(options))], list(options)
        if not modules:
            raise ConfigError("a Choice needs at least one option, but got none.")
        for module in modules:
            if not isinstance(module, nn.Module):
                raise ConfigError(f"an option of a Choice must be an nn.Module, but got {type(module).__name__}.")
        for text in [*names, *([] if name is None else [name])]:
            if not isinstance(text, str) or not text or any(mark in text for mark in ",= \t\n"):
                raise ConfigError(f"a name in a Choice must be text without comma, equals sign or space, got {text!r}.")
        self.options = nn.ModuleList(modules)
        self.option_names = tuple(names)
        self.name = name
        self.decision: int | None = None  # The place in the architecture; find_decisions sets it.

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the chosen option gives for the same arguments."""
        arch = _PATH.get()
        if arch is None or self.decision is None:
            raise ConfigError("a Choice runs inside supernet(x, arch) only, but it was called by itself.")
        return self.options[arch[self.decision]](*args, **kwargs)

    def chosen(self, arch: Arch) -> nn.Module:
        """The option that an architecture takes here."""
        assert self.decision is not None, "find_decisions comes first"
        return self.options[arch[self.decision]]

    def extra_repr(self) -> str:
        """The names, for ``print(module)``."""
        return f"name={self.name}, options={', '.join(self.option_names)}"


@dataclass(frozen=True)
class Decision:
    """One digit of an architecture: its name and those of its options."""

    name: str
    options: tuple[str, ...]


def find_decisions(module: nn.Module) -> tuple[Decision, ...]:
    """The decisions of a module in the order in which its choices were registered, and each choice told its place."""
    decisions: dict[str, Decision] = {}
    owners: dict[str, Choice] = {}
    for place, choice in module.named_modules():
        if not isinstance(choice, Choice):
            continue
        name = choice.name or place or "choice"
        if any(isinstance(inner, Choice) for inner in choice.options.modules()):
            raise ConfigError(
                f"a Choice must not lie inside an option of another, but one lies inside {name!r}; "
                "list the combinations as options of one Choice."
            )
        if name in decisions:
            if choice.name is None or owners[name].name is None:
                raise ConfigError(f"the name of a Choice must not be the place of another, but both are {name!r}.")
            if choice.option_names != decisions[name].options:
                raise ConfigError(
                    f"choices named {name!r} decide together and need the same options, "
                    f"but got {decisions[name].options} and {choice.option_names}."
                )
        else:
            decisions[name] = Decision(name, choice.option_names)
            owners[name] = choice
        choice.decision = list(decisions).index(name)
    if not decisions:
        raise ConfigError(f"a space needs at least one Choice, but {type(module).__name__} has none among its modules.")
    return tuple(decisions.values())


@contextmanager
def on_path(arch: Arch) -> Iterator[None]:
    """Decide every choice that is called inside the block, in this thread."""
    token = _PATH.set(arch)
    try:
        yield
    finally:
        _PATH.reset(token)


class GaveSpaceError(ConfigError):
    """A function that was taken for a factory of modules has made a space."""

    def __init__(self, space: Space) -> None:
        super().__init__(f"a factory must return an nn.Module, but got a space, {type(space).__name__}.")
        self.space = space


class ModuleSpace(Space):
    """The architectures of a module that a factory makes.

    A decision is a ``Choice``, or all choices of one name. An architecture reads ``place=option,place=option``. The
    module's own ``forward`` stays as it is; ``docs/spaces.md`` has a complete example.

    Args:
        factory: called as ``factory(in_channels, num_classes)``, or a reference to such a function,
            ``package.module:name`` or ``FILE.py:name``. It may refuse values that it has no network for. One that asks
            for ``words`` or ``length`` makes language models, and is called with the tokens in the vocabulary and in a
            window by these names.
        in_channels: what the factory is called with to find the choices; of language models, the length of a window.
        num_classes: the same; of language models, the size of the vocabulary.

    Raises:
        ConfigError: if the reference leads nowhere, the factory makes no module, or ``find_decisions`` refuses it.

    >>> def factory(in_channels, num_classes):
    ...     return nn.Sequential(
    ...         Choice({"conv": nn.Conv2d(in_channels, 4, 3), "pool": nn.AvgPool2d(3)}),
    ...         nn.Flatten(),
    ...         nn.LazyLinear(num_classes),
    ...     )
    >>> [ModuleSpace(factory).name(arch) for arch in ModuleSpace(factory)]
    ['0=conv', '0=pool']
    """

    def __init__(self, factory: Factory | str, *, in_channels: int = 3, num_classes: int = 10) -> None:
        self._source = factory
        self._factory: Factory = resolve_reference(factory, trusted=True) if isinstance(factory, str) else factory
        if not callable(self._factory):
            raise ConfigError(f"a factory must be callable, but got {type(self._factory).__name__}.")
        self._asked = asks_for_text(self._factory)
        self.takes_text = bool(self._asked)
        self.in_channels = in_channels
        self.num_classes = num_classes
        with torch.random.fork_rng(devices=[]):  # Looking at the choices draws nothing from the caller's generator.
            module = self._make(in_channels, num_classes)
        self.decisions = find_decisions(module)
        self.fingerprint = fingerprint(module)
        super().__init__([len(decision.options) for decision in self.decisions])

    def supernet(self, in_channels: int, num_classes: int) -> ModuleSupernet:
        """A supernet around a module that the factory makes anew."""
        module = self._make(in_channels, num_classes)
        decisions = find_decisions(module)
        if decisions != self.decisions:
            raise ConfigError(
                f"a factory must make the same choices for all images and classes, but it makes {_list(decisions)} "
                f"for {in_channels} channels and {num_classes} classes, and {_list(self.decisions)} otherwise."
            )
        return ModuleSupernet(self, module)

    def name(self, arch: Arch) -> str:
        """The architecture as ``place=option,place=option``."""
        pairs = zip(self.decisions, self.check(arch), strict=True)
        return ",".join(f"{decision.name}={decision.options[choice]}" for decision, choice in pairs)

    @property
    def option_names(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The choices and their options."""
        return tuple((decision.name, decision.options) for decision in self.decisions)

    def parse(self, text: str) -> Arch:
        """The architecture of a notation, in which every decision must be there, in order; or of a short name."""
        parts = text.split(",")
        if "=" not in text and (short := read_short_name(text, self.option_names)) is not None:
            return short
        if len(parts) == len(self.decisions):
            arch = []
            for part, decision in zip(parts, self.decisions, strict=True):
                name, _, option = part.partition("=")
                if name == decision.name and option in decision.options:
                    arch.append(decision.options.index(option))
            if len(arch) == len(parts):
                return tuple(arch)
        raise ConfigError(f"an architecture of this space reads {_list(self.decisions)}, but got {text!r}.")

    def describe(self) -> dict[str, Any]:
        """What identifies this space: the factory's reference, if it has one, and the fingerprint of its module."""
        reference = self._source if isinstance(self._source, str) else reference_to(self._source)
        return {
            "kind": "module",
            "factory": reference,
            "in_channels": self.in_channels,
            "num_classes": self.num_classes,
            "fingerprint": self.fingerprint,
        }

    def example(self, num_samples: int, input_shape: Sequence[int], num_classes: int) -> Tensor:
        """Random images, or for language models random tokens, shape [samples, *input_shape]."""
        if not self.takes_text:
            return super().example(num_samples, input_shape, num_classes)
        return torch.randint(num_classes, (num_samples, *input_shape))

    def __reduce__(self) -> tuple[Any, ...]:
        # A factory from a file travels as its reference: the receiving process may not have the file imported.
        return _make_module_space, (self._source, self.in_channels, self.num_classes)

    def _make(self, in_channels: int, num_classes: int) -> nn.Module:
        known = dict(zip(TEXT_ARGUMENTS, (in_channels, num_classes), strict=True))
        by_name = {name: known[name] for name in self._asked}
        if by_name or _parameters(self._factory) == ():
            module = self._factory(**by_name)
        else:
            module = self._factory(in_channels, num_classes)
        if isinstance(module, Space):
            raise GaveSpaceError(module)
        if not isinstance(module, nn.Module):
            raise ConfigError(f"a factory must return an nn.Module, but got {type(module).__name__}.")
        return module


def asks_for_text(factory: Callable[..., Any]) -> tuple[str, ...]:
    """Which of the arguments that only language models have a factory takes; none for a factory of other networks.

    >>> asks_for_text(lambda words, length: nn.Embedding(words, length))
    ('length', 'words')
    """
    asked = _parameters(factory)
    return tuple(name for name in TEXT_ARGUMENTS if name in (asked or ()))


def _parameters(factory: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of what a function takes; none of code that is not Python, which says nothing of its arguments."""
    try:
        return tuple(inspect.signature(factory).parameters)
    except (TypeError, ValueError):
        return None


def space_of(module: nn.Module) -> ModuleSpace:
    """The space of a module that exists already.

    Its supernets hold copies of this module with the weights it has; for fresh weights give ``ModuleSpace`` a factory.
    Whether it suits the images and classes is for the caller to know.
    """
    return ModuleSpace(_Copies(module))


class ModuleSupernet(Supernet):
    """A module with choices as a supernet.

    An ``nn.Sequential`` gives a stage for each of its items, any other module is one stage. The layout of the weights
    is left alone: the module's own ``forward`` may rely on it.
    """

    def __init__(self, space: ModuleSpace, module: nn.Module) -> None:
        super().__init__()
        self.space = space
        self._names: list[str] | None = None
        if type(module) is nn.Sequential:
            self._names = list(module._modules)  # named_children() leaves out an item that comes twice.
            self.stages = nn.ModuleList(_Stage(item) for item in module)
        else:
            self.stages = nn.ModuleList([_Stage(module)])
        self.train(module.training)

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        """What the module gives for one architecture."""
        return super().forward(x, self.space.check(arch))

    def name_in_module(self, name: str) -> str:
        """How a weight is called in the factory's module, by its name in this one."""
        _, stage, _, *rest = name.split(".")  # stages.0.module.weight
        return ".".join(rest if self._names is None else [self._names[int(stage)], *rest])

    def child(self, arch: Arch) -> nn.Module:
        """A copy of the module in which the option taken stands in the place of each choice."""
        self.space.check(arch)
        copies: dict[int, Any] = {}  # deepcopy's memo: an entry stands for the object of that id.
        for module in self.stages.modules():
            if isinstance(module, DepthwiseConv2d):
                copies[id(module)] = copy_layer(module, copies)
        for module in self.stages.modules():
            if isinstance(module, Choice):
                copies[id(module)] = copy.deepcopy(module.chosen(arch), copies)
        items: list[nn.Module] = [copy.deepcopy(stage.get_submodule("module"), copies) for stage in self.stages]
        if self._names is None:
            return items[0]
        child = nn.Sequential()
        for name, item in zip(self._names, items, strict=True):
            child.add_module(name, item)
        child.training = self.training
        return child

    def forward_all(self, x: Tensor, archs: Sequence[Arch]) -> Iterator[Tensor]:
        """What the module gives for many architectures, in order; stages that several have in common run once."""
        self.check_evaluation()
        used: list[tuple[int, ...]] = []
        for stage in self.stages:
            here = {m.decision for m in stage.modules() if isinstance(m, Choice) and m.decision is not None}
            used.append(tuple(sorted(here.union(used[-1] if used else ()))))
        return walk_stages(self.stages, used, x, [self.space.check(arch) for arch in archs])


class _Stage(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor, arch: Arch) -> Tensor:
        with on_path(arch):
            result = self.module(x)
        logits = logits_of(result)  # a whole model of Hugging Face may be one stage
        given: Tensor = result if logits is None else logits
        return given


class _Copies:
    """A factory that copies one module."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, in_channels: int, num_classes: int) -> nn.Module:
        return copy.deepcopy(self.module)


def fingerprint(module: nn.Module) -> str:
    """A digest of what a module is made of: its layers with their arguments, and the code of classes outside torch.

    It changes when a network of the same name becomes another, so that nothing learnt about one is taken for the other.
    """
    digest = hashlib.sha256(repr(module).encode())
    kinds = {type(part) for part in module.modules()}
    for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__)):
        if kind.__module__.partition(".")[0] in ("torch", "ramet"):
            continue
        try:
            code = inspect.getsource(kind)
        except (OSError, TypeError):
            code = kind.__qualname__
        digest.update(code.encode())
    return digest.hexdigest()


def _make_module_space(factory: Factory | str, in_channels: int, num_classes: int) -> ModuleSpace:
    return ModuleSpace(factory, in_channels=in_channels, num_classes=num_classes)


def _list(decisions: Sequence[Decision]) -> str:
    return ",".join(f"{decision.name}={'|'.join(decision.options)}" for decision in decisions)
