"""Values of options that are of another kind, and code of one's own that ends the program, are one line."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from ramet.continual import make_method
from ramet.continual.networks.skeletons import make_skeleton
from ramet.data import load
from ramet.errors import ConfigError
from ramet.growth import make_network
from ramet.guards import GUARDS
from ramet.registry import resolve_reference
from ramet.registry.values import suited
from ramet.spaces import make_space
from ramet.training.registry import LOSSES


def taking(kind: object) -> inspect.Parameter:
    return inspect.Parameter("value", inspect.Parameter.KEYWORD_ONLY, annotation=kind)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", 1.0, 1),
        ("int", 7, 7),
        (int, 1.0, 1),
        (int | None, 1.0, 1),
        ("int | None", None, None),
        ("float", 3, 3.0),
        ("float | None", 3, 3.0),
        ("float | dict[str, float]", {"a": 0.5}, {"a": 0.5}),
        ("float", 1e300, 1e300),
        ("float", np.float32(0.5), np.float32(0.5)),
        ("int", np.int64(7), np.int64(7)),
        ("int | float", 1.0, 1.0),
        ("int | float", 1, 1),
        ("bool", True, True),
        ("bool | int", True, True),
        ("str", "3", "3"),
        ("dict[str, list[int]]", {"a": [1]}, {"a": [1]}),
        ("Sizes", [1, 2], [1, 2]),  # what is no plain type is the part's own to check
        ("Sequence[str] | None", "x", "x"),
        (inspect.Parameter.empty, "x", "x"),
    ],
)
def test_a_value_is_made_what_its_parameter_wants(kind: object, value: object, expected: object) -> None:
    made = suited(value, taking(kind), "it")
    assert made == expected and type(made) is type(expected)
    assert suited(value, None, "it") is value


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("int", 1.5, "a whole number"),
        ("int", True, "a whole number"),
        ("int", "x", "a whole number"),
        ("int", [1, 2], "a whole number"),
        ("int", float("inf"), "a whole number"),
        ("int", float("nan"), "a whole number"),
        ("int | str", 1.5, "a whole number or a text"),
        ("int | None", "x", "a whole number or none"),
        ("float", "x", "a number"),
        ("float", True, "a number"),
        ("float", None, "a number"),
        ("bool", 1, "true or false"),
        ("bool", "yes", "true or false"),
        ("str", 3, "a text"),
        ("dict[str, str]", "b", 'pairs such as {"key":value}'),
        (dict, "b", 'pairs such as {"key":value}'),
    ],
)
def test_a_value_of_another_kind_is_refused(kind: object, value: object, wanted: str) -> None:
    with pytest.raises(ConfigError, match=f"^value of it must be {re.escape(wanted)}, but got"):
        suited(value, taking(kind), "it")


@pytest.mark.parametrize("value", [10**30, -(10**30), 2**63, 1e300])
def test_a_whole_number_fits_into_64_bits(value: float) -> None:
    with pytest.raises(ConfigError, match="value of it must fit into 64 bits, but got a number of"):
        suited(value, taking("int"), "it")


def test_options_of_parts() -> None:
    assert make_method("rcl:trials=1.0").trials == 1
    for text in ("rcl:trials=1.5", "rcl:trials=many", "rcl:trials=true"):
        with pytest.raises(ConfigError, match="trials of rcl must be a whole number"):
            make_method(text)
    with pytest.raises(ConfigError, match="strength of plasticity must be a number"):
        GUARDS.make("plasticity:much")
    with pytest.raises(ConfigError, match="smoothing of cross-entropy must be a number"):
        LOSSES.bind("cross-entropy:smoothing=much")
    with pytest.raises(ConfigError, match="num_cells must be a"):
        make_space("cells64:num_cells=1000000000000000000000000000000")
    with pytest.raises(ConfigError, match="num_cells must be at most 10,000"):
        make_space("cells64:num_cells=1000000")
    with pytest.raises(ConfigError, match="num_nodes must be at most 100"):
        make_space("cells64:num_nodes=99999")
    with pytest.raises(ConfigError, match="the depth of vgg must be at most 1,000"):
        make_network("vgg:depth=99999", in_channels=1, image_size=(8, 8), num_classes=2)


def test_each_of_any_number_of_values_is_made_what_it_should_be() -> None:
    """A parameter such as ``*widths`` stands for as many values as there are."""
    made = make_skeleton("mlp:5,6.0", in_channels=1, image_size=(4, 4))
    assert [layer.width for layer in made.layers] == [5, 6]
    with pytest.raises(ConfigError, match="widths of mlp must be a whole number, but got 'x'"):
        make_skeleton("mlp:5,x", in_channels=1, image_size=(4, 4))


@pytest.mark.parametrize("text", [".:x", "..:x", "a..b:x", "__main__:x", "\x00:x", ":x:y"])
def test_what_is_no_module_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        make_space(text)


def test_a_file_that_ends_the_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ends_at_once.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "ends_later.py").write_text(
        "import sys\ndef images():\n    sys.exit(3)\ndef Guard():\n    sys.exit(3)\n"
    )
    with pytest.raises(ConfigError, match="must run without an error, but: SystemExit: 3"):
        resolve_reference(f"{tmp_path}/ends_at_once.py:x", trusted=True)
    with pytest.raises(ConfigError, match="must run, but raises SystemExit: 3"):
        load(f"{tmp_path}/ends_later.py:images")
    with pytest.raises(ConfigError, match=r"guard .*:Guard must run, but raises SystemExit: 3"):
        GUARDS.make(f"{tmp_path}/ends_later.py:Guard")
