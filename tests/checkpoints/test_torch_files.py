"""PyTorch files: what torch wrote is read, and nothing in a pickle is ever executed."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import shutil
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from xtr_tf.checkpoints.torch_file import read_torch
from xtr_tf.checkpoints.torch_pickle import parse_pickle
from xtr_tf.errors import InputError

EXECUTED: list[str] = []


class Trap:
    """Unpickling it would call a function."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        function, *arguments = self.call
        return function, tuple(arguments)


@pytest.fixture(params=["torch_t5/2_Dense/pytorch_model.bin", "legacy_torch_mt5/2_Dense/pytorch_model.bin"])
def torch_file(request: pytest.FixtureRequest, golden: Any, tmp_path: Path) -> Path:
    """A file of `torch.save` in the new or in the old format."""
    return Path(shutil.copy(golden.path(request.param), tmp_path / "pytorch_model.bin"))


def test_values_are_those_that_torch_wrote(golden: Any) -> None:
    for name in ("released_xtr", "torch_t5", "legacy_torch_mt5"):
        tensors = read_torch(golden.path(name) / "2_Dense" / "pytorch_model.bin")
        assert list(tensors) == ["linear.weight"]
        assert tensors["linear.weight"].dtype == "float32"
        np.testing.assert_array_equal(tensors["linear.weight"].read(), golden.expected(name).projection)


def test_views_keep_their_strides(golden: Any) -> None:
    tensors = read_torch(golden.path("legacy_torch_mt5") / "pytorch_model.bin")
    transposed = tensors["encoder.block.1.layer.0.SelfAttention.o.weight"].read()
    assert transposed.shape == (16, 24)
    assert transposed.strides == (4, 64)


def test_a_shared_storage_is_read_under_each_name(golden: Any) -> None:
    tensors = read_torch(golden.path("torch_t5") / "pytorch_model.bin")
    np.testing.assert_array_equal(
        tensors["shared.weight"].read(), tensors["encoder.embed_tokens.weight"].read()
    )


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("trap", "named"),
    [
        (Trap(os.system, "true"), r"system"),
        (Trap(eval, "1"), r"builtin.*\.eval"),
        (Trap(getattr, "", "x"), r"builtin.*\.getattr"),
        (Trap(EXECUTED.append, "ran"), r"builtin.*\.getattr"),
        (np.float64(1), r"numpy.*scalar"),
        (Trap(Path, "x"), r"pathlib\..*Path"),
    ],
)
def test_a_malicious_pickle_is_refused_and_named(protocol: int, trap: Any, named: str) -> None:
    content = pickle.dumps(OrderedDict(weight=trap), protocol=protocol)
    with pytest.raises(InputError, match=rf"Received: a pickle that imports .*{named}"):
        parse_pickle(io.BytesIO(content))
    assert EXECUTED == []


@pytest.mark.parametrize(
    ("content", "opcode"),
    [
        (b"cos\nsystem\n", "os.system"),
        (b"(S'true'\nios\nsystem\n.", "STRING"),
        (b"(ios\nsystem\n.", "INST"),
        (b"(cos\nsystem\no.", "os.system"),
        (b"\x82\x01.", "EXT1"),
        (b"Pid\n.", "PERSID"),
        (b"\x80\x02c__builtin__\ndict\n)\x81.", "__builtin__.dict"),
        (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "NEWOBJ"),
        (b"\x80\x05\x8c\x0bcollections\x8c\x14OrderedDict.fromkeys\x93.", "OrderedDict.fromkeys"),
        (b"\x80\x02ctorch\nload\n.", "torch.load"),
    ],
)
def test_every_other_way_to_a_callable_is_refused(content: bytes, opcode: str) -> None:
    with pytest.raises(InputError, match=opcode):
        parse_pickle(io.BytesIO(content))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"\x80\x02K\x01K\x02.",
        b"\x80\x02t.",
        b"\x80\x02\x85.",
        b"\x80\x02h\x05.",
        b"\x80\x02}K\x01K\x02s.",
        b"\x80\x02](K\x01u.",
        b"\x80\x02)R.",
        b"\x80\x02ctorch\nFloatStorage\n)R.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
        b"\x80\x02)Q.",
        b"\x80\x02X\xff\xff\xff\xff.",
        b"\x80\x02" + b"(" * 1000 + b"t" * 1001 + b".",
        b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"K\x01s.",  # a key nested too deep to hash
    ],
)
def test_a_broken_pickle_is_refused(content: bytes) -> None:
    with pytest.raises(InputError):
        parse_pickle(io.BytesIO(content))


SIMPLE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)


