"""Registries: names, files, objects, and the packages that others install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ramet.continual import make_method
from ramet.errors import ConfigError
from ramet.guards import GUARDS, Guard, NoGuard, OrthogonalProjection, WeightPlasticity, make_guard
from ramet.registry import KINDS, Registry, Spec, describe_source, registry_of

ROOT = Path(__file__).parents[2]
PACKAGE = """
from ramet.guards import NoGuard

class Slowing(NoGuard):
    \"\"\"Weights that a finished model uses move more slowly.

    Args:
        rate: the share of a step that such weights take.
    \"\"\"

    def __init__(self, rate: float = 0.1) -> None:
        self.rate = rate
"""
POINTS = "[ramet.guards]\nslowing = slow_guards:Slowing\nnone = slow_guards:Slowing\nbroken = slow_guards:Missing\n"


def test_nothing_heavy_is_imported_by_the_tables():
    tables = "; ".join(f"registry_of({kind!r}).names()" for kind in KINDS)
    code = f"import sys; from ramet.registry import registry_of; {tables}; print('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout.split() == ["False"], done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_has_one_line_and_so_has_every_option(kind):
    for entry in registry_of(kind).entries():
        assert entry.origin == "built-in"
        for line in (entry.summary, *(option.summary for option in entry.options)):
            assert line.strip() and "\n" not in line and not set("\\\\`") & set(line), (entry.name, line)
        assert entry.summary.endswith("."), entry.summary
        assert len(entry.summary) <= 120


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_read_back(kind):
    """What ``ramet list`` shows as a default can be written behind the name."""
    registry = registry_of(kind)
    for entry in registry.entries():
        for option in entry.options:
            if option.default is not None:
                assert registry.parse(f"{entry.name}:{option.name}={option.default}").options.keys() == {option.name}


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match=r"a kind is one of guard, .*but got 'dog'"):
        registry_of("dog")


def test_a_registry_is_a_collection_of_names():
    assert "plasticity" in GUARDS and "dog" not in GUARDS and 3 not in GUARDS
    assert list(GUARDS)[:2] == ["none", "plasticity"] and len(GUARDS) == len(list(GUARDS))
    assert GUARDS["none"] is NoGuard
    with pytest.raises(KeyError):
        GUARDS["dog"]


def test_a_part_is_made_from_words_a_spec_a_class_or_itself():
    made = GUARDS.make("plasticity:60")
    assert isinstance(made, WeightPlasticity) and type(made.strength) is float
    assert GUARDS.make(Spec("plasticity", (), {"eta": 0.5})).eta == 0.5
    assert type(GUARDS.make(NoGuard)) is NoGuard
    assert GUARDS.make(partial(WeightPlasticity, 7.0)).strength == 7.0
    assert GUARDS.make(made) is made


def test_context_goes_to_those_who_ask_for_it():
    assert GUARDS.make("plasticity", warmup_epochs=2, space="nobody asks").warmup_epochs == 2
    assert GUARDS.make("plasticity:warmup_epochs=4", warmup_epochs=2).warmup_epochs == 4
    assert type(GUARDS.make("none", warmup_epochs=2)) is NoGuard

    def with_all(**everything):
        guard = NoGuard()
        guard.everything = everything
        return guard

    assert GUARDS.make(with_all, warmup_epochs=2).everything == {"warmup_epochs": 2}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("dog", r"a guard is one of none, .* or FILE.py:Name, but got 'dog'"),
        ("plastisity", "did you mean plasticity?"),
        ("dog:cat", "a guard is one of"),
        ("plasticity:colour=3", r"options of plasticity are strength, form, .* but got colour"),
        ("none:3", "guard none takes no values without a key, but got 'none:3'"),
        ("plasticity:strong", "strength of plasticity must be a number, but got 'strong'"),
        ("math:gcd", "math:gcd must make a Guard, but made int"),
        ("math:pi", "made by a class or a function, but math:pi is 3.14"),
        (dict, "builtins:dict must make a Guard, but made dict"),
        (7, "a guard is a text, a Guard or what makes one, but got int"),
    ],
)
def test_what_makes_no_guard_is_refused_in_one_line(source, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        GUARDS.make(source)
    assert "\n" not in str(refusal.value)


def test_code_needs_trust_and_names_do_not():
    with pytest.raises(ConfigError, match="would run 'subprocess:getoutput'"):
        GUARDS.make("subprocess:getoutput:true", trusted=False)
    assert GUARDS.make("plasticity", trusted=False)


def test_files_bring_classes_functions_and_parts(tmp_path):
    (tmp_path / "three_guards.py").write_text(
        "from ramet.guards import Guard, NoGuard\nclass Own(NoGuard): pass\n"
        "def make(number: int = 1) -> Guard:\n    guard = Own()\n    guard.number = number\n    return guard\n"
        "made = make(3)"
    )
    file = tmp_path / "three_guards.py"
    assert type(GUARDS.make(f"{file}:Own")).__name__ == "Own"
    assert GUARDS.make(f"{file}:make:number=2").number == 2
    assert GUARDS.make(f"{file}:made").number == 3
    assert GUARDS.entry(f"{file}:make").options[0].default == "1"


def test_installed_packages_bring_parts(tmp_path):
    """A small distribution on the path: its guard is made, listed with its origin, and never replaces a built-in."""
    (tmp_path / "slow_guards.py").write_text(PACKAGE)
    about = tmp_path / "slow_guards-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-guards\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(POINTS)
    code = """
