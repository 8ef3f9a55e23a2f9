"""Files of tensors: as safetensors reads and writes them, damaged ones refused, nothing copied."""

from __future__ import annotations

import io
import json

import pytest
import safetensors.torch
import torch
from exactness import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.runs.tensor_file import _TYPES, TensorFile, read_tensors

ALL = {
    f"{name} {shape}": torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    for name, dtype in _TYPES.items()
    for shape in ((), (0,), (3,), (2, 3), (1, 0, 2))
}
KNOWN = {name: tensor for name, tensor in ALL.items() if name.split()[0] in safetensors.torch._TYPES}
"""Those whose types the installed version of safetensors has; older ones have fewer."""


def written(tensors: dict[str, torch.Tensor], **options: dict[str, str]) -> bytes:
    file = TensorFile.of(tensors, **options)
    data = b"".join(file.pieces())
    assert len(data) == file.num_bytes
    return data


def read(data: bytes) -> dict[str, torch.Tensor]:
    return read_tensors(io.BytesIO(data), len(data))


def test_safetensors_reads_what_is_written_and_the_other_way_round():
    theirs, ours = safetensors.torch.load(written(KNOWN)), read(safetensors.torch.save(KNOWN))
    assert theirs.keys() == ours.keys() == KNOWN.keys() and len(KNOWN) >= 80
    for name, tensor in KNOWN.items():
        assert same_bits(theirs[name], tensor) and same_bits(ours[name], tensor), name


def test_all_types_come_back():
    tensors = read(written(ALL))
    assert all(same_bits(tensors[name], tensor) for name, tensor in ALL.items())


def test_views_other_strides_and_metadata_are_written_as_they_look():
    base = torch.arange(24.0).reshape(2, 3, 4)
    views = {"part": base[1:, :, 2], "turned": base.transpose(0, 2), "same": base, 'a "name"\n é': base[0]}
    data = written(views, metadata={"kind": "test"})
    for name, tensor in safetensors.torch.load(data).items():
        assert torch.equal(tensor, views[name])
    assert json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"] == {"kind": "test"}
    assert all(torch.equal(tensor, views[name]) for name, tensor in read(data).items())


def test_large_tensors_are_not_copied_and_small_ones_are_put_together():
    large, small = torch.zeros(1 << 20), {f"small {number}": torch.ones(7) for number in range(1000)}
    pieces = list(TensorFile.of({"large": large, **small}).pieces())
    assert len(pieces) == 3
    large[5] = 1.0
    assert any(isinstance(piece, memoryview) and bytes(piece[20:24]) == b"\0\0\x80?" for piece in pieces)


def test_every_tensor_has_memory_of_its_own():
    tensors = read(written({"a": torch.ones(2), "b": torch.ones(3)}))
    assert tensors["a"].untyped_storage().nbytes() == 8
    tensors["a"].zero_()
    assert torch.equal(tensors["b"], torch.ones(3))


def test_all_that_is_read_is_noted_in_its_order():
    data, noted = written(ALL), bytearray()
    read_tensors(io.BytesIO(data), len(data), noted.extend)
    assert noted == data


class Slow(io.BytesIO):
    """Gives a byte a call."""

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        return super().readinto(buffer[:1])


def test_a_read_may_give_only_a_part():
    data = written({"a": torch.arange(5)})
    assert torch.equal(read_tensors(Slow(data), len(data))["a"], torch.arange(5))


def with_header(header: object, content: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


HEADERS = {
    "no object": [],
    "no tensor": {"a": 3},
    "a shape of terabytes": {"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}},
    "a shape without end": {"a": {"dtype": "F32", "shape": [1 << 61] * 40, "data_offsets": [0, 8]}},
    "a negative shape": {"a": {"dtype": "F32", "shape": [-2, -1], "data_offsets": [0, 8]}},
    "a number that is none": {"a": {"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]}},
    "a gap": {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}},
    "twice the same place": {name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in ("a", "b")},
    "too little": {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
    "an unknown type": {"a": {"dtype": "F7", "shape": [2], "data_offsets": [0, 8]}},
    "a type that is a list": {"a": {"dtype": [], "shape": [2], "data_offsets": [0, 8]}},
    "no place": {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}},
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_headers_that_lie_are_refused(header):
    with pytest.raises(ValueError):
        read(with_header(header, bytes(8)))


@pytest.mark.parametrize("length", [0, 17, 1 << 40, (1 << 64) - 1])
def test_a_header_of_a_length_that_it_cannot_have_is_refused(length):
    with pytest.raises(ValueError, match="its header"):
        read(length.to_bytes(8, "little") + bytes(16))


WHOLE = written({"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(3, dtype=torch.float16)})


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_edits_are_read_or_refused_with_one_kind_of_error(place, put, taken):
    edited = WHOLE[:place] + put + WHOLE[place + taken :]
    try:
        read(edited)
    except ValueError as error:
        assert "\n" not in str(error)


def test_a_type_that_the_format_does_not_have_is_refused():
    with pytest.raises(TypeError, match=r"'a' is torch\.complex128"):
        written({"a": torch.zeros(2, dtype=torch.complex128)})
