"""No class has the name of another: a reader who greps for one finds one."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import ramet
import ramet_papers


def test_no_class_name_is_taken_twice():
    places = defaultdict(list)
    for package in (ramet, ramet_papers):
        root = Path(package.__file__).parent
        for path in root.rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(root.parent)))
    assert len(places) > 300, "the packages were read"
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
