"""A report may be forwarded: no verb's page says where files lie on this machine."""

from __future__ import annotations

import numpy as np
import pytest
import strangers

from ramet.cli.main import main

SMALL = ["--train-size", "96", "--eval-size", "40", "--epochs", "1"]
COMMANDS = {
    "grow": [
        "--network",
        "{folder}/strange_network.py:tiny",
        "--data",
        "{folder}/own.npz",
        "--budget",
        "neurons=6,step=2",
    ],
    "learn": ["--network", "{folder}/strange_network.py:tiny", "--stream", "{folder}/own.json", "--method", "naive"],
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_no_folder_of_this_machine_is_in_a_report(verb, tmp_path, capsys):
    strangers.put("network", tmp_path)
    images, labels = np.random.default_rng(0).random((240, 1, 8, 8), dtype=np.float32), np.arange(240) % 4
    np.savez(tmp_path / "own.npz", x=images, y=labels)
    (tmp_path / "own.json").write_text('[{"name": "one", "data": "own.npz"}, {"name": "two", "data": "own.npz"}]')
    options = [option.format(folder=tmp_path) for option in COMMANDS[verb]]
    main([verb, *options, *SMALL, "--out", str(tmp_path / "run")])
    assert str(tmp_path) in (tmp_path / "run" / "config.json").read_text()
    page = (tmp_path / "run" / "report.html").read_text()
    assert str(tmp_path) not in page and "strange_network.py:tiny" in page
