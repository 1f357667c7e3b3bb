"""A blessed model is pushed once, and a model that is not blessed is never pushed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from artifacts_on_disk import new_artifact, push_model
from tfx.types import standard_artifacts
from tfx.utils import io_utils

from tfx_pipeline.components.pusher import newest_version
from xtr_tf.files import changed_files


def push(folder: Path, name: str, corpus: str, created: str, blessed: bool = True) -> Any:
    model = new_artifact(standard_artifacts.Model, folder / name)
    serving = folder / name / "Format-Serving"
    serving.mkdir()
    (serving / "saved_model.pb").write_bytes(b"graph")
    # When it was made and what memory it took are never quite the same.
    card = {"corpus": {"sha256": corpus}, "created": created, "memory": {"peak_bytes": len(created)}}
    (serving / "model_card.json").write_text(json.dumps(card))
    return push_model(model, folder / f"{name}-push", str(folder / "serving"), blessed)


def test_the_model_in_production_is_not_pushed_again(tmp_path: Path) -> None:
    first = push(tmp_path, "first", corpus="a", created="monday")
    version = first.get_string_custom_property("pushed_destination")
    assert newest_version(str(tmp_path / "serving")) == version
    (tmp_path / "serving" / Path(version).name).rename(tmp_path / "serving" / "7")
    again = push(tmp_path, "again", corpus="a", created="tuesday")
    assert again.get_string_custom_property("pushed_version") == "7"
    assert [path.name for path in (tmp_path / "serving").iterdir()] == ["7"]
    other = push(tmp_path, "other", corpus="b", created="wednesday")
    assert int(other.get_string_custom_property("pushed_version")) > 7


def test_a_version_appears_only_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that looks while files are copied never sees an incomplete version."""
    seen: list[str] = []
    copy = io_utils.copy_file

    def look_and_copy(*arguments: Any, **options: Any) -> None:
        seen.append(newest_version(str(tmp_path / "serving")))
        copy(*arguments, **options)

    monkeypatch.setattr(io_utils, "copy_file", look_and_copy)
    (tmp_path / "serving" / ".pushing" / "7").mkdir(parents=True)  # of a run that was killed
    pushed = push(tmp_path, "first", corpus="a", created="monday")
    assert set(seen) == {""}
    version = Path(pushed.get_string_custom_property("pushed_destination"))
    assert sorted(path.name for path in version.iterdir()) == [
        *("_SUCCESS", "model_card.json", "saved_model.pb")
    ]
    assert changed_files(version) == []
    assert list((tmp_path / "serving").iterdir()) == [version]


def test_in_an_object_store_the_marker_is_written_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    copy = io_utils.copy_file

    def look_and_copy(*arguments: Any, **options: Any) -> None:
        seen.append(any((tmp_path / "serving").rglob("_SUCCESS")))
        copy(*arguments, **options)

    monkeypatch.setattr(io_utils, "copy_file", look_and_copy)
    monkeypatch.setattr("tfx_pipeline.components.pusher.is_remote", lambda path: True)
    pushed = push(tmp_path, "first", corpus="a", created="monday")
    version = Path(pushed.get_string_custom_property("pushed_destination"))
    assert seen
    assert not any(seen)
    assert changed_files(version) == []
    (version / "saved_model.pb").write_bytes(b"another")
    assert changed_files(version) == ["saved_model.pb"]


def test_a_model_that_is_not_blessed_is_not_pushed(tmp_path: Path) -> None:
    push(tmp_path, "first", corpus="a", created="monday")
    refused = push(tmp_path, "second", corpus="b", created="tuesday", blessed=False)
    assert refused.get_int_custom_property("pushed") == 0
    assert len(list((tmp_path / "serving").iterdir())) == 1


def test_the_newest_version_has_the_largest_number(tmp_path: Path) -> None:
    assert newest_version(str(tmp_path / "none")) == ""
    for name in ("9", "10", ".11.partial", "notes"):
        (tmp_path / name).mkdir()
    assert newest_version(str(tmp_path)) == str(tmp_path / "10")
