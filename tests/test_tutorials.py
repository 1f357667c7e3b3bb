"""The tutorials, followed to the letter: files are written, commands and Python run, and print what is shown.

A tutorial runs in a folder that has `examples` and `models`, like a checkout. `xtr-tf serve` stays in the
background until the tutorial ends, as in a second terminal. Packages are not installed again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import Block, blocks
from tests.support.processes import USERS_ENVIRONMENT
from tests.test_python_examples import run_and_capture, same

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

INSTALLED = re.compile(r"^(python3 -m venv|source|pip install|make setup)\b.*\n", re.MULTILINE)
# What must be in the last output of each; besides that, no command may fail.
ANSWERS = {
    "quickstart": ["aral", '"predictions"'],
    "own-corpus": ["returns", "versand", "password", "nDCG@10", "warranty"],
    "first-pipeline": ["pushed", "it-fiume-garvan", "Nothing changed", "tr", "tr-nehir-garvan"],
}


class Reader:
    """A reader who follows a tutorial in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, Any] = {}
        self._servers: list[subprocess.Popen[str]] = []
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**USERS_ENVIRONMENT, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache")}
        self.seen = ""

    def follow(self, tutorial: list[Block]) -> None:
        """Does what every block says."""
        for place, block in enumerate(tutorial):
            after = tutorial[place + 1] if place + 1 < len(tutorial) else None
            shown = after.text if after and after.language == "text" and not after.title else None
            if block.title:
                file = self._folder / block.title
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                printed = run_and_capture(block.text, str(block.document), self._names)
                assert same(shown or "", printed), f"{block.text}\nprinted:\n{printed}"
            elif block.language == "bash":
                printed = self._run(block)
                assert shown is None or same(shown, printed), f"{block.text}\nprinted:\n{printed}"

    def _run(self, block: Block) -> str:
        script = INSTALLED.sub("", block.text)
        if script.startswith("xtr-tf serve"):
            return self._serve(script)
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = ended.stdout + ended.stderr
        assert bool(ended.returncode) == block.fails, f"{script}\nended with {ended.returncode}:\n{said}"
        assert "Traceback" not in said, said
        self.seen += said
        return ended.stdout

    def _serve(self, script: str) -> str:
        server = subprocess.Popen(
            script.split(), cwd=self._folder, env=self._environment, stdout=subprocess.PIPE, text=True
        )
        self._servers.append(server)
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("serving"), line
        return line

    def leave(self) -> None:
        """Ends the servers."""
        for server in self._servers:
            server.terminate()
            server.wait(timeout=60)


@pytest.fixture
def reader(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    for name in ("examples", "models"):
        (tmp_path / name).symlink_to(repository / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    started = Reader(tmp_path)
    yield started
    started.leave()


@pytest.mark.parametrize(
    "name",
    ["quickstart", "own-corpus", pytest.param("first-pipeline", marks=pytest.mark.pipeline)],
)
def test_a_tutorial_can_be_followed(name: str, reader: Reader, repository: Path) -> None:
    begun = time.monotonic()
    reader.follow(blocks(repository / "docs" / "tutorials" / f"{name}.md"))
    for words in ANSWERS[name]:
        assert words in reader.seen, f"{words} is not in:\n{reader.seen}"
    assert "external/" not in reader.seen, "TensorFlow's own messages are shown"
    assert time.monotonic() - begun < 600  # ten minutes, as the tutorials promise


def test_every_tutorial_is_followed(repository: Path) -> None:
    assert {file.stem for file in (repository / "docs" / "tutorials").glob("*.md")} == set(ANSWERS)
