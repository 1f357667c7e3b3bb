"""Versions appear complete, get the next number, and are never replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from xtr_tf.errors import InputError
from xtr_tf.retriever.versions import latest_version, new_version, versions_in


def publish(base: Path, version: int | None = None) -> Path:
    with new_version(base, version) as (staging, final):
        assert not staging.name.isdecimal()
        (staging / "saved_model.pb").touch()
        assert not final.exists()
    return final


def test_versions_get_the_next_number(tmp_path):
    base = tmp_path / "deep" / "model"
    assert versions_in(base) == []
    assert publish(base).name == "1"
    assert publish(base, 9).name == "9"
    assert publish(base).name == "10"
    assert versions_in(base) == [1, 9, 10]
    assert latest_version(base) == base / "10"
    assert latest_version(base / "9") == base / "9"


def test_a_version_is_never_replaced(tmp_path):
    publish(tmp_path, 3)
    with pytest.raises(InputError, match="This version exists"):
        publish(tmp_path, 3)
    with pytest.raises(InputError, match="This version exists"), new_version(tmp_path, 4) as (_, final):
        final.mkdir()
    assert versions_in(tmp_path) == [3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4"]


def test_a_failure_leaves_nothing(tmp_path):
    def fail() -> None:
        with new_version(tmp_path, None) as (staging, _):
            (staging / "half").write_text("written")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_no_model(tmp_path):
    with pytest.raises(InputError, match="A model is a directory"):
        latest_version(tmp_path)
