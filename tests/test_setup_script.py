"""tools/setup.sh says in one sentence why it cannot go on, and does nothing if everything is set up."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout

TOOLS = (
    "awk",
    "bash",
    "cat",
    "cut",
    "df",
    "dirname",
    "flock",
    "mkdir",
    "mv",
    "rm",
    "sha256sum",
    "tail",
    "uname",
)


@pytest.fixture
def checkout(repository: Path, tmp_path: Path) -> Path:
    """A checkout with nothing installed, and a PATH in `bin` that holds the bare tools."""
    copy = tmp_path / "checkout"
    (copy / "tools").mkdir(parents=True)
    (copy / "bin").mkdir()
    for name in ("tools/setup.sh", "requirements.lock", "pyproject.toml", ".python-version"):
        shutil.copy(repository / name, copy / name)
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, f"{tool} is needed by the set-up"
        (copy / "bin" / tool).symlink_to(found)
    return copy


def set_up(checkout: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(checkout / "bin"), "HOME": str(checkout), **variables}
    return subprocess.run(
        [checkout / "tools" / "setup.sh", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        cwd=checkout,
    )


def provide(checkout: Path, name: str, script: str) -> None:
    file = checkout / "bin" / name
    file.write_text(f"#!/bin/bash\n{script}\n")
    file.chmod(0o755)


def test_without_python(checkout: Path) -> None:
    ended = set_up(checkout)
    assert ended.returncode == 1
    assert "setup: python3 (3.8 or newer) is missing" in ended.stderr


def test_without_network(checkout: Path) -> None:
    provide(checkout, "python3", f'exec {sys.executable} "$@"')
    ended = set_up(checkout, PIP_NO_INDEX="1")
    assert ended.returncode == 1
    assert "could not be installed with pip" in ended.stderr
    assert "check the network" in ended.stderr.splitlines()[-1]
    assert not (checkout / ".venv").exists()


def test_without_python_3_10(checkout: Path, repository: Path) -> None:
    uv = subprocess.check_output([repository / "tools" / "setup.sh", "--uv"], text=True).strip()
    (checkout / "bin" / "uv").symlink_to(uv)
    ended = set_up(checkout, UV_PYTHON_DOWNLOADS="never")
    assert ended.returncode == 1
    assert "setup: Python 3.10 was not found and could not be fetched" in ended.stderr


def test_without_space(checkout: Path) -> None:
    (checkout / "bin" / "df").unlink()
    provide(checkout, "df", "echo header; echo disk 1 1 12 1 /")
    ended = set_up(checkout)
    assert ended.returncode == 1
    assert "Received: 12 MB free." in ended.stderr


def test_unknown_option(checkout: Path) -> None:
    ended = set_up(checkout, "--fast")
    assert ended.returncode == 1
    assert "Received: --fast" in ended.stderr


def test_second_call_does_next_to_nothing(repository: Path) -> None:
    subprocess.run([repository / "tools/setup.sh"], check=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([repository / "tools/setup.sh"], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (ended.returncode, ended.stderr) == (0, "")
    # Processor time: the wall clock also counts whatever else the machine is doing.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_an_environment_that_was_copied_is_made_again(checkout: Path, repository: Path) -> None:
    """Its scripts point at the checkout it was copied from."""
    provide(checkout, "uv", "echo called: $@ >&2; exit 1")
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (checkout / ".venv" / "bin" / "activate").write_text("VIRTUAL_ENV='/elsewhere/.venv'\n")
    ended = set_up(checkout)
    assert ended.returncode == 1  # the false uv
    assert "setup: .venv was copied from another checkout; creating it again" in ended.stderr
    assert not (checkout / ".venv" / "bin" / "activate").exists()


@pytest.mark.parametrize("arguments", [[], ["312"], ["3.12", "nightly"], ["3.12", "2.18", "more"]])
def test_another_python_is_asked_for_by_its_version(repository: Path, arguments: list[str]) -> None:
    script = repository / "tools" / "other_python.sh"
    ended = subprocess.run([script, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        "other_python: give a Python like 3.12 and, if you like, a TensorFlow like 2.18. "
        f"Received: {' '.join(arguments)}\n"
    )
