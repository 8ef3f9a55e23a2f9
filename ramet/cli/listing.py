"""`ramet list`: what can be named, with options, defaults and a line each."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from ramet.cli.options import FLAG, print_json


def list_parts(kind: str | None = None, *, json: Annotated[bool, FLAG] = False) -> None:
    """Name what an option takes: guards, strategies, spaces, sharings, growths, networks, methods, scores, data.

    Built-in parts and those of installed packages. Any of them can also be a file of your own, FILE.py:Name; options
    stand behind a colon, NAME:key=value,key=value.

    Examples: `ramet list`; `ramet list guard`; `ramet list strategy --json`.

    Args:
        kind: of what; by default the names of every kind.
        json: print the list as one JSON object on standard output.
    """
    from ramet.registry import KINDS, registry_of

    if kind is None:
        names = {each: list(registry_of(each).names()) for each in KINDS}
        if json:
            print_json(names)
            return
        for each, known in names.items():
            print(f"{each:<10}{', '.join(known)}")
        print("\n`ramet list KIND` says what each is and which options it has.")
        return
    entries = registry_of(kind).entries()
    if json:
        print_json({kind: [asdict(entry) for entry in entries]})
        return
    for entry in entries:
        print(f"{entry.name}  ({entry.origin})\n    {entry.summary}")
        for option in entry.options:
            default = "" if option.default is None else f" [default: {option.default}]"
            print(f"      {option.name}={default}  {option.summary}")
