"""Loads the benchmarks' modules, which are scripts in folders and not a package."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def benchmark_module(repository: Path) -> Callable[[str, str], ModuleType]:
    """Loads `benchmarks/FOLDER/NAME.py`."""

    def load(folder: str, name: str) -> ModuleType:
        path = repository / "benchmarks" / folder / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"{folder}_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def claims_module(repository: Path) -> Callable[[str], ModuleType]:
    """Loads `benchmarks/paper_claims/NAME.py`, which imports its neighbours by the names of their files."""

    def load(name: str) -> ModuleType:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(repository / "benchmarks" / "paper_claims")
            return importlib.import_module(name)

    return load


@pytest.fixture(scope="session")
def mxtr_module(repository: Path) -> Callable[[str], ModuleType]:
    """Loads `benchmarks/mxtr/NAME.py`, which imports its neighbours by the names of their files."""

    def load(name: str) -> ModuleType:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(repository / "benchmarks" / "mxtr")
            return importlib.import_module(name)

    return load
