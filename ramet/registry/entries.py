"""What is told of a part: to a user its name, one line and its options, to a file its class and its arguments."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from ramet.registry.references import reference_to
from ramet.registry.specs import Spec, format_value

_ARGUMENT = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?:\s*(?P<text>.*)")


@dataclass(frozen=True)
class Option:
    """An option of a part: its key, its default as a spec has it (none for one that must be given), and its meaning."""

    name: str
    default: str | None
    summary: str


@dataclass(frozen=True)
class Entry:
    """A line of a registry: a part's name, what it is, its options, and ``built-in`` or the package that brings it."""

    name: str
    summary: str
    options: tuple[Option, ...]
    origin: str


def describe_maker(name: str, maker: Callable[..., Any], origin: str, given: Collection[str] = ()) -> Entry:
    """The entry of a class or function; parameters that are ``given`` by the caller are no options."""
    described = documented_arguments(maker)
    options = [
        Option(
            parameter.name,
            None if parameter.default is parameter.empty else _text(parameter.default),
            described.get(parameter.name, ""),
        )
        for parameter in (parameters_of(maker) or {}).values()
        if parameter.name not in given and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return Entry(name, summary_of(maker), tuple(options), origin)


def parameters_of(maker: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    """The parameters of a class or function by name, or None for a callable without a signature."""
    try:
        return dict(inspect.signature(maker).parameters)
    except (ValueError, TypeError):  # some callables of other languages have no signature
        return None


def summary_of(maker: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    lines = (inspect.getdoc(maker) or "").strip().splitlines()
    return _plain(lines[0].strip()) if lines else ""


def documented_arguments(maker: Callable[..., Any]) -> dict[str, str]:
    """For each argument of a Google-style docstring its first sentence.

    Those of a class may stand in the docstring of ``__init__`` or of a class above it, and those of a class method in
    that of its class.
    """
    owner = getattr(maker, "__self__", maker)  # a class method's class
    classes = owner.__mro__ if isinstance(owner, type) else ()
    makers = [vars(each)["__init__"] for each in classes if "__init__" in vars(each)]
    documents = [inspect.getdoc(thing) or "" for thing in (maker, *classes, *makers)]
    found: dict[str, str] = {}
    for document in documents:
        for name, text in _arguments(document).items():
            found.setdefault(name, text)
    return found


def _arguments(document: str) -> dict[str, str]:
    """The arguments of one docstring."""
    found: dict[str, list[str]] = {}
    lines = iter(document.splitlines())
    for line in lines:
        if line.strip() in ("Args:", "Arguments:", "Attributes:"):
            break
    depth = 0
    for line in lines:
        if not line.strip() or not line[0].isspace():  # the section ends
            break
        indent = len(line) - len(line.lstrip())
        depth = depth or indent
        if indent == depth and (argument := _ARGUMENT.fullmatch(line.strip())):
            found[argument["name"]] = [argument["text"]]
        elif found:
            found[next(reversed(found))].append(line.strip())
    return {name: _first_sentence(" ".join(texts)) for name, texts in found.items()}


def _first_sentence(text: str) -> str:
    return _plain(re.split(r"(?<=\.)\s", text.strip(), maxsplit=1)[0])


def _plain(text: str) -> str:
    """A line without the marks of reStructuredText, which a terminal does not render."""
    return re.sub(r":\w+:`([^`]*)`|``([^`]*)``", lambda mark: mark[1] or mark[2], text)


def _text(value: Any) -> str:
    try:
        return format_value(list(value) if isinstance(value, tuple) else value)
    except TypeError:
        return getattr(value, "__qualname__", None) or repr(value)


def describe_source(source: Any) -> Any:
    """The JSON value of what a registry makes a part from: a text as it is, an object as its class and arguments.

    Public arguments are the parameters of the class that the object keeps under their own names.

    >>> from fractions import Fraction
    >>> describe_source("plasticity:60"), describe_source(Fraction)
    ('plasticity:60', {'class': 'fractions:Fraction'})
    """
    if source is None or isinstance(source, str | int | float | bool):
        return source
    if isinstance(source, Spec):
        return str(source)
    if isinstance(source, functools.partial):
        arguments = {str(place): value for place, value in enumerate(source.args)} | source.keywords
        return {"class": _name_of(source.func), "arguments": _described(arguments)}
    if isinstance(source, type) or hasattr(source, "__qualname__"):
        return {"class": _name_of(source)}
    own = {name: getattr(source, name) for name in parameters_of(type(source)) or () if hasattr(source, name)}
    arguments = _described(own)
    return {"class": _name_of(type(source)), **({"arguments": arguments} if arguments else {})}


def _name_of(thing: Any) -> str:
    return reference_to(thing) or str(getattr(thing, "__qualname__", type(thing).__name__))


def _described(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_described(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _described(each) for key, each in value.items()}
    return describe_source(value)
