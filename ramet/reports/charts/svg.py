"""SVG as text: elements with escaped content, paths, and how wide a label will be.

The width of a label cannot be known without the reader's fonts, so it is estimated from above: a margin that is a
little too wide looks better than a label that is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from markupsafe import Markup, escape

Attribute: TypeAlias = str | float | int | None
Point: TypeAlias = tuple[float, float]

# What neither XML nor HTML allows in a document, however it is escaped.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_NARROW = frozenset("ijlI.,:;'|! ·")
_SLIM = frozenset("tfr()[]{}-–/")
_BROAD = frozenset("mwMW@%—…×→")


def clean(text: str) -> str:
    """Text without the characters that no document may hold; each becomes a replacement mark."""
    return _FORBIDDEN.sub("�", text)


def tag(name: str, *content: str, **attributes: Attribute) -> Markup:
    """One element. Content and attributes are escaped unless they are already markup.

    ``class_`` stands for ``class``, ``stroke_width`` for ``stroke-width``; an attribute that is None is left out.

    >>> str(tag("text", "a < b", x=1.26, class_="tick", fill=None))
    '<text x="1.3" class="tick">a &lt; b</text>'
    """
    pairs = [
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    ]
    inside = join(content)
    opening = f"<{name}{''.join(pairs)}"
    return Markup(f"{opening}>{inside}</{name}>" if inside else f"{opening}/>")  # nosec B704


def join(parts: Iterable[str]) -> Markup:
    """Pieces of markup one after another; plain text among them is escaped."""
    return Markup("").join(parts)


def group(*content: str, **attributes: Attribute) -> Markup:
    """A ``g`` element, or nothing if it would be empty."""
    inside = join(content)
    return tag("g", inside, **attributes) if inside else Markup("")


def polyline(points: Sequence[Point]) -> str:
    """The ``d`` attribute of an open path through points."""
    return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)


def coordinate(value: float) -> str:
    """A coordinate with at most one decimal: finer than any screen shows, and half the bytes.

    >>> coordinate(3.0), coordinate(2.449), coordinate(-0.01)
    ('3', '2.4', '0')
    """
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def text_width(text: str, font_size: float) -> float:
    """How wide a text is at most, in the widest of the usual screen fonts."""
    return font_size * sum(_character_width(character) for character in text)


def fit(text: str, width: float, font_size: float) -> str:
    """A text cut to a width, with an ellipsis where something is missing.

    >>> fit("short", 100, 12), fit("a very long name of a child", 80, 12)
    ('short', 'a very lon…')
    """
    if text_width(text, font_size) <= width:
        return text
    kept = ""
    for character in text:
        if text_width(kept + character + "…", font_size) > width:
            break
        kept += character
    return f"{kept.rstrip()}…"


def wrap(text: str, width: float, font_size: float, max_lines: int = 2) -> list[str]:
    """A text broken at its spaces into lines of a width; the last line is cut if there is still more."""
    lines: list[str] = []
    rest = text.split()
    while rest and len(lines) < max_lines - 1:
        line = rest.pop(0)
        while rest and text_width(f"{line} {rest[0]}", font_size) <= width:
            line = f"{line} {rest.pop(0)}"
        lines.append(fit(line, width, font_size))
    if rest:
        lines.append(fit(" ".join(rest), width, font_size))
    return lines


def _attribute(value: Attribute) -> str:
    return str(escape(value)) if isinstance(value, str) else coordinate(float(value or 0))


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 0.35
    if character in _SLIM:
        return 0.43
    if character in _BROAD or ord(character) > 0x2E7F:  # East Asian scripts and symbols fill a square
        return 1.0
    return 0.72 if character.isupper() else 0.63
