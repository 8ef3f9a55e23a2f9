"""Every table and figure, at its own size and on its own data, gets as far as its first training."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramet.data import data_folder
from ramet.execution import Executor
from ramet_papers import TARGETS, Workspace

RESULTS = Path(__file__).parents[2] / "results"


class Begun(BaseException):
    """Something was to be trained."""


class Refusing(Executor):
    """Ends with what it is asked to do first."""

    def _stream(self, tasks: Any, context: Any, on_pulse: Any) -> Iterator[Any]:
        if tasks:
            raise Begun
        yield from ()


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_begins(target: str, tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "truth", tmp_path / "results" / "truth")
    folders = {"runs": tmp_path / "runs", "results": tmp_path / "results", "data_dir": data_folder(None)}
    with pytest.raises(Begun):
        TARGETS[target].run(Workspace(**folders, executor=Refusing()), "small")
