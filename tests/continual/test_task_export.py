"""The network of one task where ramet is not: every method's module, as it is and as a file, in another process."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from functools import partial

import pytest
import torch
from safetensors.torch import load_file, save_file

from ramet.continual import METHODS, JointNetwork, make_method
from ramet.errors import ConfigError
from ramet.testing.methods import learn_next, make_skeletons, make_stream, started

OPTIONS = {"firefly": {"goal": 1.0, "neurons": 4, "candidates": 3, "rounds": 1}, "bind-and-grow": {"adapt": 0.9}}
SCRIPT = """
import sys
from pathlib import Path
import torch
from safetensors.torch import load_file, save_file
sys.modules["ramet"] = None  # importing it now fails
folder = Path(sys.argv[1])
x, outputs = load_file(folder / "x.safetensors")["x"], {}
for path in sorted(folder.glob("*.pt2")):
    outputs[f"{path.stem} file"] = torch.export.load(path).module()(x).detach()
for path in sorted(folder.glob("*.module")):
    module = torch.load(path, weights_only=False)  # our own, made a moment ago
    assert not any(part.training for part in module.modules())
    outputs[f"{path.stem} module"] = module.double()(x.double()).detach()
save_file(outputs, folder / "outputs.safetensors")
"""


QUICK = ["individual", "firefly", "bind-and-grow"]


@pytest.mark.parametrize(
    "names",
    [QUICK, pytest.param([name for name in METHODS if name not in QUICK], marks=pytest.mark.slow)],
    ids=["quick", "rest"],
)
def test_every_method_exports_what_torch_alone_runs(tmp_path, names):
    stream = make_stream(size=3)
    x = stream[0].dataset.test.x[:5].clone()
    save_file({"x": x}, tmp_path / "x.safetensors")
    expected = {}
    skeleton = make_skeletons()["convolution with batch norm"]
    for name in names:
        method = started(partial(make_method, name, **OPTIONS.get(name, {})), skeleton)
        learn_next(method, stream)
        learn_next(method, stream)
        net = JointNetwork(method)
        module = net.task("task 1")
        assert module(x).shape == (5, 3)  # the second task's classes
        torch.save(module, tmp_path / f"{name}.module")
        expected[name] = copy.deepcopy(module).double()(x.double()).detach()
        net.export("task 1", tmp_path / f"{name}.pt2")
    with pytest.raises(ConfigError, match="must be one that was learned"):
        net.export("unknown", tmp_path / "none.pt2")
    (tmp_path / "run.py").write_text(SCRIPT)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "run.py"), str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = load_file(tmp_path / "outputs.safetensors")
    assert len(outputs) == 2 * len(names)
    for name, values in expected.items():
        # Another process may lay tensors out otherwise and add in another order: at most a thousand terms a layer, four
        # layers, so 4e3 roundings of 1e-16 there and of 6e-8 here, against the largest output.
        scale = values.abs().max()
        assert (outputs[f"{name} module"] - values).abs().max() <= 1e-12 * scale, name
        assert (outputs[f"{name} file"].double() - values).abs().max() <= 1e-3 * scale, name
