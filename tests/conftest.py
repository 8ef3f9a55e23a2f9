"""What all tests share."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import strangers
import torch

os.environ["RAMET_PROGRESS"] = "0"  # a line a minute would be one more line on a busy machine


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Each test draws the same numbers, whichever tests ran before it in the same process."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def forget_files_of_a_test() -> Iterator[None]:
    """What a test imported from a temporary file is forgotten after it: two tests may call their files the same."""
    before = set(sys.modules)
    yield
    temporary = os.path.realpath(tempfile.gettempdir()) + os.sep
    clone = os.path.realpath(Path(__file__).parents[1]) + os.sep  # may lie among temporary files itself
    for name in set(sys.modules) - before:
        file = os.path.realpath(getattr(sys.modules[name], "__file__", None) or "")
        if file.startswith(temporary) and not file.startswith(clone):
            del sys.modules[name]


@pytest.fixture(scope="session")
def find_program() -> Callable[[str], str]:
    """Finds a program from outside Python; where it is missing the test skips, or fails if RAMET_REQUIRE_PROGRAMS=1."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            reason = f"the program {name} is not installed"
            if os.environ.get("RAMET_REQUIRE_PROGRAMS") == "1":
                pytest.fail(f"{reason}, and RAMET_REQUIRE_PROGRAMS=1 demands it")
            pytest.skip(reason)
        return path

    return find


@pytest.fixture
def stranger(tmp_path: Path) -> Callable[[str], str]:
    """Puts a stranger's part of a kind into a file, and gives its reference."""
    return partial(strangers.put, folder=tmp_path)
