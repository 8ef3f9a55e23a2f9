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
