"""Our reader and our streaming writer against the safetensors package."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from xtr_tf.checkpoints import safetensors as safetensors_writer
from xtr_tf.checkpoints.opening import read_shards
from xtr_tf.checkpoints.safetensors import SafetensorsWriter, read_safetensors, row_blocks
from xtr_tf.errors import InputError

SHAPES = st.lists(st.integers(0, 7), max_size=3).map(tuple)


def random_tensors(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=st.dictionaries(st.text(min_size=1, max_size=9), SHAPES, max_size=5))
def test_the_package_reads_what_we_stream(tmp_path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    shapes.pop("__metadata__", None)
    tensors = random_tensors(shapes)
    file = tmp_path / "x.safetensors"
    with SafetensorsWriter(file, shapes, {"format": "pt"}) as writer:
        for name, tensor in tensors.items():
            writer.write(name, row_blocks(tensor))
    loaded = load_file(file)
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(loaded[name], tensor)
        np.testing.assert_array_equal(read_safetensors(file)[name].read(), tensor)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_we_read_what_the_package_writes(tmp_path: Path, dtype: str) -> None:
    values = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    save_file({"first": np.zeros(3, np.uint8), "values": values}, tmp_path / "x.safetensors")
    tensor = read_safetensors(tmp_path / "x.safetensors")["values"]
    assert (tensor.shape, tensor.dtype) == ((3, 4), dtype)
    np.testing.assert_array_equal(tensor.read(), values)


@pytest.mark.parametrize("rows", [None, np.array([4, 0, 4, 2])])
@pytest.mark.parametrize("transposed", [False, True])
def test_blocks_join_to_the_whole(
    monkeypatch: pytest.MonkeyPatch, rows: np.ndarray | None, transposed: bool
) -> None:
    monkeypatch.setattr(safetensors_writer, "_BLOCK_BYTES", 24)
    array = np.arange(30.0).reshape(5, 6)
    array = array.T if transposed else array
    blocks = list(row_blocks(array, rows))
    assert len(blocks) > 1
    np.testing.assert_array_equal(np.concatenate(blocks), array if rows is None else array[rows])


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    shapes = {"a": (3, 2), "b": (4,)}
    with SafetensorsWriter(tmp_path / "x", shapes, progress=lambda *step: seen.append(step)) as writer:
        for name, tensor in random_tensors(shapes).items():
            writer.write(name, row_blocks(tensor))
    assert seen == [(24, 40), (40, 40)]


def test_the_writer_refuses_what_its_header_does_not_say(tmp_path: Path) -> None:
    with SafetensorsWriter(tmp_path / "x", {"a": (2,), "b": (2,)}) as writer:
        with pytest.raises(RuntimeError, match="order"):
            writer.write("b", [np.zeros(2)])
        with pytest.raises(RuntimeError, match="8 bytes"):
            writer.write("a", [np.zeros(3)])
        writer.write("b", [np.zeros(2)])
    with pytest.raises(RuntimeError, match="never written"), SafetensorsWriter(tmp_path / "y", {"a": (2,)}):
        pass


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path: Path, data: st.DataObject) -> None:
    whole = tmp_path / "whole.safetensors"
    save_file({"a": np.ones((3, 3), np.float32)}, whole)
    length = data.draw(st.integers(0, whole.stat().st_size - 1))
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(whole.read_bytes()[:length])
    with pytest.raises(InputError, match=r"truncated or damaged.*Received: '.*damaged\.safetensors'\.$"):
        read_safetensors(damaged)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing"):
        read_safetensors(tmp_path / "absent.safetensors")


def write_shards(folder: Path, weight_map: str) -> Path:
    save_file({"a": np.ones(1, np.float32)}, folder / "1.safetensors")
    save_file({"b": np.ones(2, np.float32)}, folder / "2.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(weight_map)
    return index


def test_shards_are_joined(tmp_path: Path) -> None:
    index = write_shards(tmp_path, '{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}')
    assert {name: tensor.shape for name, tensor in read_shards(index, read_safetensors).items()} == {
        "a": (1,),
        "b": (2,),
    }


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        ("{", "JSON with a `weight_map`"),
        ("[]", "JSON with a `weight_map`"),
        ('{"weight_map": 3}', "JSON with a `weight_map`"),
        ('{"weight_map": {"a": "3.safetensors"}}', "next to the index.*3.safetensors"),
        ('{"weight_map": {"a": "../1.safetensors"}}', "next to the index.*1.safetensors"),
        ('{"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}}', "in no shard.*'c'"),
    ],
)
def test_a_bad_index_is_refused(tmp_path: Path, index: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_shards(write_shards(tmp_path, index), read_safetensors)
