"""`ramet init`: a starter file for a part of one's own, which runs as it is."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Literal

from ramet.errors import ConfigError

Kind = Literal["space", "network", "stream", "recipe"]
_FILE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.py")


def init(kind: Kind, file: Path | None = None) -> None:
    """Write a starter file for a space, a network, a stream or a recipe of your own; it runs as it is.

    The file is plain torch with comments where you go on, and the command to try it with stands in it and is printed.
    A stream is two files: the list of its tasks, FILE.json, and the code of their data. Nothing is overwritten.

    For example:

    - `ramet init space`
    - `ramet init network my_network.py`
    - tasks.json and tasks.py: `ramet init stream tasks.py`

    Args:
        kind: what it is to be: space (`ramet rank`, `search`), network (`grow`, `learn`), stream (`learn`), or recipe
            (every command).
        file: where it goes; by default KIND.py in this folder.
    """
    from ramet.runs.atomic import write_atomically

    target = Path(f"{kind}.py") if file is None else file
    if not _FILE_NAME.fullmatch(target.name):
        raise ConfigError(f"a starter file must be a Python module such as my_{kind}.py, but got {target.name!r}.")
    if not target.parent.is_dir():
        raise ConfigError(f"the folder of a starter file must be there, but {target.parent} is not.")
    texts = starter_texts(kind, target)
    for path in texts:
        if path.exists():
            raise ConfigError(f"a starter file must be new, but {path} is there already; name another one.")
    for path, text in texts.items():
        write_atomically(path, text.encode())
        print(f"Written: {path}")
    print(f"Try: {_command(texts[target])}")


def starter_texts(kind: Kind, target: Path) -> dict[Path, str]:
    """The files of a kind by their paths, each speaking of the others by their names."""
    folder = files("ramet.cli.starters")
    found = {}
    for suffix in (".json", ".py"):
        source = folder / f"{kind}{suffix}"
        if source.is_file():
            text = source.read_text("utf-8")
            # Only whole file names: `space.py:network` is another name than `myspace.py`.
            text = re.sub(rf"\b{kind}\.(py|json)\b", lambda match: f"{target.stem}.{match[1]}", text)
            found[target.with_suffix(suffix)] = text
    return found


def _command(text: str) -> str:
    """The command that a starter says to try."""
    match = re.search(r"^Try it:\s+(.+)$", text, re.MULTILINE)
    assert match is not None  # each of ours has one, and a test runs it
    return match[1]
