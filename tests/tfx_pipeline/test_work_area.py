"""Unfinished and finished work by key, on local and remote file systems."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfx_pipeline.storage import WorkArea, key_of, mirrored


@pytest.fixture(params=["local", "remote"])
def area(request: pytest.FixtureRequest, tmp_path: Path) -> WorkArea:
    # TensorFlow's file system in memory stands for one in a cloud.
    name = f"ram://{tmp_path.name}-{request.node.name}/work"
    return WorkArea(str(tmp_path / "work") if request.param == "local" else name)


def test_work_is_kept_on_failure_and_deleted_on_success(area: WorkArea) -> None:
    def fail() -> None:
        with area.unfinished("training", "a") as work:
            (work / "step").mkdir()
            (work / "step" / "weights").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with area.unfinished("training", "b") as work:
        assert not any(work.iterdir())
    with area.unfinished("training", "a") as work:
        assert (work / "step" / "weights").read_text() == "half"
    with area.unfinished("training", "a") as work:
        assert not any(work.iterdir())


def test_finished_work_is_reused_while_it_exists(area: WorkArea, tmp_path: Path) -> None:
    assert area.latest("vectors", "a") is None
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        area.remember("vectors", "a", {"vectors": str(tmp_path / name)})
    assert area.latest("vectors", "a") == {"vectors": str(tmp_path / "second")}
    assert area.latest("vectors", "b") is None
    (tmp_path / "second").rmdir()
    assert area.latest("vectors", "a") is None


def test_a_mirror_uploads_complete_files_while_work_continues(tmp_path: Path) -> None:
    remote = f"ram://{tmp_path.name}/mirror"
    local = tmp_path / "local"
    with mirrored(local, remote, seconds=0.05):
        (local / ".step.partial").mkdir()
        (local / ".step.partial" / "weights").write_text("1")
        time.sleep(0.3)
        assert not tf.io.gfile.exists(f"{remote}/.step.partial")
        (local / ".step.partial").rename(local / "step")
        deadline = time.monotonic() + 10
        while not tf.io.gfile.exists(f"{remote}/step/weights") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert tf.io.gfile.exists(f"{remote}/step/weights")
        (local / "step" / "weights").unlink()
        (local / "other").write_text("2")
    assert not tf.io.gfile.exists(f"{remote}/step/weights")
    assert tf.io.gfile.exists(f"{remote}/other")


def test_a_mirror_survives_a_temporary_storage_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    copy, failures = tf.io.gfile.copy, [tf.errors.UnavailableError(None, None, "not now"), OSError("nor now")]

    def copy_later(*arguments: Any, **options: Any) -> None:
        if failures:
            raise failures.pop()
        copy(*arguments, **options)

    monkeypatch.setattr(tf.io.gfile, "copy", copy_later)
    remote = f"ram://{tmp_path.name}/unsteady"
    with mirrored(tmp_path / "local", remote, seconds=0.05):
        (tmp_path / "local" / "weights").write_text("1")
        deadline = time.monotonic() + 10
        while not tf.io.gfile.exists(f"{remote}/weights"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_keys_depend_on_everything_the_work_is_made_from() -> None:
    assert key_of({"a": 1, "b": 2}, "x") == key_of({"b": 2, "a": 1}, "x")
    assert key_of({"a": 1}, "x") != key_of({"a": 1}, "y")
