"""The marker by which a user's own module becomes a space: one of several modules, to be decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch import nn

from ramet.errors import ConfigError
from ramet.spaces.base import Arch

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

    Example:
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
    """The decisions of a module in the order in which its choices were registered, and each choice told its place.

    Raises:
        ConfigError: if there is no choice, a choice lies inside an option of another, two choices of one name have
            different options, or a name is also the place of another choice.
    """
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
