"""Short names for architectures whose notation is long: a digit for each decision, and a legend that explains them."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = 16
"""Characters of a name that still fits beside a dot or under a box."""

Decisions = Sequence[tuple[str, Sequence[str]]]
"""The name of each decision and those of its options."""


def short_name(name: str, arch: Sequence[int], decisions: Decisions) -> str:
    """The name itself, if it is short or nothing is known of the decisions; otherwise the numbers of the options.

    >>> short_name("layer0=conv,layer1=skip", (0, 2), [("layer0", ("conv", "pool", "skip"))] * 2)
    '02'
    """
    if len(name) <= LONGEST or not decisions:
        return name
    mark = "" if max(len(options) for _, options in decisions) <= 10 else "-"
    return mark.join(map(str, arch))


def read_short_name(text: str, decisions: Decisions) -> tuple[int, ...] | None:
    """The options that a short name gives; none if it is no such name.

    >>> read_short_name("02", [("layer0", ("conv", "pool", "skip"))] * 2)
    (0, 2)
    """
    parts = text.split("-") if decisions and max(len(options) for _, options in decisions) > 10 else list(text)
    if len(parts) != len(decisions) or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    arch = tuple(map(int, parts))
    return arch if all(c < len(options) for c, (_, options) in zip(arch, decisions, strict=True)) else None


def legend(decisions: Decisions) -> list[str]:
    """What the places of a short name decide, a line each; decisions in a row with the same options have one line.

    >>> legend([("layer0", ("conv", "skip")), ("layer1", ("conv", "skip")), ("head", ("a", "b"))])
    ['1 to 2 (layer0 to layer1): 0 conv, 1 skip', '3 (head): 0 a, 1 b']
    """
    lines, first = [], 0
    for place, (name, options) in enumerate(decisions):
        if place + 1 < len(decisions) and tuple(decisions[place + 1][1]) == tuple(options):
            continue
        many = first < place
        where = f"{first + 1} to {place + 1} ({decisions[first][0]} to {name})" if many else f"{place + 1} ({name})"
        lines.append(f"{where}: " + ", ".join(f"{number} {option}" for number, option in enumerate(options)))
        first = place + 1
    return lines
