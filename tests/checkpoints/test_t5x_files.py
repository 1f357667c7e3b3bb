"""T5X's folders: what TensorStore and Flax wrote is read, and what would be dangerous is not."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xtr_tf.checkpoints.t5x import read_msgpack_arrays, read_t5x
from xtr_tf.errors import InputError

KERNEL = "target/encoder/layers_0/attention/query/kernel"


@pytest.fixture
def t5x(golden: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden.path("t5x_t5"), tmp_path / "checkpoint_1000"))


def test_partitioned_and_embedded_tensors_are_listed_together(t5x: Path) -> None:
    tensors = read_t5x(t5x)
    assert tensors[KERNEL].shape == (16, 24)
    assert tensors["target/encoder/encoder_norm/scale"].shape == (16,)
    assert tensors["state/step"].dtype == "int32"
    assert tensors["state/step"].read() == 1000


def test_bfloat16_is_read_under_both_of_its_names(t5x: Path) -> None:
    tensors = read_t5x(t5x)
    for layer, stored in ((0, "bfloat16"), (1, "<u2")):
        name = f"target/encoder/layers_{layer}/mlp/wo/kernel"
        assert json.loads((t5x / name.replace("/", ".") / ".zarray").read_text())["dtype"] == stored
        assert tensors[name].dtype == "bfloat16"
        values = tensors[name].read().astype(np.float32)
        assert 0.05 < values.std() < 0.5


def test_a_missing_chunk_is_not_read_as_zeros(t5x: Path) -> None:
    (t5x / "target.token_embedder.embedding" / "1.0").unlink()
    with pytest.raises(InputError, match="2 of 3"):
        read_t5x(t5x)["target/token_embedder/embedding"].read()


def test_a_damaged_chunk_is_refused(t5x: Path) -> None:
    (t5x / KERNEL.replace("/", ".") / "0.0").write_bytes(b"\x1f\x8b")
    with pytest.raises(InputError, match="truncated or damaged"):
        read_t5x(t5x)[KERNEL].read()


@pytest.mark.parametrize(
    "change",
    [
        {"filters": [{"id": "pickle"}], "dtype": "|O"},
        {"filters": [{"id": "pickle"}]},
        {"compressor": {"id": "pickle"}},
        {"dtype": "|O"},
        {"dtype": ">f4"},
    ],
)
def test_an_array_that_zarr_would_unpickle_is_never_read(t5x: Path, change: dict[str, Any]) -> None:
    folder = t5x / KERNEL.replace("/", ".")
    description = json.loads((folder / ".zarray").read_text()) | change
    (folder / ".zarray").write_text(json.dumps(description))
    (folder / "0.0").write_bytes(pickle.dumps([1]))
    tensor = read_t5x(t5x)[KERNEL]
    assert "behind" in tensor.dtype
    with pytest.raises(RuntimeError, match="unsupported"):
        tensor.read()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"shape": [1], "dtype": "<f4", "compressor": 3}'])
def test_a_damaged_description_is_refused(t5x: Path, content: str) -> None:
    (t5x / KERNEL.replace("/", ".") / ".zarray").write_text(content)
    with pytest.raises(InputError, match=r"`\.zarray` must be JSON"):
        read_t5x(t5x)


def array(shape: list[int], dtype: str, values: bytes) -> bytes:
    """An array as Flax packs it."""
    inner = (
        b"\x93" + bytes([0x90 | len(shape), *shape]) + text(dtype) + b"\xc4" + bytes([len(values)]) + values
    )
    return b"\xc8" + struct.pack(">H", len(inner)) + b"\x01" + inner


def text(string: str) -> bytes:
    return bytes([0xA0 | len(string)]) + string.encode()


def read(tmp_path: Path, content: bytes) -> dict[str, Any]:
    (tmp_path / "checkpoint").write_bytes(content)
    return {name: tensor.read() for name, tensor in read_msgpack_arrays(tmp_path / "checkpoint").items()}


@pytest.mark.parametrize(
    "neighbour",
    [
        b"\xc0",
        b"\xc2",
        b"\x7f",
        b"\xff",
        b"\xca" + bytes(4),
        b"\xcb" + bytes(8),
        b"\xcc\x01",
        b"\xcd\x00\x01",
        b"\xce" + bytes(4),
        b"\xcf" + bytes(8),
        b"\xd0\x01",
        b"\xd1" + bytes(2),
        b"\xd2" + bytes(4),
        b"\xd3" + bytes(8),
        b"\xa1a",
        b"\xd9\x01a",
        b"\xda\x00\x01a",
        b"\xdb\x00\x00\x00\x01a",
        b"\xc4\x01a",
        b"\xc5\x00\x01a",
        b"\xc6\x00\x00\x00\x01a",
        b"\x92\x01\x02",
        b"\xdc\x00\x01\x01",
        b"\xdd\x00\x00\x00\x01\x01",
        b"\x81\xa1k\x01",
        b"\xde\x00\x01\xa1k\x01",
        b"\xdf\x00\x00\x00\x01\xa1k\x01",
        b"\xd4\x05a",
        b"\xd8\x05" + bytes(16),
        b"\xc7\x03\x05abc",
        b"\xc9\x00\x00\x00\x03\x05abc",
    ],
)
def test_every_kind_of_value_is_passed_over(tmp_path: Path, neighbour: bytes) -> None:
    values = np.arange(3, dtype="<f4")
    content = b"\x82" + text("before") + neighbour + text("w") + array([3], "float32", values.tobytes())
    found = read(tmp_path, content)
    assert list(found) == ["w"]
    np.testing.assert_array_equal(found["w"], values)


def test_a_chunked_array_is_joined(tmp_path: Path) -> None:
    values = np.arange(6, dtype="<f4")
    chunks = [array([3], "float32", half.tobytes()) for half in (values[:3], values[3:])]
    tree = b"\x81" + text("w") + b"\x83" + text("__msgpack_chunked_array__") + b"\xc3"
    tree += text("shape") + b"\x82" + text("0") + b"\x02" + text("1") + b"\x03"
    tree += text("chunks") + b"\x82" + text("0") + chunks[0] + text("1") + chunks[1]
    np.testing.assert_array_equal(read(tmp_path, tree)["w"], values.reshape(2, 3))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xc1",
        b"\x81\x01\x01",
        b"\x91" * 100_000,
        b"\x81" + text("w") + array([4], "float32", bytes(12)),
        b"\x81" + text("w") + array([1], "object", bytes(8)),
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="truncated or damaged"):
        read(tmp_path, content)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_truncated_file_is_refused(golden: Any, tmp_path: Path, data: st.DataObject) -> None:
    content = (golden.path("t5x_t5") / "checkpoint").read_bytes()
    with pytest.raises(InputError, match="truncated or damaged"):
        read(tmp_path, content[: data.draw(st.integers(0, len(content) - 1))])
