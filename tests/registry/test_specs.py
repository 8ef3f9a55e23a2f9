"""The one language in which parts are named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.errors import ConfigError
from ramet.registry import (
    Spec,
    parse_chain,
    parse_list,
    parse_options,
    parse_spec,
    quantity,
    split_chain,
    split_list,
)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("none", Spec("none")),
        ("plasticity:60", Spec("plasticity", (60,))),
        ("plasticity:1e+06", Spec("plasticity", (1e6,))),
        ("elastic:strength=100,form=implicit", Spec("elastic", (), {"strength": 100, "form": "implicit"})),
        ("elastic:100:form=implicit", Spec("elastic", (100,), {"form": "implicit"})),
        ("groups:8:similar", Spec("groups", (8, "similar"))),
        ("conv:16,32,", Spec("conv", (16, 32, ""))),
        ("enas-micro:cells-per-stage=1", Spec("enas-micro", (), {"cells_per_stage": 1})),
        ("mlp:width=[5,6],depth=2", Spec("mlp", (), {"width": [5, 6], "depth": 2})),
        (" firefly : split = false ", Spec("firefly", (), {"split": False})),
        ("a:x=True,y=None,z=null", Spec("a", (), {"x": True, "y": None, "z": None})),
        ('a:x="60",y="b,c:d+e"', Spec("a", (), {"x": "60", "y": "b,c:d+e"})),
        ("a:x=NaN", Spec("a", (), {"x": "NaN"})),
        ("a:say=it's", Spec("a", (), {"say": "it's"})),
        ("mine.py:Slowing", Spec("mine.py:Slowing")),
        ("/tmp/a:b/mine.py:Outer.Inner:rate=0.5", Spec("/tmp/a:b/mine.py:Outer.Inner", (), {"rate": 0.5})),
        ("package.module:Name:3", Spec("package.module:Name", (3,))),
    ],
)
def test_a_text_is_read(text, spec):
    assert parse_spec(text) == spec
    assert parse_spec(str(spec)) == spec


def test_names_tell_a_value_from_a_reference():
    assert parse_spec("groups:similar", names=["groups"]) == Spec("groups", ("similar",))
    assert parse_spec("subprocess:getoutput:ls", names=["groups"]) == Spec("subprocess:getoutput", ("ls",))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None)
@given(st.lists(plain, max_size=3), st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True), plain))
def test_the_canonical_text_reads_back(values, options):
    spec = Spec("name", tuple(values), options)
    assert parse_spec(str(spec)) == spec
    assert [parse_spec(str(spec))] * 2 == parse_chain(f"{spec}+{spec}")
    if not values:  # in a list, a comma before a value without a key would begin another spec
        assert [spec, Spec("other")] == parse_list(f"{spec},other")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("plasticity:60+projection", ["plasticity:60", "projection"]),
        ("plasticity:1e+06+projection", ["plasticity:1e+06", "projection"]),
        ("none+/tmp/c++/mine.py:Guard+none", ["none", "/tmp/c++/mine.py:Guard", "none"]),
        ('a:x="1+1"+b', ['a:x="1+1"', "b"]),
        ("stage1e+b", ["stage1e", "b"]),
    ],
)
def test_a_chain_is_split_at_its_joints(text, parts):
    assert split_chain(text) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("naive,elastic:strength=10,form=implicit,packnet", ["naive", "elastic:strength=10,form=implicit", "packnet"]),
        ("mlp:8,16, conv:3,3", ["mlp:8,16", "conv:3,3"]),
        ("/tmp/a=b/mine.py:Method:rate=2,x=1,naive", ["/tmp/a=b/mine.py:Method:rate=2,x=1", "naive"]),
        ("a:x=[1,2],b", ["a:x=[1,2]", "b"]),
    ],
)
def test_a_list_is_split_at_its_names(text, parts):
    assert split_list(text) == parts


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: parse_spec(""), "is named as NAME"),
        (lambda: parse_spec(":3"), "is named as NAME"),
        (lambda: parse_spec("a:x=1,x=2"), "x is there twice"),
        (lambda: parse_spec("a:x=1,2"), "come before those with one"),
        (lambda: parse_list(" , "), "at least one part"),
        (lambda: parse_options("params"), "options read key=value"),
        (lambda: quantity("3q"), "an amount reads like"),
        (lambda: quantity("k"), "an amount reads like"),
        (lambda: quantity(True), "an amount reads like"),
        (lambda: quantity(float("nan")), "an amount reads like"),
        (lambda: quantity("1e999"), "an amount reads like"),
    ],
)
def test_other_texts_are_refused(read, message):
    with pytest.raises(ConfigError, match=message):
        read()


def test_quantities_have_units():
    texts = ("64", "200k", "10M", "2g", "30%", "5 ms", "7us", "3s", "-1e2", ".5")
    assert [quantity(text) for text in texts] == [64, 2e5, 1e7, 2e9, 0.3, 0.005, 7e-6, 3, -100, 0.5]
    assert quantity(12) == 12
