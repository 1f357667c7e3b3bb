"""Reads `pytorch_model.bin` files, in both formats of `torch.save`, without PyTorch.

Since PyTorch 1.6 the file is an uncompressed zip archive: `*/data.pkl` describes the tensors, `*/data/KEY`
holds the values of one storage. Before, it was a sequence of pickles followed by the storages. The pickles
are interpreted, never executed: see `torch_pickle.py`.
"""

from __future__ import annotations

import io
import mmap
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from xtr_tf.checkpoints.lazy_tensor import LazyTensor, mapped_array, numpy_dtype
from xtr_tf.checkpoints.torch_pickle import StoredTensor, parse_pickle
from xtr_tf.errors import InputError

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LARGEST_PICKLE = 64 << 20
_LOCAL_HEADER = struct.Struct("<26xHH")
_COUNT = struct.Struct("<q")
# The errors of zipfile and of the code below on unexpected bytes.
_DAMAGE = (
    ArithmeticError,
    EOFError,
    LookupError,
    RuntimeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def read_torch(path: Path) -> dict[str, LazyTensor]:
    """Lists the tensors of a PyTorch file.

    Example:
        >>> read_torch(Path("2_Dense/pytorch_model.bin"))["linear.weight"].shape
        (128, 768)

    Raises:
        InputError: The file is damaged, or contains anything except a dictionary of tensors.
    """
    try:
        state, places = _read_zip(path) if zipfile.is_zipfile(path) else _read_legacy(path)
        tensors = _require_tensors(state)
        _require_values(tensors, places, path.stat().st_size)
    except InputError as error:
        raise InputError(f"{str(error).removesuffix('.')} in {str(path)!r}.") from error
    except _DAMAGE as error:
        raise InputError(
            f"A PyTorch file is truncated or damaged; download it again. Received: {str(path)!r} ({error})."
        ) from error
    return {name: _lazy(path, places[tensor.storage.key].start, tensor) for name, tensor in tensors.items()}


def _read_zip(path: Path) -> tuple[Any, dict[str, range]]:
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        members = {member.filename: member for member in archive.infolist()}
        described = [name for name in members if name.endswith("/data.pkl")]
        if len(described) != 1 or members[described[0]].file_size > _LARGEST_PICKLE:
            raise zipfile.BadZipFile(f"{len(described)} usable data.pkl in the archive, 1 expected")
        folder = described[0].removesuffix("data.pkl")
        if folder + "byteorder" in members and archive.read(folder + "byteorder") != b"little":
            raise zipfile.BadZipFile("values are not little-endian")
        state = parse_pickle(io.BytesIO(archive.read(described[0])))
        prefix = folder + "data/"
        stored = {name: member for name, member in members.items() if name.startswith(prefix)}
        if any(member.compress_type != zipfile.ZIP_STORED for member in stored.values()):
            raise zipfile.BadZipFile("values are compressed")
        return state, {name.removeprefix(prefix): _place(file, member) for name, member in stored.items()}


def _place(file: io.BufferedReader, member: zipfile.ZipInfo) -> range:
    """Returns where the member's content begins and ends in the file."""
    file.seek(member.header_offset)
    name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    start = member.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    return range(start, start + member.file_size)


def _read_legacy(path: Path) -> tuple[Any, dict[str, range]]:
    with path.open("rb") as file, _mapped(file) as mapped:
        magic, _, system, state, keys = (parse_pickle(cast(IO[bytes], mapped)) for _ in range(5))
        if magic != _LEGACY_MAGIC:
            raise zipfile.BadZipFile("no PyTorch file")
        if not isinstance(system, dict) or system.get("little_endian") is not True:
            raise zipfile.BadZipFile("values are not little-endian")
        storages = {tensor.storage.key: tensor.storage for tensor in _require_tensors(state).values()}
        if not isinstance(keys, list) or sorted(storages) != sorted(map(str, keys)):
            raise zipfile.BadZipFile("the list of storages does not fit the tensors")
        places = {}
        for key in keys:
            (count,) = _COUNT.unpack(mapped.read(_COUNT.size))
            if count != storages[key].count:
                raise zipfile.BadZipFile(f"storage {key} has {count} values")
            start = mapped.tell()
            places[key] = range(start, start + count * numpy_dtype(storages[key].dtype).itemsize)
            mapped.seek(places[key].stop)
        return state, places


def _mapped(file: io.BufferedReader) -> mmap.mmap:
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise EOFError("the file is empty") from error


def _require_tensors(state: Any) -> dict[str, StoredTensor]:
    if not isinstance(state, dict):
        others = [type(state).__name__]
    else:
        others = sorted(name for name, value in state.items() if not isinstance(value, StoredTensor))
    if others:
        raise InputError(f"A PyTorch file must hold a single dictionary of tensors. Received: {others!r}.")
    return state


def _require_values(tensors: dict[str, StoredTensor], places: dict[str, range], size: int) -> None:
    for name, tensor in tensors.items():
        place = places.get(tensor.storage.key, range(0))
        needed = tensor.storage.count * numpy_dtype(tensor.storage.dtype).itemsize
        if place.stop - place.start < needed or place.stop > size:
            raise InputError(
                "A PyTorch file must contain all values of its tensors; download it again. "
                f"Received: {name!r}, which is not complete."
            )


def _lazy(path: Path, offset: int, tensor: StoredTensor) -> LazyTensor:
    storage = tensor.storage

    def read() -> np.ndarray:
        values = mapped_array(path, offset, storage.dtype, (storage.count,))[tensor.offset :]
        strides = tuple(stride * values.itemsize for stride in tensor.strides)
        return np.lib.stride_tricks.as_strided(values, tensor.shape, strides, writeable=False)

    return LazyTensor(tensor.shape, storage.dtype, read)
