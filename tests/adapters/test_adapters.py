"""Each adapter with its real library, in a separate environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.processes import USERS_ENVIRONMENT

LIBRARIES = {"langchain": "langchain-core", "llama_index": "llama-index-core", "mteb": "mteb"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", LIBRARIES)
def test_an_adapter_works_with_its_library(name: str, repository: Path, tmp_path: Path) -> None:
    uv = subprocess.check_output([repository / "tools" / "setup.sh", "--uv"], text=True).strip()
    python = tmp_path / "environment" / "bin" / "python"
    environment = {**USERS_ENVIRONMENT, "PYENV_VERSION": "3.12"}
    subprocess.run(
        [uv, "venv", "--quiet", "--python", "3.12", tmp_path / "environment"], check=True, env=environment
    )
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", python, LIBRARIES[name], str(repository)], check=True
    )
    script = repository / "tests" / "adapters" / f"check_{name}.py"
    ended = subprocess.run(
        [python, script], cwd=tmp_path, capture_output=True, text=True, check=False, env=USERS_ENVIRONMENT
    )
    assert ended.stdout.endswith("right\n"), ended.stderr
