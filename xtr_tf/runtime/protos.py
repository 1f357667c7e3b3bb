"""TensorFlow's protocol buffer modules, imported without importing TensorFlow.

Knows where the wheel keeps generated code, but not what the messages mean.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from xtr_tf.errors import InputError

# Packages of TensorFlow that generated modules are in or import from.
_PROTO_PACKAGES = ("compiler", "core", "tsl")
_IMPORT = re.compile(r"^from (tensorflow[\w.]*) import (\w+_pb2)", re.MULTILINE)


def package_directory(package: str) -> Path:
    """Returns the directory of an installed package without importing it.

    Args:
        package: Name of the package.

    Returns:
        The directory.

    Raises:
        InputError: The package is not installed.

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

    May be called while another thread imports TensorFlow.

    Args:
        name: For example `tensorflow.core.framework.tensor_pb2`, or a module of another distribution that
            imports such modules, like `tensorflow_serving.apis.predict_pb2`.
    """
    _enter_proto_packages()
    return _import_from_the_leaves(name)


def _enter_proto_packages() -> None:
    """Puts `tensorflow.core` and its like into `sys.modules`, but not `tensorflow` itself.

    Importing `tensorflow.core.protobuf.meta_graph_pb2` takes a few milliseconds, but Python imports a package
    before its modules, and `tensorflow/__init__.py` takes ten seconds. However, Python looks no further than
    a module's parent: once `tensorflow.core`, whose `__init__.py` is empty, is there, modules below it can be
    imported. `tensorflow` itself is never replaced: a thread that imports it at the same time or later gets
    the real one, which finds these packages and so shares their message classes.
    """
    for package in _PROTO_PACKAGES:
        name = f"tensorflow.{package}"
        directory = package_directory("tensorflow") / package
        file = directory / "__init__.py"
        spec = spec_from_file_location(name, file, submodule_search_locations=[str(directory)])
        if name not in sys.modules and spec is not None:
            # Atomic: of several threads, the first wins.
            sys.modules.setdefault(name, module_from_spec(spec))


def _import_from_the_leaves(name: str) -> ModuleType:
    """Imports what a generated module imports, then the module itself.

    `from tensorflow.core.framework import tensor_pb2` only looks at the package's attributes if the module is
    already one of them. If it is not, `__import__` loads it and then imports `tensorflow` itself.
    """
    package, _, module = name.rpartition(".")
    if name not in sys.modules:
        top, *parents = package.split(".")
        file = package_directory(top).joinpath(*parents, f"{module}.py")
        for needed in _IMPORT.findall(file.read_text() if file.is_file() else ""):
            _import_from_the_leaves(".".join(needed))
    imported = importlib.import_module(name)
    setattr(sys.modules[package], module, imported)  # which a thread that is loading it may not have done
    return imported
