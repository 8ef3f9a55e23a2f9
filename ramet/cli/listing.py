"""`ramet list` and `ramet data`: what can be named, with options, defaults and a line each; fetching a data set."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import App

from ramet.cli.options import FLAG, print_json

data_app = App(name="data", help="List the data sets, or fetch one.", help_format="markdown")

BESIDE = {
    "strategy": {
        "staged": "A search in stages within a budget of minutes, evaluations or cost, which implies it.",
        "darts": "All children at once, by gradients of architecture weights: a search of its own.",
    }
}
"""What an option takes beside the parts of its kind."""


def list_parts(kind: str | None = None, *, json: Annotated[bool, FLAG] = False) -> None:
    """Name what an option takes: guards, strategies, spaces, sharings, growths, networks, methods, scores, data.

    Built-in parts and those of installed packages. Any of them can also be a file of your own, FILE.py:Name; options
    stand behind a colon, NAME:key=value,key=value.

    For example:

    - `ramet list`
    - `ramet list guard`
    - `ramet list strategy --json`

    Args:
        kind: of what, guard or guards; by default the names of every kind.
        json: print the list as one JSON object on standard output.
    """
    from ramet.registry import KINDS, registry_of

    if kind is None:
        names = {each: list(registry_of(each).names()) for each in KINDS}
        if json:
            print_json(names)
            return
        width = max(map(len, names)) + 2
        for each, known in names.items():
            print(f"{each:<{width}}{', '.join([*known, *BESIDE.get(each, ())])}")
        print("\n`ramet list KIND` says what each is and which options it has.")
        return
    kind = next((each for each in KINDS if kind in (f"{each}s", f"{each.removesuffix('y')}ies")), kind)
    entries = registry_of(kind).entries()
    if json:
        print_json({kind: [asdict(entry) for entry in entries]})
        return
    for entry in entries:
        print(f"{entry.name}  ({entry.origin})\n    {entry.summary}")
        for option in entry.options:
            default = "" if option.default is None else f" [default: {option.default}]"
            print(f"      {option.name}={default}  {option.summary}")
    for name, summary in BESIDE.get(kind, {}).items():
        print(f"{name}  (built-in)\n    {summary}")


@data_app.command(name="list")
def list_data(*, data_dir: Path | None = None, json: Annotated[bool, FLAG] = False) -> None:
    """Name every data set, its classes and shape, and whether it is here; then the texts, and what else `--data` takes.

    For example:

    - `ramet data list`
    - `RAMET_DATA=/my/data ramet data list`

    Args:
        data_dir: where data sets are; by default the environment variable RAMET_DATA.
        json: print the list as one JSON object on standard output.
    """
    from ramet.data import describe
    from ramet.data.text_list import describe_texts

    lines, texts = describe(data_dir), describe_texts(data_dir)
    if json:
        print_json({"data": [asdict(line) for line in lines], "texts": [asdict(text) for text in texts]})
        return
    for line in lines:
        shape = " x ".join(map(str, line.shape))
        state = "here" if line.present else "`ramet data fetch`" if line.fetchable else "not here"
        print(f"{line.name:<15}{line.num_classes:>5} classes   {shape:<13}{state:<20}{line.title}")
    for text in texts:
        print(f"{text.name:<15}{'words':>13}   {'':<13}{'here' if text.present else 'not here':<20}{text.title}")
    print("\nYour own: FILE.npz, a folder of class folders, FILE.csv:target=COLUMN, text:FILE, FILE.py:function.")


@data_app.command
def fetch(name: str, *, data_dir: Path | None = None, mirror: str | None = None) -> None:
    """Fetch a data set, check it, and put it where `--data NAME` finds it. An interrupted download goes on.

    For example:

    - `RAMET_DATA=/my/data ramet data fetch fashion-mnist`

    Args:
        name: the data set.
        data_dir: where it goes; by default the environment variable RAMET_DATA.
        mirror: the address of a folder that holds the files, in place of the public one.
    """
    from ramet.data import fetch as fetch_data
    from ramet.progress import progress

    with progress(f"fetching {name}", total=1.0) as bar:
        paths = fetch_data(
            name, data_dir, base_url=mirror, progress=lambda _, done, total: bar.set(done / max(total, 1))
        )
    for path in paths:
        print(path)
    if not paths:
        print(f"{name} comes with a library and needs no fetching.")
