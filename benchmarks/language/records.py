"""Figures of the language benchmark as JSON lines: an arm, a learning rate and a seed each, appended when done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Records:
    """What has been measured; a benchmark that was interrupted goes on with what is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.entries: list[Record] = [json.loads(line) for line in lines]

    def matching(self, **wanted: Any) -> list[Record]:
        """The records that have these values."""
        return [entry for entry in self.entries if all(entry.get(name) == value for name, value in wanted.items())]

    def once(self, measure: Callable[[], Record], **key: Any) -> Record:
        """The record of a key, measured if there is none."""
        if found := self.matching(**key):
            return found[0]
        record = {**key, **measure()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.entries.append(record)
        print({name: value for name, value in record.items() if not isinstance(value, list)}, flush=True)
        return record
