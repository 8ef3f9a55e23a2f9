"""Functions by name: what a recipe is made of (a loss, a schedule, an augmentation) is a function with options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from typing import Any

from ramet.errors import ConfigError
from ramet.registry.entries import parameters_of
from ramet.registry.registry import Registry
from ramet.registry.specs import Spec, parse_chain
from ramet.registry.values import suited


class FunctionRegistry(Registry[Callable[..., Any]]):
    """A registry whose parts are functions: a text names one, and sets its options.

    Args:
        kind: what a part is called in messages.
        group: the group of entry points by which installed packages bring parts.
        built_in: for each name a reference to its function.
        given: the parameters that the caller fills. Options are those that have a default.

    >>> from ramet.training.registry import LOSSES
    >>> LOSSES.bind("cross-entropy:smoothing=0.1").keywords
    {'smoothing': 0.1}
    """

    def __init__(self, kind: str, *, group: str, built_in: Mapping[str, str], given: Collection[str]) -> None:
        super().__init__(kind, base="builtins:object", group=group, built_in=built_in, given=given)
        self._bind = lru_cache(maxsize=64)(self._bind_text)

    def bind(self, source: str | Callable[..., Any], *, trusted: bool = True) -> Callable[..., Any]:
        """The function of a text, its options set; a function is given back as it is.

        Args:
            source: ``NAME[:key=value,...]``, ``FILE.py:function`` or a function.
            trusted: whether a reference in the text may run; False for a text that comes from data.

        Raises:
            ConfigError: there is no such function, or it does not take the options.
        """
        return self._bind(source, trusted) if isinstance(source, str) else source

    def check(self, source: object) -> None:
        """Refuse what names no function here; a reference to code is not followed, because data may have named it.

        Raises:
            ConfigError: there is no such function, or it does not take the options.
        """
        if isinstance(source, str) and not self.code(source):
            self.bind_chain(source)
        elif not isinstance(source, str) and not callable(source):
            raise ConfigError(f"a {self.kind} is a text or a function, but got {source!r}.")

    def bind_chain(self, source: str) -> list[Callable[..., Any]]:
        """The functions of ``a+b``, in their order."""
        return [self._bind(str(spec), True) for spec in parse_chain(source, self)]

    def _bind_text(self, text: str, trusted: bool) -> Callable[..., Any]:
        spec = self.parse(text)
        function = self.maker(spec.name, trusted=trusted)
        options = self._options(spec, function)
        return partial(function, **options) if options else function

    def _options(self, spec: Spec, function: Callable[..., Any]) -> dict[str, Any]:
        """The options of a text by name; values without a key fill those with a default in their order."""
        parameters = parameters_of(function)
        if parameters is None:
            return dict(spec.options)
        own = [each.name for each in parameters.values() if each.default is not each.empty]
        takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        named = dict(zip(own, spec.values, strict=False)) | dict(spec.options)
        unknown = [key for key in spec.options if key not in own and not takes_all]
        if unknown or len(spec.values) > len(own):
            got = ", ".join(unknown) or f"{len(spec.values)} values"
            raise ConfigError(f"options of {spec.name} are {', '.join(own) or 'none'}, but got {got}.")
        return {key: suited(value, parameters.get(key), spec.name) for key, value in named.items()}
