"""A file that is edited in place gets another hash, on local and remote file systems."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tfx_pipeline.content import content_hash


@pytest.mark.parametrize("remote", [False, True])
def test_an_edit_in_place_changes_the_hash(tmp_path: Path, remote: bool) -> None:
    # TensorFlow's file system in memory stands for one in a cloud.
    path = f"ram://{tmp_path.name}-content/schema.pbtxt" if remote else str(tmp_path / "schema.pbtxt")
    hashes = [content_hash(path)]
    for text in ("a", "b"):
        with tf.io.gfile.GFile(path, "w") as file:
            file.write(text)
        hashes.append(content_hash(path))
    assert hashes[0] == ""
    assert len(set(hashes)) == 3


def test_google_is_not_called_without_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    assert content_hash("gs://my-bucket/schema.pbtxt") == ""
