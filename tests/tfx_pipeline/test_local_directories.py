"""Remote artifacts as local directories, on TensorFlow's in-memory file system."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tests.support.ram_file_system import RamFileSystem
from tfx_pipeline.storage import local_input, local_output
from xtr_tf.vectors.remote import RemoteFolder


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


def test_the_file_that_completes_an_artifact_is_copied_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is already remote is copied there before it, without being downloaded."""
    with tf.io.gfile.GFile("ram://bucket/earlier/c.npy", "w") as file:
        file.write("three")
    RamFileSystem.read.clear()
    copied: list[str] = []
    copy = tf.io.gfile.copy

    def note(source: str, target: str, overwrite: bool = False) -> None:
        copied.append(target.removeprefix("ram://bucket/whole/"))
        copy(source, target, overwrite)

    monkeypatch.setattr("tensorflow.io.gfile.copy", note)
    with local_output("ram://bucket/whole", last="a.json") as folder:
        (folder / "a.json").write_text("one")
        (folder / "b.npy").write_text("two")
        RemoteFolder("ram://bucket/earlier").link("c.npy", folder / "c.npy")
    assert copied == ["b.npy", "c.npy", "a.json"]
    assert sorted(tf.io.gfile.listdir("ram://bucket/whole")) == ["a.json", "b.npy", "c.npy"]
    assert not RamFileSystem.read
