"""The wheel, installed by pip into an empty environment, is enough for the five lines."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

FIVE_LINES = """
import sys
import xtr_tf
assert "tensorflow" not in sys.modules
model = xtr_tf.load()
index = model.index(["Baikal is 1,642 m deep.", "The Nile is 6,650 km long."], progress=False)
assert index.search("How deep is Lake Baikal?")[0].text == "Baikal is 1,642 m deep."
assert index.explain("How deep is Lake Baikal?")[0].matches
index.add(["Everest is 8,849 m high."], progress=False)
index.delete("1")
assert set(index.ids) == {"0", "2"}
assert model.score("How deep is Baikal?", ["A river.", "Baikal is deep."]).argmax() == 1
scann = model.index([f"Passage number {number}." for number in range(100)], kind="scann", progress=False)
assert len(scann.search("Which number?")) == 10
index.save("models", progress=False)
print("right")
"""
OPEN = """
import sys
import xtr_tf
print(xtr_tf.open("models").search("How deep is Lake Baikal?")[0].id, "tensorflow" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", ["3.10", "3.12"])
def test_the_wheel_alone_is_enough(version: str, repository: Path, tmp_path: Path) -> None:
    uv = subprocess.check_output([repository / "tools" / "setup.sh", "--uv"], text=True).strip()
    subprocess.run(
        [uv, "build", "--quiet", "--wheel", "--out-dir", tmp_path / "dist", repository], check=True
    )
    [wheel] = (tmp_path / "dist").glob("*.whl")
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    chosen = {**environment, "PYENV_VERSION": version}
    subprocess.run(
        [uv, "venv", "--quiet", "--seed", "--python", version, tmp_path / "venv"], check=True, env=chosen
    )
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True, env=environment)

    def run(script: str) -> str:
        command = [python, "-c", textwrap.dedent(script)]
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert run(FIVE_LINES) == "right\n"
    assert run(OPEN) == "0 False\n"
    helped = subprocess.check_output(
        [python.with_name("xtr-tf"), "--help"], cwd=folder, env=environment, text=True
    )
    assert "build" in helped
