"""A configuration for other people's eyes: a report is forwarded, and where files lie here concerns nobody else."""

from __future__ import annotations

import re
from typing import Any

# A path from the root stands at the beginning of a text or behind a colon, an equals sign, a comma or a blank; an
# address has two slashes there.
_FROM_ROOT = re.compile(r"(?:(?<=^)|(?<=[:=,\s]))/(?!/)(?:[^/:,=\s]+/)*(?=[^/:,=\s])")


def without_folders(value: Any) -> Any:
    """JSON values in which every path that is named from the root is its last part alone.

    >>> without_folders({"space": "/home/me/mine.py:network", "data": "digits", "sizes": ["/data/images"]})
    {'space': 'mine.py:network', 'data': 'digits', 'sizes': ['images']}
    >>> without_folders("text:/me/one.txt:tokens=/me/tokens.json"), without_folders("3/4 of http://a/b/c")
    ('text:one.txt:tokens=tokens.json', '3/4 of http://a/b/c')
    """
    if isinstance(value, str):
        return _FROM_ROOT.sub("", value)
    if isinstance(value, dict):
        return {key: without_folders(item) for key, item in value.items()}
    return [without_folders(item) for item in value] if isinstance(value, list) else value


def in_words(value: Any) -> str:
    """What a configuration names, as a reader would: the text that was given, or an object by its class and sizes.

    >>> in_words("/home/me/mine.py:network")
    'mine.py:network'
    >>> in_words({"$object": "ramet.spaces.cells.cells64:Cells64", "is": {"kind": "cells64", "channels": 4}})
    'Cells64(channels=4)'
    >>> in_words({"$object": "torch.utils.data.dataset:TensorDataset", "is": "0a1b"})
    'TensorDataset'
    """
    if not isinstance(value, dict) or "$object" not in value:
        return str(without_folders(value))
    said = value.get("is", value.get("arguments"))
    sizes = said if isinstance(said, dict) else {}
    told = [f"{name}={size}" for name, size in sizes.items() if isinstance(size, int | float) and name != "kind"]
    name = str(value["$object"]).rpartition(":")[2]
    return f"{name}({', '.join(told)})" if told else name
