"""A table of parts that is open to strangers: built-in names, names of installed packages, files, and objects."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ramet.errors import ConfigError, RametError, hint_at, text_of, told
from ramet.registry.entries import Entry, describe_maker, parameters_of
from ramet.registry.references import reference_to, resolve_reference
from ramet.registry.specs import Spec, parse_chain, parse_spec, split_list
from ramet.registry.values import suited

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """The parts of one kind by name; nothing is imported before a part is asked for.

    It behaves as a collection of names: ``name in registry``, ``list(registry)``.

    Args:
        kind: what a part is called in messages.
        base: the class of the parts, as a reference.
        group: the group of entry points by which installed packages bring parts.
        built_in: for each name a reference to its maker: a class, a class method or a function.
        given: parameters of makers that the caller fills, which are no options of a user.

    >>> from ramet.guards import GUARDS
    >>> GUARDS.make("plasticity:60").strength
    60.0
    """

    def __init__(
        self, kind: str, *, base: str, group: str, built_in: Mapping[str, str], given: Collection[str] = ()
    ) -> None:
        self.kind, self.group = kind, group
        self._base, self._built_in, self._given = base, dict(built_in), tuple(given)

    @cached_property
    def base(self) -> type[Part]:
        """The class of the parts."""
        return cast("type[Part]", resolve_reference(self._base, trusted=True))

    def names(self) -> tuple[str, ...]:
        """All names: the built-in ones, then those that installed packages bring."""
        return (*self._built_in, *(name for name in sorted(self._installed) if name not in self._built_in))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self._installed

    def is_built_in(self, text: str) -> bool:
        """Whether a text, perhaps with options, names a part that comes with ramet."""
        return self.parse(text).name in self._built_in

    def __getitem__(self, name: str) -> Callable[..., Part]:
        if name not in self:
            raise KeyError(name)
        return self.maker(name)

    def name_of(self, part: Part) -> str:
        """The name of a part's class here; of a class that has none, its own."""
        reference = reference_to(type(part))
        named = {maker.partition(".for_")[0]: name for name, maker in self._built_in.items()}
        return named.get(reference or "", type(part).__name__)

    def parse(self, text: str) -> Spec:
        """The spec of a text, in which the names of this registry are names."""
        return parse_spec(text, self)

    def maker(self, name: str, *, trusted: bool = True) -> Callable[..., Part]:
        """What makes the parts of a name or of a reference.

        Args:
            name: a name, ``FILE.py:Name`` or ``package.module:Name``.
            trusted: whether a reference may run; see ``resolve_reference``. Names always work.

        Raises:
            ConfigError: there is no such part, it cannot be imported or called, or it is not trusted.
        """
        if name in self._built_in:  # first: no package changes what a built-in name means
            return cast("Callable[..., Part]", resolve_reference(self._built_in[name], trusted=True))
        if name in self._installed:
            return self._load(self._installed[name])
        if not _is_reference(name):
            known, hint = ", ".join(self.names()), hint_at(name, self.names())
            raise ConfigError(f"a {self.kind} is one of {known}, or FILE.py:Name, but got {name!r}{hint}")
        found = resolve_reference(name, trusted=trusted)
        if not callable(found) and not isinstance(found, self.base):
            raise ConfigError(f"a {self.kind} is made by a class or a function, but {name} is {found!r}.")
        return cast("Callable[..., Part]", found)

    def class_of(self, name: str, *, trusted: bool = True) -> type[Part]:
        """The class of the parts of a name; refused where a function makes them."""
        maker: Any = self.maker(name, trusted=trusted)
        found = getattr(maker, "__self__", maker)  # a class method's class
        if not isinstance(found, type) or not issubclass(found, self.base):
            raise ConfigError(f"a {self.kind} must be named by its class here, but {name} is made by a function.")
        return found

    def make(
        self,
        source: str | Spec | Mapping[str, Any] | Part | Callable[..., Part],
        *arguments: Any,
        trusted: bool = True,
        **context: Any,
    ) -> Part:
        """A part.

        Args:
            source: a text or spec, what ``describe_source`` gave for a class or an object, a part, which is given back
                as it is, or a class or function that makes one.
            arguments: what every maker takes first.
            trusted: whether a reference in a text may run; False for a text that comes from data.
            context: what a maker may ask for: each is passed on only where the maker takes it, and not where the
                text sets it.

        Raises:
            ConfigError: there is no such part, it does not take the options, or it makes something else.
        """
        if isinstance(source, self.base):
            return source
        if isinstance(source, Mapping):
            source = _described(source)
        if isinstance(source, str):
            source = self.parse(source)
        if isinstance(source, Spec):
            maker = self.maker(source.name, trusted=trusted)
            if isinstance(maker, self.base):  # a file may name a part that is made already
                return maker
            return self._call(source.name, maker, arguments, source, context)
        if not callable(source):
            raise ConfigError(
                f"a {self.kind} is a text, a {self.base.__name__} or what makes one, but got {type(source).__name__}."
            )
        name = reference_to(source) or str(getattr(source, "__name__", type(source).__name__))
        return self._call(name, source, arguments, Spec(name), context)

    def code(self, source: object) -> list[str]:
        """The references to code in a text, chain, list or description; nothing for names and for objects.

        What comes from data is asked for it before anything is made: see ``check_trust``.

        >>> from ramet.guards import GUARDS
        >>> GUARDS.code("plasticity:60+mine.py:Slowing")
        ['mine.py:Slowing']
        """
        if isinstance(source, Mapping):
            source = _described(source)
        if isinstance(source, str):
            specs = [spec for text in split_list(source) for spec in parse_chain(text, self)] if source.strip() else []
        else:
            specs = [source] if isinstance(source, Spec) else []
        return [spec.name for spec in specs if spec.name not in self and ":" in spec.name]

    def entry(self, name: str, *, trusted: bool = True) -> Entry:
        """What a user is told of one part."""
        origin = "built-in"
        if name not in self._built_in:
            origin = _origin(self._installed[name][0]) if name in self._installed else name.rpartition(":")[0]
        return describe_maker(name, self.maker(name, trusted=trusted), origin, self._given)

    def entries(self) -> list[Entry]:
        """What a user is told of every part; it imports them."""
        return [self.entry(name) for name in self.names()]

    def _call(
        self, name: str, maker: Callable[..., Part], arguments: tuple[Any, ...], spec: Spec, context: dict[str, Any]
    ) -> Part:
        known_parameters = parameters_of(maker)
        parameters = known_parameters or {}
        takes_all = known_parameters is None or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        if unknown := sorted(set(spec.options) - set(parameters)) if not takes_all else []:
            known = [each for each in parameters if each not in self._given]
            raise ConfigError(f"options of {name} are {', '.join(known) or 'none'}, but got {', '.join(unknown)}.")
        options = {each: suited(value, parameters.get(each), name) for each, value in spec.options.items()}
        placed = [each for each in parameters.values() if each.kind not in (each.KEYWORD_ONLY, each.VAR_KEYWORD)]
        values = (
            spec.values if known_parameters is None else self._values(name, spec, placed[len(arguments) :], parameters)
        )
        filled = {each.name for each in placed[: len(arguments) + len(spec.values)]}
        passed = {key: value for key, value in context.items() if (takes_all or key in parameters)}
        passed = {key: value for key, value in passed.items() if key not in filled} | options
        required = [each for each in parameters.values() if each.default is each.empty]
        named = [each.name for each in required if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        if missing := [each for each in named if each not in filled and each not in passed]:
            raise ConfigError(f"{self.kind} {name} must be given {', '.join(missing)}, but got {str(spec)!r}.")
        try:
            made: Any = maker(*arguments, *values, **passed)
        except (RametError, KeyboardInterrupt):
            raise
        except TypeError as error:
            raise ConfigError(
                f"{self.kind} {name} must get the values that it takes, but: {text_of(error)}."
            ) from error
        except BaseException as error:  # whatever values that it did not foresee, or a stranger's code, raise
            raise ConfigError(f"{self.kind} {name} must run, but raises {told(error)}.") from error
        if not isinstance(made, self.base):
            raise ConfigError(f"{name} must make a {self.base.__name__}, but made {type(made).__name__}.")
        return made

    def _values(
        self, name: str, spec: Spec, placed: Sequence[inspect.Parameter], parameters: Collection[str]
    ) -> list[Any]:
        """What stands without a key, each value as its parameter wants it; there may not be more than parameters."""
        wanted = [*placed[: len(spec.values)]]
        if placed and placed[-1].kind is inspect.Parameter.VAR_POSITIONAL:  # as many as there are
            wanted += [placed[-1]] * (len(spec.values) - len(wanted))
        if len(wanted) < len(spec.values):
            known = ", ".join(each for each in parameters if each not in self._given) or "none"
            took = f"at most {len(placed)} values without a key" if placed else "no values without a key"
            raise ConfigError(f"{self.kind} {name} takes {took}, but got {str(spec)!r}; its options are {known}.")
        return [suited(value, parameter, name) for value, parameter in zip(spec.values, wanted, strict=True)]

    @cached_property
    def _installed(self) -> dict[str, list[EntryPoint]]:
        """The entry points of this group by name."""
        from importlib.metadata import entry_points  # late: it takes a tenth of the time that --help does

        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            found.setdefault(point.name, []).append(point)
        return found

    def _load(self, points: list[EntryPoint]) -> Callable[..., Part]:
        first = points[0]
        if len({point.value for point in points}) > 1:
            origins = " and ".join(sorted({_origin(point) for point in points}))
            raise ConfigError(f"a {self.kind} has one installed package, but {first.name} comes from {origins}.")
        try:
            return cast("Callable[..., Part]", first.load())
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a stranger's package raises when it is imported
            raise ConfigError(f"{_origin(first)} must bring {first.value}, but: {text_of(error)}.") from error


def _described(source: Mapping[str, Any]) -> Spec:
    """The spec of what ``describe_source`` gave for a class or an object."""
    arguments = source.get("arguments", {})
    if not isinstance(source.get("class"), str) or not isinstance(arguments, Mapping):
        keys = ", ".join(map(str, source)) or "nothing"
        raise ConfigError(f"a description has a class and its arguments, but got {keys:.80}.")
    values = [value for name, value in arguments.items() if name.isdecimal()]
    options = {name: value for name, value in arguments.items() if not name.isdecimal()}
    return Spec(source["class"], tuple(values), options)


def _origin(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _is_reference(name: str) -> bool:
    """Whether a text can be a reference: a file, or a module that there is; nothing is imported."""
    place, colon, _ = name.rpartition(":")
    if not colon:
        return False
    try:
        return place.endswith(".py") or "." in place or importlib.util.find_spec(place) is not None
    except (ImportError, ValueError):  # no name of a module at all
        return False


KINDS = {
    "guard": "ramet.guards:GUARDS",
    "strategy": "ramet.searching.strategies:STRATEGIES",
    "space": "ramet.spaces:SPACES",
    "sharing": "ramet.sharing:SHARINGS",
    "growth": "ramet.growth.methods:GROWTHS",
    "network": "ramet.growth:NETWORKS",
    "skeleton": "ramet.continual.networks:SKELETONS",
    "method": "ramet.continual.methods:METHODS",
    "score": "ramet.ranking:SCORES",
    "training": "ramet.ranking.trainings:TRAININGS",
    "data": "ramet.data.registry:DATA",
    "recipe": "ramet.training.registry:RECIPES",
    "schedule": "ramet.training.registry:SCHEDULES",
    "loss": "ramet.training.registry:LOSSES",
    "metric": "ramet.training.registry:METRICS",
    "augmentation": "ramet.training.registry:AUGMENTATIONS",
    "logger": "ramet.runs.loggers:LOGGERS",
}
"""For each kind a reference to its registry."""


def registry_of(kind: str) -> Registry[Any]:
    """The registry of a kind; its parts are not imported."""
    if kind not in KINDS:
        raise ConfigError(f"a kind is one of {', '.join(KINDS)}, but got {kind!r}{hint_at(kind, KINDS)}")
    found: Registry[Any] = resolve_reference(KINDS[kind], trusted=True)
    return found
