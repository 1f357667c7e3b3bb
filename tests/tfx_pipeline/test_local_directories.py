"""Remote artifacts as local directories, on TensorFlow's in-memory file system."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tfx_pipeline.storage import local_input, local_output


def test_a_local_artifact_is_used_in_place(tmp_path: Path) -> None:
    with local_output(str(tmp_path / "new")) as folder:
        assert folder == tmp_path / "new"
        (folder / "file").write_text("text")
    with local_input(str(tmp_path / "new")) as folder:
        assert folder == tmp_path / "new"
        assert (folder / "file").read_text() == "text"


def test_a_remote_artifact_is_copied_there_and_back() -> None:
    with local_output("ram://bucket/artifact") as folder:
        (folder / "below" / "deeper").mkdir(parents=True)
        (folder / "file").write_text("one")
        (folder / "below" / "deeper" / "file").write_bytes(b"\x00two")
        assert not tf.io.gfile.exists("ram://bucket/artifact/file")
    assert not folder.exists()
    with local_input("ram://bucket/artifact") as folder:
        files = {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }
    assert files == {"file": b"one", "below/deeper/file": b"\x00two"}
    assert not folder.exists()


def test_the_output_of_a_failed_component_is_not_uploaded() -> None:
    def fail() -> None:
        with local_output("ram://bucket/failed") as folder:
            (folder / "file").write_text("half")
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fail()
    assert not tf.io.gfile.exists("ram://bucket/failed/file")
