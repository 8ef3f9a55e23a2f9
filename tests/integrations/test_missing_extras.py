"""A library that is not installed is named, with the extra that installs it."""

from __future__ import annotations

import importlib
import sys

import pytest

from ramet.errors import MissingExtraError


@pytest.mark.parametrize(
    ("part", "libraries", "extra"),
    [
        ("transformers", ["transformers"], "trainer"),
        ("lightning", ["lightning", "lightning.pytorch", "pytorch_lightning"], "lightning"),
        ("accelerate", ["accelerate"], "accelerate"),
    ],
)
def test_what_to_install_is_said(part, libraries, extra, monkeypatch):
    for library in libraries:
        monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"ramet.integrations.{part}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"{part} is needed .* pip install 'ramet\[{extra}\]'"):
        importlib.import_module(f"ramet.integrations.{part}")
