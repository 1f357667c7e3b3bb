"""Wheel and sdist contain everything, and the wheel works in an empty environment."""

from __future__ import annotations

import subprocess
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.support.processes import USERS_ENVIRONMENT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

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
# Files that are not Python, which setuptools leaves out unless they are named.
DATA = (
    "serving/server/wire/playground.html",
    "tfx_pipeline/schemas/corpus/schema.pbtxt",
    "tfx_pipeline/schemas/training/schema.pbtxt",
    "xtr_tf/evaluation/report/page.html.jinja",
)
MODEL = ("background.npy", "encoder.json", "tokenizer.model", "weights.safetensors")


@pytest.fixture(scope="module")
def uv(repository: Path) -> str:
    return subprocess.check_output([repository / "tools" / "setup.sh", "--uv"], text=True).strip()


@pytest.fixture(scope="module")
def distributions(uv: str, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist; uv builds the wheel from the sdist, which must therefore be complete."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([uv, "build", "--quiet", "--out-dir", out, repository], check=True)
    [wheel], [sdist] = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def test_the_wheel_holds_code_data_and_model_and_nothing_else(
    distributions: tuple[Path, Path], repository: Path
) -> None:
    with zipfile.ZipFile(distributions[0]) as file:
        names = set(file.namelist())
    packages = ("xtr_tf", "serving", "tfx_pipeline")
    code = {
        str(path.relative_to(repository)) for name in packages for path in (repository / name).rglob("*.py")
    }
    assert names >= code | {*DATA, *(f"xtr_tf/shipped/mxtr_tiny/{name}" for name in MODEL)}
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(packages)


def test_the_sdist_holds_what_the_wheel_is_made_of(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[1]) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert names >= {*DATA, "pyproject.toml", "setup.py", "README.md", "LICENSE"}
    assert names >= {f"models/mxtr_tiny/{name}" for name in MODEL}


@pytest.mark.parametrize("version", ["3.10", "3.12"])
def test_the_wheel_is_enough(
    version: str, uv: str, distributions: tuple[Path, Path], repository: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    chosen = {**USERS_ENVIRONMENT, "PYENV_VERSION": version}
    subprocess.run(
        [uv, "venv", "--quiet", "--seed", "--python", version, tmp_path / "venv"], check=True, env=chosen
    )
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", distributions[0]], check=True, env=USERS_ENVIRONMENT
    )

    def run(*command: str | Path) -> str:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=USERS_ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    assert run(python, "-c", textwrap.dedent(FIVE_LINES)) == "right\n"
    assert run(python, "-c", textwrap.dedent(OPEN)) == "0 False\n"
    command = python.with_name("xtr-tf")
    run(command, "build", repository / "examples" / "atlas", "--out", "atlas", "--quiet")
    assert "en-baikal" in run(command, "search", "atlas", "How deep is Lake Baikal?", "--top-k", "1")
