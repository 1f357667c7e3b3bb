"""TensorFlow's protocol buffer modules, imported without importing TensorFlow.

`tensorflow.core.protobuf.meta_graph_pb2` is a few milliseconds of generated code, but Python
imports a package before its modules, and `tensorflow/__init__.py` takes ten seconds. While one of
those modules is imported here, an empty module with TensorFlow's search path stands in for the
package; it is taken away again before control returns. The generated modules stay, so that a
later `import tensorflow` works and shares the very same message classes.
"""

from __future__ import annotations

import importlib
import sys
import threading
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from xtr_tf.errors import InputError

_PACKAGE = "tensorflow"
_lock = threading.Lock()


def package_directory(package: str) -> Path:
    """Returns the directory of an installed package without importing it.

    Example:
        >>> package_directory("tensorflow") / "libtensorflow_cc.so.2"
    """
    loaded = sys.modules.get(package)
    spec: ModuleSpec | None = loaded.__spec__ if loaded is not None else find_spec(package)
    locations = spec.submodule_search_locations if spec is not None else None
    if not locations:
        raise InputError(f"A package is missing; install it with pip. Received: package {package!r}.")
    return Path(next(iter(locations)))


def import_proto(name: str) -> ModuleType:
    """Imports a generated module that needs no more of TensorFlow than its `*_pb2` modules.

    Args:
        name: For instance `tensorflow.core.framework.tensor_pb2`, or a module of another
            distribution that imports such, like `tensorflow_serving.apis.predict_pb2`.
    """
    with _lock:
        if name in sys.modules or _PACKAGE in sys.modules:
            return importlib.import_module(name) if name not in sys.modules else sys.modules[name]
        stand_in = ModuleType(_PACKAGE)
        stand_in.__path__ = [str(package_directory(_PACKAGE))]
        sys.modules[_PACKAGE] = stand_in
        try:
            return importlib.import_module(name)
        finally:
            del sys.modules[_PACKAGE]