@given(value=SIMPLE, protocol=st.sampled_from([2, 3, 4, 5]))
def test_plain_data_is_understood_as_pickle_understands_it(value: Any, protocol: int) -> None:
    content = pickle.dumps(value, protocol=protocol)
    if b"\x8a" not in content and b"\x8b" not in content:
        assert parse_pickle(io.BytesIO(content)) == pickle.loads(content)


OBJECTS = st.one_of(
    st.builds(complex, st.integers(0, 9), st.integers(0, 9)),
    st.sets(st.integers(), min_size=1),
    st.frozensets(st.integers()),
    st.binary(min_size=1),
    st.sampled_from([int, print, os.system, Trap, Trap(EXECUTED.append, "ran"), Path("x"), range(3)]),
    st.decimals(allow_nan=False),
    st.datetimes(),
)


@given(value=OBJECTS, wrap=st.sampled_from([list, tuple]), protocol=st.sampled_from([0, 1, 2, 3, 4, 5]))
def test_anything_else_is_refused(value: Any, wrap: Any, protocol: int) -> None:
    content = pickle.dumps(OrderedDict(x=wrap([value])), protocol=protocol)
    with pytest.raises(InputError, match=r"imports|opcode"):
        parse_pickle(io.BytesIO(content))
    assert EXECUTED == []


@settings(max_examples=300)
@given(content=st.binary(max_size=200))
@example(pickle.dumps(Trap(EXECUTED.append, "ran")))
def test_random_bytes_never_do_more_than_raise(content: bytes) -> None:
    with contextlib.suppress(InputError):
        parse_pickle(io.BytesIO(b"\x80\x02" + content))
    assert EXECUTED == []


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(torch_file: Path, data: st.DataObject) -> None:
    content = bytearray(torch_file.read_bytes())
    interesting = st.integers(0, min(len(content), 700) - 1) | st.integers(0, len(content) - 1)
    for position in data.draw(st.lists(interesting, max_size=4)):
        content[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.just(len(content)) | st.integers(0, len(content)))
    damaged = torch_file.with_name("damaged.bin")
    damaged.write_bytes(content[:cut])
    with contextlib.suppress(InputError):
        for tensor in read_torch(damaged).values():
            assert tensor.read().shape == tensor.shape


def test_a_malicious_file_names_itself(tmp_path: Path) -> None:
    file = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"x": Trap(os.system, "true")}, protocol=2))
    with pytest.raises(InputError, match=r"imports posix\.system in '.*pytorch_model\.bin'\.$"):
        read_torch(file)


def copy_with(
    source: Path, file: Path, changes: dict[str, bytes | None], compression: int = zipfile.ZIP_STORED
) -> Path:
    """Copies an archive with some members changed, named by the end of their names; None removes one."""
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(file, "w", compression) as copy:
        for name in archive.namelist():
            ending = next((ending for ending in changes if name.endswith(ending)), None)
            content = archive.read(name) if ending is None else changes[ending]
            if content is not None:
                copy.writestr(name, content)
    return file


@pytest.mark.parametrize(
    ("changes", "compression", "complaint"),
    [
        ({}, zipfile.ZIP_DEFLATED, "compressed"),
        ({"data.pkl": None}, zipfile.ZIP_STORED, "0 usable data.pkl"),
        ({"byteorder": b"big"}, zipfile.ZIP_STORED, "little-endian"),
        (
            {"data.pkl": pickle.dumps([1], 2)},
            zipfile.ZIP_STORED,
            r"dictionary of tensors. Received: \['list'\]",
        ),
        ({"data.pkl": pickle.dumps({"epoch": 1}, 2)}, zipfile.ZIP_STORED, r"Received: \['epoch'\]"),
        ({"data/0": None}, zipfile.ZIP_STORED, "'linear.weight', which is not complete"),
        ({"data/0": bytes(8000)}, zipfile.ZIP_STORED, "'linear.weight', which is not complete"),
    ],
)
def test_an_unusual_archive_is_refused(
    golden: Any, tmp_path: Path, changes: dict[str, bytes | None], compression: int, complaint: str
) -> None:
    source = golden.path("torch_t5") / "2_Dense" / "pytorch_model.bin"
    with pytest.raises(InputError, match=complaint):
        read_torch(copy_with(source, tmp_path / "pytorch_model.bin", changes, compression))


def test_an_unchanged_copy_is_read(golden: Any, tmp_path: Path) -> None:
    source = golden.path("torch_t5") / "2_Dense" / "pytorch_model.bin"
    copy = read_torch(copy_with(source, tmp_path / "pytorch_model.bin", {}))
    np.testing.assert_array_equal(copy["linear.weight"].read(), golden.expected("torch_t5").projection)
