"""The C library inside the TensorFlow wheel, declared to `ctypes`.

Declares only the functions that are used, with all argument types, because a wrong type in a C call is a
crash. Long calls release the interpreter's lock; calls that only look into a tensor keep it, because
releasing it costs more than the call.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p

from xtr_tf.errors import InputError
from xtr_tf.runtime.protos import package_directory
from xtr_tf.runtime.status import StatusError, status_error

# Errors come back as a status; the additional lines on standard error are only about missing GPUs.
_LOG_LEVEL = ("TF_CPP_MIN_LOG_LEVEL", "3")


class Output(ctypes.Structure):
    """`TF_Output`: one output of one operation."""

    _fields_ = (("operation", c_void_p), ("index", c_int))


_FUNCTIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "TF_Version": (c_char_p, ()),
    "TF_NewStatus": (c_void_p, ()),
    "TF_DeleteStatus": (None, (c_void_p,)),
    "TF_GetCode": (c_int, (c_void_p,)),
    "TF_Message": (c_char_p, (c_void_p,)),
    "TF_LoadLibrary": (c_void_p, (c_char_p, c_void_p)),
    "TF_DeleteLibraryHandle": (None, (c_void_p,)),
    "TF_NewGraph": (c_void_p, ()),
    "TF_DeleteGraph": (None, (c_void_p,)),
    "TF_GraphOperationByName": (c_void_p, (c_void_p, c_char_p)),
    "TF_NewSessionOptions": (c_void_p, ()),
    "TF_DeleteSessionOptions": (None, (c_void_p,)),
    "TF_NewBufferFromString": (c_void_p, (c_char_p, c_size_t)),
    "TF_DeleteBuffer": (None, (c_void_p,)),
    "TF_SetConfig": (None, (c_void_p, c_char_p, c_size_t, c_void_p)),
    "TF_LoadSessionFromSavedModel": (
        c_void_p,
        (c_void_p, c_void_p, c_char_p, POINTER(c_char_p), c_int, c_void_p, c_void_p, c_void_p),
    ),
    "TF_CloseSession": (None, (c_void_p, c_void_p)),
    "TF_DeleteSession": (None, (c_void_p, c_void_p)),
    "TF_SessionRun": (
        None,
        (
            *(c_void_p, c_void_p),
            *(POINTER(Output), POINTER(c_void_p), c_int),
            *(POINTER(Output), POINTER(c_void_p), c_int),
            *(c_void_p, c_int, c_void_p, c_void_p),
        ),
    ),
    "TF_AllocateTensor": (c_void_p, (c_int, POINTER(c_int64), c_int, c_size_t)),
    "TF_DeleteTensor": (None, (c_void_p,)),
    "TF_TensorType": (c_int, (c_void_p,)),
    "TF_NumDims": (c_int, (c_void_p,)),
    "TF_Dim": (c_int64, (c_void_p, c_int)),
    "TF_TensorByteSize": (c_size_t, (c_void_p,)),
    "TF_TensorData": (c_void_p, (c_void_p,)),
    "TF_StringInit": (None, (c_void_p,)),
    "TF_StringCopy": (None, (c_void_p, c_char_p, c_size_t)),
    "TF_StringDealloc": (None, (c_void_p,)),
}
# These take well under a microsecond.
_SHORT = frozenset(
    {
        *(
            "TF_NewStatus",
            "TF_DeleteStatus",
            "TF_GetCode",
            "TF_Message",
            "TF_AllocateTensor",
            "TF_DeleteTensor",
            "TF_TensorType",
        ),
        *("TF_NumDims", "TF_Dim", "TF_TensorByteSize", "TF_TensorData"),
        *("TF_StringInit", "TF_StringCopy", "TF_StringDealloc"),
    }
)


@functools.lru_cache(maxsize=1)
def c_library() -> ctypes.CDLL:
    """Returns TensorFlow's C library, which is loaded once per process.

    Raises:
        InputError: TensorFlow is not installed, or its library does not load.
    """
    os.environ.setdefault(*_LOG_LEVEL)
    directory = package_directory("tensorflow")
    try:
        # Op libraries find the framework by its name once it is loaded. Its symbols must stay
        # local: it contains its own protobuf, which would shadow that of Python's protobuf.
        ctypes.CDLL(str(directory / "libtensorflow_framework.so.2"), mode=ctypes.RTLD_LOCAL)
        library = ctypes.CDLL(str(directory / "libtensorflow_cc.so.2"), mode=ctypes.RTLD_LOCAL)
    except OSError as error:
        raise InputError(f"TensorFlow's C library does not load; reinstall it. Received: {error}.") from None
    keeping_the_lock = ctypes.PyDLL(library._name, handle=library._handle)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(keeping_the_lock if name in _SHORT else library, name)
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    return library


@functools.cache
def load_op_library(path: str) -> None:
    """Registers the ops of a shared library. Calling it again does nothing.

    Args:
        path: Path of the library.

    Raises:
        InputError: The library does not load.
    """
    library = c_library()
    try:
        with checked_status() as status:
            handle = library.TF_LoadLibrary(path.encode(), status)
    except StatusError as error:
        raise InputError(f"An op library does not load: {error.message} Received: {path}.") from None
    # Frees the handle's description; the code stays loaded.
    library.TF_DeleteLibraryHandle(handle)


@contextmanager
def checked_status() -> Iterator[int]:
    """Yields a `TF_Status` for a call, and raises its error afterwards."""
    library = c_library()
    status = library.TF_NewStatus()
    try:
        yield status
        code = library.TF_GetCode(status)
        if code:
            raise status_error(code, library.TF_Message(status).decode("utf-8", "replace"))
    finally:
        library.TF_DeleteStatus(status)