from ramet.errors import ConfigError
from ramet.guards import GUARDS, make_guard
assert GUARDS.names()[-2:] == ("broken", "slowing"), GUARDS.names()
assert make_guard("slowing:0.5", trusted=False).rate == 0.5
assert type(make_guard("none")).__name__ == "NoGuard"
entry = GUARDS.entry("slowing")
assert entry.origin == "slow-guards 1.2" and entry.summary.startswith("Weights that"), entry
assert [(option.name, option.default) for option in entry.options] == [("rate", "0.1")]
try:
    GUARDS.make("broken")
except ConfigError as error:
    assert "slow-guards 1.2 must bring slow_guards:Missing" in str(error), error
else:
    raise AssertionError
print("done")
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout.split() == ["done"], done.stderr


def test_two_packages_with_one_name_are_refused(tmp_path):
    for number in (1, 2):
        about = tmp_path / f"guards{number}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: guards{number}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[ramet.guards]\ntwin = guards{number}:Guard\n")
    code = f"""
import sys; sys.path.append({str(tmp_path)!r})
from ramet.guards import GUARDS
try:
    GUARDS.make("twin")
except ValueError as error:
    print(error)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
    assert "twin comes from guards1 1.0 and guards2 1.0" in done.stdout, done.stderr


def test_objects_say_what_they_are():
    assert describe_source("plasticity:60") == "plasticity:60"
    guard = describe_source(WeightPlasticity(3.0, eta=0.5))
    assert guard["class"] == "ramet.guards.plasticity:WeightPlasticity"
    assert guard["arguments"]["strength"] == 3.0 and guard["arguments"]["eta"] == 0.5
    assert guard["arguments"]["towards"] == "last" and guard["arguments"]["unit"] == "fisher"
    projection = describe_source(OrthogonalProjection(0.5, unit="hold", freeze_uncovered=True))["arguments"]
    assert projection["unit"] == "hold" and projection["freeze_uncovered"] is True
    assert describe_source(partial(WeightPlasticity, 3.0)) == {
        "class": "ramet.guards.plasticity:WeightPlasticity",
        "arguments": {"0": 3.0},
    }
    assert describe_source(NoGuard()) == {"class": "ramet.guards.chaining:NoGuard"}


def test_a_guard_that_is_given_is_copied():
    """Each set of weights needs a guard of its own."""
    guard = WeightPlasticity(3.0)
    made = make_guard(guard)
    assert made is not guard and made.strength == 3.0
    assert isinstance(make_guard(WeightPlasticity, warmup_epochs=2), Guard)


def test_a_registry_of_ones_own(tmp_path):
    registry: Registry[Guard] = Registry("guard", base="ramet.guards.base:Guard", group="mine", built_in={})
    with pytest.raises(ConfigError, match="a guard is one of"):
        registry.make("none")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("packnet:foo=1", "options of packnet are prune, retrain, but got foo."),
        ("packnet:1", "method packnet takes no values without a key, but got 'packnet:1'; its options are prune, ret"),
        ("packnet:prune=x", "prune of packnet must be a number, but got 'x'."),
        ("bind-and-grow:bindings=b", "bindings of bind-and-grow must be pairs such as {\"key\":value}, but got 'b'."),
        ("bind-and-grow:delta=x", "delta of bind-and-grow must be a number or pairs such as"),
        ("bind-and-grow:num_samples=3.5", "num_samples of bind-and-grow must be a whole number, but got 3.5."),
    ],
)
def test_values_that_a_part_cannot_take_are_refused_in_words(text, said):
    """Before anything is trained, and without the name of a constructor."""
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        make_method(text)
    assert "__init__" not in str(refused.value)


def test_values_that_a_part_takes_pass():
    assert make_method('bind-and-grow:bindings={"b":"a"},delta={"a":0.5,"":1}').bindings == {"b": "a"}
    assert make_method("packnet", prune=np.float32(0.5)).prune == np.float32(0.5)
