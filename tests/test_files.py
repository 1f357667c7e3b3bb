"""Files and folders are whole or absent; what was left unfinished is known and can be removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory, is_unfinished, remove_unfinished, write_atomically


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_or_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, b"old")
    with pytest.raises(TypeError):
        write_atomically(file, "no bytes")  # type: ignore[arg-type]
    assert file.read_bytes() == b"old"
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_a_folder_appears_with_all_that_is_below_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"
    with atomic_directory(folder) as unfinished:
        (unfinished / "variables").mkdir()
        (unfinished / "variables" / "data").write_text("1")
        assert unfinished.parent == folder.parent
        assert not folder.exists()
    assert (folder / "variables" / "data").read_text() == "1"
    assert names(folder.parent) == ["model"]


def test_a_folder_that_exists_is_replaced_only_if_that_is_allowed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with atomic_directory(folder) as unfinished:
        (unfinished / "first").touch()
    with pytest.raises(InputError, match="The directory exists"), atomic_directory(folder):
        pytest.fail("refused before any work is done")
    with atomic_directory(folder, overwrite=True) as unfinished:
        (unfinished / "second").touch()
    assert names(folder) == ["second"]
    assert names(tmp_path) == ["model"]


def test_a_folder_that_somebody_else_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with pytest.raises(InputError, match="The directory exists"), atomic_directory(folder):
        (folder / "theirs").mkdir(parents=True)
    assert names(folder) == ["theirs"]
    assert names(tmp_path) == ["model"]


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".model.0123abcd.partial").mkdir()
    (tmp_path / ".file.0123abcd.partial").touch()
    for name in (".hidden", "model", "model.partial"):
        (tmp_path / name).mkdir()
    assert [path.name for path in sorted(tmp_path.iterdir()) if is_unfinished(path)] == [
        ".file.0123abcd.partial",
        ".model.0123abcd.partial",
    ]
    remove_unfinished(tmp_path)
    assert names(tmp_path) == [".hidden", "model", "model.partial"]
