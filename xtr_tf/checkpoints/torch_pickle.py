"""Interprets the pickle inside a PyTorch file without ever executing it.

A pickle is a program. This file runs that program on inert data: every name that it imports becomes a
record, and only the few names that rebuild a tensor or a dictionary can be called, by code in this file. Any
other name or opcode is refused and named. Neither `pickle` nor `torch` is used; `pickletools` of the standard
library splits the bytes into opcodes.

We do this ourselves because no package does: `pickle` executes what it reads, and the only reader that does
not (`torch.load(weights_only=True)`) needs all of PyTorch, which xtr-tf has no other use for.

Must not know where the values of a tensor are stored: that differs between PyTorch's two file formats.
"""

from __future__ import annotations

import dataclasses
import pickletools
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from xtr_tf.errors import InputError

_STORAGES = {
    ("torch", "FloatStorage"): "float32",
    ("torch", "DoubleStorage"): "float64",
    ("torch", "HalfStorage"): "float16",
    ("torch", "BFloat16Storage"): "bfloat16",
    ("torch", "LongStorage"): "int64",
    ("torch", "IntStorage"): "int32",
    ("torch", "ShortStorage"): "int16",
    ("torch", "CharStorage"): "int8",
    ("torch", "ByteStorage"): "uint8",
    ("torch", "BoolStorage"): "bool",
}
_ORDERED_DICT = ("collections", "OrderedDict")
_REBUILD_TENSOR = ("torch._utils", "_rebuild_tensor_v2")
_REBUILD_PARAMETER = ("torch._utils", "_rebuild_parameter")
_CALLABLE = frozenset({_ORDERED_DICT, _REBUILD_TENSOR, _REBUILD_PARAMETER})


@dataclasses.dataclass(frozen=True)
class Storage:
    """Consecutive values that tensors are views of: `count` elements of `dtype`, stored under `key`."""

    key: str
    dtype: str
    count: int


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A view of a storage; offset and strides are in elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class _Global:
    """A name that the pickle imports; never resolved."""

    module: str
    name: str


class _Mark:
    """Marks where a group of items begins on the stack."""


def parse_pickle(file: IO[bytes]) -> Any:
    """Reads one pickle from the current position of a file and leaves the position after it.

    Returns:
        What the pickle describes, made of dictionaries, lists, tuples, numbers, strings,
        `Storage` and `StoredTensor`.

    Raises:
        InputError: The pickle asks for anything that tensors do not need, or is damaged.
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(file):
            machine.step(opcode.name, argument)
        return machine.result()
    except InputError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise InputError(
            f"The pickle in a PyTorch file is damaged; download the file again. Received: {error}."
        ) from error


class _Machine:
    """A stack machine for the opcodes that `torch.save` writes."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in _LITERALS:
            self.stack.append(_LITERALS[opcode](argument))
        elif opcode in _ACTIONS:
            _ACTIONS[opcode](self, argument)
        elif opcode not in _IGNORED:
            raise _refusal(f"a pickle with the opcode {opcode}")

    def result(self) -> Any:
        (value,) = self.stack
        return value

    def pop_group(self) -> list[Any]:
        group = []
        while not isinstance(item := self.stack.pop(), _Mark):
            group.append(item)
        return group[::-1]

    def push_tuple(self, length: int) -> None:
        items = [self.stack.pop() for _ in range(length)]
        self.stack.append(tuple(reversed(items)))

    def put(self, slot: int) -> None:
        self.memo[slot] = self.stack[-1]

    def set_items(self, items: list[Any]) -> None:
        _require(self.stack[-1], dict).update(_named(zip(items[::2], items[1::2], strict=True)))

    def append(self, items: list[Any]) -> None:
        _require(self.stack[-1], list).extend(items)

    def import_name(self, module: str, name: str) -> None:
        if (module, name) not in _CALLABLE and (module, name) not in _STORAGES:
            raise _refusal(f"a pickle that imports {module}.{name}")
        self.stack.append(_Global(module, name))

    def import_from_stack(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.import_name(_require(module, str), _require(name, str))

    def call(self) -> None:
        arguments = _require(self.stack.pop(), tuple)
        function = _require(self.stack.pop(), _Global)
        self.stack.append(_rebuild((function.module, function.name), arguments))

    def set_state(self) -> None:
        """Drops an object's attributes: a state dictionary's `_metadata` is not needed."""
        self.stack.pop()
        _require(self.stack[-1], dict)

    def load_storage(self) -> None:
        kind, storage_type, key, _, count, *view = _require(self.stack.pop(), tuple)
        storage_type = _require(storage_type, _Global)
        dtype = _STORAGES[storage_type.module, storage_type.name]
        if _require(kind, str) != "storage" or any(part is not None for part in view):
            raise ValueError("a storage of an unknown kind")
        if _require(count, int) < 0:
            raise ValueError(f"a storage of {count} values")
        self.stack.append(Storage(_require(key, str), dtype, count))


def _rebuild(function: tuple[str, str], arguments: tuple) -> Any:
    if function == _ORDERED_DICT:
        (pairs,) = arguments or ([],)
        return dict(_named(_require(pairs, list)))
    if function == _REBUILD_PARAMETER:
        return _require(arguments[0], StoredTensor)
    if function == _REBUILD_TENSOR:
        storage, offset, shape, strides, *_ = arguments
        return _checked_tensor(
            _require(storage, Storage), offset, _require(shape, tuple), _require(strides, tuple)
        )
    raise TypeError(f"a call of {'.'.join(function)}")


def _checked_tensor(storage: Storage, offset: int, shape: tuple, strides: tuple) -> StoredTensor:
    for number in (offset, *shape, *strides):
        if _require(number, int) < 0:
            raise ValueError(f"a tensor with a negative offset, size or stride of {number}")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= storage.count:
        raise ValueError(f"a tensor of shape {shape} beyond its storage of {storage.count} values")
    return StoredTensor(storage, offset, shape, strides)


def _named(pairs: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Checks keys before they are hashed: hashing a deeply nested tuple can exhaust the C stack."""
    for key, value in pairs:
        yield _require(key, str), value


def _require(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} in place of {kind.__name__}")
    return value


def _refusal(what: str) -> InputError:
    return InputError(
        f"A PyTorch file may hold only dictionaries of tensors, so it was not loaded. Received: {what}."
    )


_LITERALS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"),
        lambda value: value,
    ),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "MARK": lambda _: _Mark(),
}

_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_group())),
    "TUPLE1": lambda machine, _: machine.push_tuple(1),
    "TUPLE2": lambda machine, _: machine.push_tuple(2),
    "TUPLE3": lambda machine, _: machine.push_tuple(3),
    "BINPUT": lambda machine, slot: machine.put(slot),
    "LONG_BINPUT": lambda machine, slot: machine.put(slot),
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "BINGET": lambda machine, slot: machine.stack.append(machine.memo[slot]),
    "LONG_BINGET": lambda machine, slot: machine.stack.append(machine.memo[slot]),
    "SETITEM": lambda machine, _: machine.set_items([machine.stack.pop(-2), machine.stack.pop()]),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_group()),
    "APPEND": lambda machine, _: machine.append([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append(machine.pop_group()),
    "GLOBAL": lambda machine, names: machine.import_name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.import_from_stack(),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.set_state(),
    "BINPERSID": lambda machine, _: machine.load_storage(),
}

_IGNORED = frozenset({"PROTO", "FRAME", "STOP"})
