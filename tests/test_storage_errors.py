"""Full, limited and read-only disks: one sentence with the path, what is needed and what is free."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.files import StorageError, atomic_directory, write_atomically, writing

MEGABYTE = 1 << 20


def told(error: pytest.ExceptionInfo[OSError], path: Path) -> str:
    sentence = str(error.value)
    assert sentence.endswith(f"Received: {str(path)!r}.")
    assert " are free; make room and run the same command again" in sentence
    return sentence


def test_a_file_that_does_not_fit(small_disk: Path) -> None:
    with pytest.raises(StorageError) as error:
        write_atomically(small_disk / "file", bytes(2 * MEGABYTE))
    assert "2.1 MB are needed and " in told(error, small_disk / "file")
    assert list(small_disk.iterdir()) == []


def test_a_folder_that_does_not_fit(small_disk: Path) -> None:
    with pytest.raises(StorageError) as error, atomic_directory(small_disk / "index") as folder:
        np.save(folder / "codes.npy", np.zeros(2 * MEGABYTE, np.uint8))
    told(error, small_disk / "index")
    assert list(small_disk.iterdir()) == []


def test_an_array_that_is_mapped_is_refused_before_a_page_kills_the_process(small_disk: Path) -> None:
    from xtr_tf.index.folder import create_array

    with pytest.raises(StorageError) as error, atomic_directory(small_disk / "index") as folder:
        create_array(folder, "codes", (2 * MEGABYTE,), np.dtype(np.uint8))[:] = 1
    assert "2.1 MB are needed" in str(error.value)
    assert "codes.npy" in str(error.value)


def test_what_tensorflow_cannot_write(small_disk: Path) -> None:
    import tensorflow as tf

    with pytest.raises(StorageError) as error, atomic_directory(small_disk / "1") as folder:
        tf.raw_ops.SaveV2(
            prefix=str(folder / "variables"),
            tensor_names=["index"],
            shape_and_slices=[""],
            tensors=[tf.zeros([2 * MEGABYTE])],
        )
    told(error, small_disk / "1")
    assert list(small_disk.iterdir()) == []


def test_a_read_only_file_system(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as error, writing(tmp_path / "index"):
        raise OSError(30, "Read-only file system", str(tmp_path / "index" / "codes.npy"))
    place = str(tmp_path / "index" / "codes.npy")
    assert str(error.value) == f"The file system is read-only; choose another place. Received: {place!r}."


def test_the_command_line_says_it(small_disk: Path) -> None:
    """Also errors at paths that our writers did not name."""
    script = (
        "import sys; from unittest import mock; from xtr_tf.cli import app\n"
        f"error = OSError(28, 'No space left on device', {str(small_disk / 'x')!r})\n"
        "with mock.patch.object(app, 'app', side_effect=error): app.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("xtr-tf: The disk is full: ")
    assert ended.stderr.count("\n") == 1


def test_what_a_killed_writer_left_is_swept_by_the_next(tmp_path: Path) -> None:
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    left = tmp_path / f".index.{int(dead.stdout)}-01234567.partial"
    other = tmp_path / ".other.1-01234567.partial"
    mine = tmp_path / f".index.{os.getpid()}-01234567.partial"
    old_form = tmp_path / ".index.0123abcd.partial"
    for folder in (left, other, mine, old_form):
        folder.mkdir()
    with atomic_directory(tmp_path / "index"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other.name, mine.name, "index"])


CHILD = """
import time
from xtr_tf.processes import die_with_parent
die_with_parent()
print("up", flush=True)
time.sleep(60)
"""
PARENT = f"""
import os, signal, subprocess, sys
from xtr_tf.processes import child_environment
command = [sys.executable, "-c", {CHILD!r}]
process = subprocess.Popen(command, stdout=subprocess.PIPE, env=child_environment())
process.stdout.readline()
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_children_end_with_their_parent() -> None:
    ended = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True, check=False)
    status = Path("/proc", ended.stdout.strip(), "status")
    deadline = time.monotonic() + 20
    while status.is_file() and "zombie" not in status.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
