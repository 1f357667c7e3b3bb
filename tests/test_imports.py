"""What importing the package may cost, measured in fresh interpreters."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("tensorflow", "keras", "tfx", "apache_beam", "scann", "numba", "faiss", "grpc")


def imported_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
    )


@pytest.mark.parametrize(
    "statement",
    ["import xtr_tf", "import xtr_tf.cli.app", "import xtr_tf.config.loading", "import tfx_pipeline.config"],
)
def test_light_imports_stay_light(statement: str) -> None:
    assert imported_by(statement).isdisjoint(HEAVY)


def test_the_check_sees_a_heavy_import() -> None:
    assert "grpc" in imported_by("import grpc")
