"""The pipeline's Dockerfile copies files that exist and installs the locked versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfx_pipeline.provenance import REVISION_VARIABLE, code_version


@pytest.fixture(scope="module")
def dockerfile(repository: Path) -> str:
    return (repository / "tfx_pipeline" / "Dockerfile").read_text()


def test_copied_files_exist_and_are_in_the_build_context(repository: Path, dockerfile: str) -> None:
    sent = (repository / "tfx_pipeline" / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        name
        for names in re.findall(r"^COPY ([\w. ]+) \S+$", dockerfile, re.MULTILINE)
        for name in names.split()
    ]
    assert {"requirements.lock", "xtr_tf", "serving", "tfx_pipeline"} <= set(copied)
    for name in copied:
        assert (repository / name).exists()
        assert f"!{name}" in sent


def test_versions_match_the_lock(repository: Path, dockerfile: str) -> None:
    lock = (repository / "requirements.lock").read_text()
    python = (repository / ".python-version").read_text().strip()
    beam = re.search(r"^apache-beam(?:\[.*\])?==([\d.]+)", lock, re.MULTILINE)
    assert beam
    assert f"FROM apache/beam_python{python}_sdk:{beam[1]} AS beam" in dockerfile
    assert f"FROM python:{python}-slim" in dockerfile
    tensorflow = re.search(r"^tensorflow==([\d.]+)", lock, re.MULTILINE)
    assert tensorflow
    assert re.search(rf"tensorflow-tpu=={tensorflow[1]} --hash=sha256:[0-9a-f]{{64}}", dockerfile)


def test_the_image_knows_its_revision(dockerfile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"ENV {REVISION_VARIABLE}=${{REVISION}}" in dockerfile
    monkeypatch.setenv(REVISION_VARIABLE, "1a2b3c4")
    assert code_version().endswith(" (commit 1a2b3c4)")
    monkeypatch.delenv(REVISION_VARIABLE)
    assert re.fullmatch(r"[\d.]+\w*( \(commit [0-9a-f]{7,}(, with changes)?\))?", code_version())
