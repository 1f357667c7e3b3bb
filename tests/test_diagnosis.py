"""The diagnosis notices what is wrong, not only what is right."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from xtr_tf import diagnosis


def test_a_wrong_version_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.1" if name == "scann" else real(name))
    wrong = [finding for finding in diagnosis._check_pins() if not finding.ok]
    assert [finding.subject for finding in wrong] == ["scann"]
    assert wrong[0].detail == "0.1, pinned 1.3.2"
    assert "make clean setup" in wrong[0].remedy


def test_a_missing_base_package_is_wrong_and_a_missing_extra_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name in ("keras", "tfx"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    findings = {finding.subject: finding for finding in diagnosis._check_pins()}
    assert findings["keras"].detail == "missing, pinned 3.12.4"
    assert "tfx" not in findings


def test_a_library_that_does_not_load_is_a_finding() -> None:
    def load() -> str:
        raise OSError("undefined symbol: abc\nmore")

    finding = diagnosis._check_import("some ops", load)
    assert (finding.ok, finding.detail) == (False, "undefined symbol: abc")


def test_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = type("usage", (), {"free": 10 * 2**20})
    monkeypatch.setattr(diagnosis.shutil, "disk_usage", lambda _: usage)
    assert not diagnosis._check_disk(tmp_path).ok
