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
    """Loads `benchmarks/paper_claims/NAME.py`."""
    return _neighbours(repository / "benchmarks" / "paper_claims")


@pytest.fixture(scope="session")
def mxtr_module(repository: Path) -> Callable[[str], ModuleType]:
    """Loads `benchmarks/mxtr/NAME.py`."""
    return _neighbours(repository / "benchmarks" / "mxtr")


def _neighbours(folder: Path) -> Callable[[str], ModuleType]:
    """Loads the modules of a folder, which import each other by the names of their files."""

    def load(name: str) -> ModuleType:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(folder)
            return importlib.import_module(name)

    return load
