"""The one language in which parts are named: ``NAME[:value][:key=value,...]``, ``a+b``, ``FILE.py:Name``."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ramet.errors import ConfigError

_KEY = re.compile(r"[A-Za-z_][\w-]*")
_FILE = re.compile(r"(?P<name>.*?\.py:[A-Za-z_][\w.]*)(?P<rest>:.*)?", re.DOTALL)
_MODULE = re.compile(r"(?P<name>[A-Za-z_]\w*(?P<inner>(\.[A-Za-z_]\w*)*):[A-Za-z_][\w.]*)(?P<rest>:.*)?", re.DOTALL)
_NUMBER = re.compile(r"(?P<number>[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)\s*(?P<unit>[a-z%]*)", re.IGNORECASE)
_UNITS = {"": 1.0, "%": 0.01, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_WORDS = {"True": True, "False": False, "None": None}
_OPENING, _CLOSING = "[{", "]}"
_PLAIN = re.compile(r"[\w./@~-][\w./@~ -]*")


@dataclass(frozen=True)
class Spec:
    """A part in words: what it is called, and what it is given.

    Args:
        name: a name of a registry, or a reference to code, ``FILE.py:Name`` or ``package.module:Name``.
        values: what stands without a key, in its order.
        options: what stands with a key; hyphens of a key are underscores.

    >>> parse_spec("elastic:100:form=implicit")
    Spec(name='elastic', values=(100,), options={'form': 'implicit'})
    >>> str(parse_spec("mlp:100,100"))
    'mlp:100:100'
    """

    name: str
    values: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """The one text of this spec, which ``parse_spec`` reads back."""
        options = ",".join(f"{key}={format_value(value)}" for key, value in self.options.items())
        return ":".join([self.name, *map(format_value, self.values), *([options] if options else [])])

    def with_options(self, options: Mapping[str, Any]) -> Spec:
        """This spec with further options; a key that it has already is set anew."""
        return Spec(self.name, self.values, {**self.options, **options})


def parse_spec(text: str, names: Container[str] | None = None) -> Spec:
    """The spec of a text.

    Values are JSON where they can be, and text otherwise. They stand after colons or commas, which mean the same:
    ``groups:8:similar``, ``conv:16,32``. Inside quotes and brackets, neither separates.

    Args:
        text: ``NAME``, ``NAME:value``, ``NAME:key=value,key=value``, or the same after ``FILE.py:Name``.
        names: what is a name. ``word:word`` is then a value of a name, or else a reference to ``word`` of a module;
            without names only a module with a dot in it is one.

    Raises:
        ConfigError: the text has no name, or a key comes twice or before a value without one.

    >>> parse_spec("mine.py:Slowing:rate=0.5").name
    'mine.py:Slowing'
    """
    if not isinstance(text, str):  # a value of config.json may be anything
        raise ConfigError(f"a part is named by a text, NAME or NAME:key=value, but got {text!r:.80}.")
    text = text.strip()
    name, rest = _split_name(text, names)
    if not name:
        raise ConfigError(f"a part is named as NAME or NAME:key=value, but got {text!r}.")
    values: list[Any] = []
    options: dict[str, Any] = {}
    for part in _pieces(rest, ",:") if rest else ():
        key, value = _key_and_value(part)
        if key is None:
            if options:
                raise ConfigError(f"values without a key come before those with one, but got {text!r}.")
            values.append(value)
        elif key in options:
            raise ConfigError(f"an option is given once, but {key} is there twice in {text!r}.")
        else:
            options[key] = value
    return Spec(name, tuple(values), options)


def parse_chain(text: str, names: Container[str] | None = None) -> list[Spec]:
    """The specs of a chain, ``a+b``; the plus of a number such as 1e+06 joins nothing.

    >>> [str(spec) for spec in parse_chain("plasticity:1e+06+projection")]
    ['plasticity:1000000.0', 'projection']
    """
    return [parse_spec(part, names) for part in split_chain(text)]


def split_chain(text: str) -> list[str]:
    """The texts of a chain of specs."""
    parts: list[str] = []
    for piece in _pieces(text, "+"):
        # A folder may have a plus in its name: a path goes on until its file is named.
        if parts and "/" in parts[-1].partition(":")[0] and ".py:" not in parts[-1]:
            parts[-1] += f"+{piece}"
        else:
            parts.append(piece)
    return parts


def split_list(text: str) -> list[str]:
    """The texts of a list of specs, ``a,b:key=value,key=value,c``: what is no option or number begins a new spec.

    Raises:
        ConfigError: the list is empty.

    >>> split_list("naive,elastic:strength=10,form=implicit,packnet")
    ['naive', 'elastic:strength=10,form=implicit', 'packnet']
    """
    parts: list[str] = []
    for part in filter(None, (piece.strip() for piece in _pieces(text, ","))):
        belongs = _is_option(part) or (not isinstance(_value(part), str) and _value(part) is not None)
        if parts and belongs:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    if not parts:
        raise ConfigError(f"a list names at least one part, but got {text!r}.")
    return parts


def parse_list(text: str, names: Container[str] | None = None) -> list[Spec]:
    """The specs of a list; see ``split_list``."""
    return [parse_spec(part, names) for part in split_list(text)]


def parse_options(text: str) -> dict[str, Any]:
    """Options without a name before them, as a budget has them.

    Raises:
        ConfigError: a part is not ``key=value``, or a key comes twice.

    >>> parse_options("params=200k, step=30%, layers=1")
    {'params': '200k', 'step': '30%', 'layers': 1}
    """
    spec = parse_spec(f"options:{text}", names=("options",))
    if spec.values:
        raise ConfigError(f"options read key=value, joined by commas, but got {text!r}.")
    return dict(spec.options)


def quantity(value: Any) -> float:
    """An amount with its unit: thousands (k), millions (m), billions (g), trillions (t), shares (%), seconds (s, ms).

    Raises:
        ConfigError: it is no finite number with one of these units.

    >>> quantity("200k"), quantity("30%"), quantity("2ms"), quantity(64)
    (200000.0, 0.3, 0.002, 64.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match["unit"].lower() not in _UNITS or not math.isfinite(float(match["number"])):
        raise ConfigError(f"an amount reads like 64, 200k, 10M, 30% or 2ms, but got {value!r}.")
    unit = match["unit"].lower()
    # A division rounds once where the factor 0.01 would round twice: 30% is 0.3.
    return float(match["number"]) / 100 if unit == "%" else float(match["number"]) * _UNITS[unit]


def format_value(value: Any) -> str:
    """A value as specs have it: JSON, without quotes around a text that is read back as itself."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value == value.strip() and _value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def file_name(text: str) -> str:
    """A spec as the name of a file or folder: itself where it can be, and otherwise with a digest of the whole.

    >>> file_name("firefly"), file_name("/home/me/mine.py:Growth:rate=2")
    ('firefly', 'mine.py-Growth-rate-2-52a1fd9f')
    """
    if re.fullmatch(r"[\w.=:,-]+", text) and not text.startswith("."):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', text.rpartition('/')[2])[-80:].strip('.-')}-{digest}"


def _split_name(text: str, names: Container[str] | None) -> tuple[str, str]:
    """The name and what comes after its colon."""
    head, _, rest = text.partition(":")
    if names is not None and head in names:
        return head, rest
    if file := _FILE.fullmatch(text):
        return file["name"], (file["rest"] or "")[1:]
    module = _MODULE.fullmatch(text)
    if module and (module["inner"] or names is not None):
        return module["name"], (module["rest"] or "")[1:]
    return head.strip(), rest


def _pieces(text: str, marks: str) -> Iterator[str]:
    """The pieces between marks that stand neither in quotes nor in brackets, nor, for a plus, in a number."""
    depth, quoted, escaped, begin = 0, False, False, 0
    for place, mark in enumerate(text):
        if quoted:
            quoted = escaped or mark != '"'
            escaped = mark == "\\" and not escaped
        elif mark == '"' and _begins_value(text, place):
            quoted = True
        elif mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
        elif mark in marks and depth <= 0 and not (mark == "+" and _in_number(text, place)):
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def _begins_value(text: str, place: int) -> bool:
    """Whether what begins here may be a JSON text; a quote inside a word is a letter like others."""
    return place == 0 or text[place - 1] in ",:=[{ "


def _in_number(text: str, place: int) -> bool:
    """Whether a plus belongs to an exponent."""
    return re.search(r"(^|[^\w.])[\d.]*\d\.?e$", text[:place], re.IGNORECASE) is not None and (
        text[place + 1 : place + 2].isdigit()
    )


def _is_option(part: str) -> bool:
    match = _KEY.match(part)
    return match is not None and part[match.end() :].lstrip().startswith("=")


def _key_and_value(part: str) -> tuple[str | None, Any]:
    if not _is_option(part.strip()):
        return None, _value(part.strip())
    key, _, value = part.partition("=")
    return key.strip().replace("-", "_"), _value(value.strip())


def _value(text: str) -> Any:
    """A JSON value, or else the text itself; Python's own words for true, false and null are no texts."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return value


def _refuse(text: str) -> Any:
    raise ValueError(text)  # NaN and Infinity are Python's, not JSON's: texts here, and refused as numbers
