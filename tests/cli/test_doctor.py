"""The diagnosis notices what is wrong, not only what is right."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from xtr_tf.cli import doctor as diagnosis


def with_versions(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str | None]) -> None:
    """Makes it look as if packages were installed in other versions, or (None) not at all."""
    real = metadata.version

    def version(name: str) -> str:
        found = versions[name] if name in versions else real(name)
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)


def test_what_is_installed_fits() -> None:
    findings = [diagnosis._check_python(), *diagnosis._check_versions(), *diagnosis._check_op_builds()]
    assert [finding for finding in findings if not finding.ok] == []
    assert {"python", "scann", "tensorflow", "tensorflow-text", "scann build"} <= {
        finding.subject for finding in findings
    }


def test_a_wrong_version_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with_versions(monkeypatch, {"scann": "0.1", "numpy": "1.0"})
    wrong = {finding.subject: finding for finding in diagnosis._check_versions() if not finding.ok}
    assert wrong.keys() == {"scann", "numpy"}
    assert wrong["scann"].detail == "0.1, wanted <1.5,>=1.3.2"
    assert "make clean setup" in wrong["scann"].remedy


def test_ops_built_for_another_tensorflow_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with_versions(monkeypatch, {"tensorflow": "2.99.0"})
    findings = diagnosis._check_op_builds()
    assert [finding.ok for finding in findings] == [False, False]
    assert "built for tensorflow ~=2." in findings[0].detail
    assert findings[0].detail.endswith("which is 2.99.0")


def test_a_missing_base_package_is_wrong_and_a_missing_extra_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with_versions(monkeypatch, {"keras": None, "tfx": None})
    findings = {finding.subject: finding for finding in diagnosis._check_versions()}
    assert findings["keras"].detail == "missing, wanted <4,>=3.12.4"
    assert "tfx" not in findings


def test_another_python_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis.platform, "python_version", lambda: "3.9.1")
    finding = diagnosis._check_python()
    assert not finding.ok
    assert "3.10" in finding.remedy


def test_a_library_that_does_not_load_is_a_finding() -> None:
    def load() -> str:
        raise OSError("undefined symbol: abc\nmore")

    finding = diagnosis._check_import("some ops", load)
    assert (finding.ok, finding.detail) == (False, "undefined symbol: abc")


def test_a_fast_look_needs_no_python_tensorflow(fresh_python) -> None:
    script = (
        "import sys\n"
        "from xtr_tf.cli.doctor import diagnose\n"
        "findings = diagnose()\n"
        "print({own.subject: own.detail for own in findings if own.subject.endswith(' ops')})\n"
        "print('tensorflow' in sys.modules)\n"
    )
    libraries, imported = fresh_python(script).strip().splitlines()
    assert libraries == str({"tensorflow_text ops": "2 libraries load", "scann ops": "1 library loads"})
    assert imported == "False"


def test_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = type("usage", (), {"free": 10 * 2**20})
    monkeypatch.setattr(diagnosis.shutil, "disk_usage", lambda _: usage)
    assert not diagnosis._check_disk(tmp_path).ok
