"""Records: exact round trips through strict JSON, repetition, torn and damaged lines, full disks."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from exactness import bits
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.errors import RunError
from ramet.runs import Run, read_records
from ramet.runs.encoding import decode, encode, plain
from ramet.runs.records import Records

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "run", "rank", {"seed": 1}) as run:
        yield run


# --- encoding ---------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=50)
@given(VALUES)
def test_json_comes_back_bit_for_bit(value):
    assert bits(decode(encode([value]))) == bits([value])


def test_the_text_is_strict_json():
    text = encode({"a": [math.nan, math.inf, -math.inf], "b": (1, 2)})
    assert json.loads(text, parse_constant=pytest.fail) == {
        "a": [{"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}],
        "b": [1, 2],
    }


@pytest.mark.parametrize("value", [{1: 2}, {"a": {3}}, object(), {"$float": "nan"}, b"bytes"])
def test_what_is_not_json_is_refused(value):
    with pytest.raises(TypeError):
        plain(value)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", ""])
def test_what_is_not_strict_json_is_not_read(text):
    with pytest.raises(ValueError):
        decode(text)


# --- records ----------------------------------------------------------------------------------------------------------


def test_records_are_read_back_in_order_with_every_bit(tmp_path):
    values = [0.1, 1 / 3, 5e-324, -0.0, 1e308, math.nan, -math.inf, 3, True, None, "text\n\u2028"]
    records = Records(tmp_path / "records.jsonl")
    for index, value in enumerate(values):
        assert records.append(f"event/{index}", value=value)
    records.close()
    again = Records(tmp_path / "records.jsonl")
    assert [record["key"] for record in again] == [f"event/{index}" for index in range(len(values))]
    assert bits([record["value"] for record in again]) == bits(values)
    assert "event/3" in again and "event/99" not in again and len(again) == len(values)
    assert bits([record["value"] for record in read_records(tmp_path)]) == bits(values)


def test_the_same_record_is_written_once(run):
    assert run.records.append("epoch/1", loss=math.nan, scores=(1, 2))
    assert not run.records.append("epoch/1", scores=[1, 2], loss=math.nan)
    assert len(read_records(run.path)) == 1


@pytest.mark.parametrize(
    "fields", [{"loss": 0.30000000000000004}, {"loss": 0.3, "more": 1}, {}, {"loss": None}, {"loss": math.nan}]
)
def test_another_record_under_the_same_key_is_refused(run, fields):
    run.records.append("epoch/1", loss=0.3)
    with pytest.raises(RunError, match=r"epoch/1.*0\.3|epoch/1.*absent"):
        run.records.append("epoch/1", **fields)
    assert len(read_records(run.path)) == 1


def test_an_integer_is_not_the_float_of_the_same_value(run):
    run.records.append("a", value=1)
    for other in (1.0, True):
        with pytest.raises(RunError):
            run.records.append("a", value=other)


def test_every_torn_last_line_is_cut_off(tmp_path):
    path = tmp_path / "records.jsonl"
    records = Records(path)
    records.append("a", value=1)
    first = path.read_bytes()
    records.append("b", value="x" * 10)
    records.close()
    whole = path.read_bytes()
    for length in range(len(first), len(whole)):
        path.write_bytes(whole[:length])
        assert [record["key"] for record in read_records(tmp_path)] == ["a"]
        records = Records(path)
        assert [record["key"] for record in records] == ["a"]
        assert path.read_bytes() == first
        records.append("b", value="x" * 10)
        records.close()
        assert path.read_bytes() == whole


@pytest.mark.parametrize("line", [b"{", b"", b"[]", b'{"value":1}', b'{"key":1}', b'{"key":"b","x":NaN}', b"\xff\xfe"])
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "records.jsonl"
    content = b'{"key":"a"}\n' + line + b'\n{"key":"c"}\n'
    path.write_bytes(content)
    for read in (lambda: Records(path, checked=False), lambda: read_records(tmp_path)):
        with pytest.raises(RunError, match="line 2 is damaged"):
            read()
    assert path.read_bytes() == content


def test_a_repeated_key_is_named(tmp_path):
    (tmp_path / "records.jsonl").write_bytes(b'{"key":"a"}\n{"key":"a"}\n')
    with pytest.raises(RunError, match="line 2 repeats 'a'"):
        read_records(tmp_path)


def test_every_flipped_bit_is_found(run):
    """Only the end of the last line may be lost, which makes it a torn one."""
    run.records.append("epoch/1", loss=0.5, name="a b")
    run.records.append("epoch/2", loss=[0.25, None])
    path = run.path / "records.jsonl"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        if bit // 8 == len(whole) - 1:
            assert [record["key"] for record in read_records(run.path)] == ["epoch/1"]
            continue
        with pytest.raises(RunError, match=r"line [12] is damaged"):
            read_records(run.path)


def test_a_line_is_one_json_object_with_its_checksum(run):
    run.records.append("epoch/1", loss=0.5)
    line = json.loads((run.path / "records.jsonl").read_text())
    digest = hashlib.sha256(b'{"key":"epoch/1","loss":0.5}').hexdigest()[:16]
    assert line == {"key": "epoch/1", "loss": 0.5, "$sha256": digest}
    assert read_records(run.path) == [{"key": "epoch/1", "loss": 0.5}]
    with pytest.raises(TypeError, match=r"must not be called '\$sha256'"):
        run.records.append("epoch/2", **{"$sha256": 1})


def test_a_run_from_before_there_were_checksums_is_read_and_goes_on(run):
    run.close()
    document = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps({**document, "format": 1}))
    (run.path / "records.jsonl").write_text('{"key":"a","value":1}\n')
    with Run.open(run.path) as old:
        assert not old.records.append("a", value=1) and old.records.append("b", value=2)
    assert (run.path / "records.jsonl").read_text() == '{"key":"a","value":1}\n{"key":"b","value":2}\n'
    assert [record["value"] for record in read_records(run.path)] == [1, 2]


def test_a_line_without_a_checksum_is_refused_in_a_run_that_has_them(run):
    run.records.append("a", value=1)
    with open(run.path / "records.jsonl", "a") as file:
        file.write('{"key":"b","value":2}\n')
    with pytest.raises(RunError, match="line 2 is damaged"):
        read_records(run.path)


def test_a_full_disk_leaves_the_records_as_they_were(run, monkeypatch):
    """Half a line goes through, then the disk is full: the half is taken back."""
    run.records.append("a", value=1)
    before = (run.path / "records.jsonl").read_bytes()
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(RunError, match=r"^cannot write .*records\.jsonl: No space left on device\.$"):
            run.records.append("b", value=2)
    assert (run.path / "records.jsonl").read_bytes() == before
    assert run.records.append("b", value=2)


@contextlib.contextmanager
def file_size_limit(num_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_limit_of_the_kernel_leaves_the_records_as_they_were(run):
    run.records.append("a", value=1)
    before = (run.path / "records.jsonl").read_bytes()
    with file_size_limit(len(before) + 10), pytest.raises(RunError, match=r"^cannot write .*: File too large\.$"):
        run.records.append("b", value="x" * 100)
    assert (run.path / "records.jsonl").read_bytes() == before
    assert run.records.append("b", value="x" * 100)
