"""Checkpoints appear whole, the latest and the best are kept."""

from __future__ import annotations

import pytest
import tensorflow as tf

from xtr_tf.errors import InputError
from xtr_tf.training.run_folder import CheckpointStore


def test_keeps_the_latest_and_the_best(tmp_path):
    value = tf.Variable(0.0)
    store = CheckpointStore(tmp_path / "checkpoints", tf.train.Checkpoint(value=value), keep=2)
    assert store.latest() is None
    assert store.best() is None
    for step, metric in ((10, 0.3), (20, 0.7), (30, float("nan")), (40, 0.7), (50, 0.1)):
        value.assign(step)
        store.save(step, metric)
    assert [checkpoint.step for checkpoint in store.all()] == [20, 40, 50]
    assert store.latest().step == 50
    assert store.best().step == 20
    store.restore(store.best())
    assert value.numpy() == 20


def test_a_checkpoint_that_was_not_finished_is_not_there(tmp_path, monkeypatch):
    value = tf.Variable(1.0)
    state = tf.train.Checkpoint(value=value)
    store = CheckpointStore(tmp_path, state, keep=1)
    store.save(1)

    def fail(path, options):
        raise OSError("disk full")

    monkeypatch.setattr(state, "write", fail)
    with pytest.raises(OSError, match="disk full"):
        store.save(2)
    assert [checkpoint.step for checkpoint in store.all()] == [1]
    assert len(list(tmp_path.iterdir())) == 1
    # A process that was killed leaves its temporary folder behind; it is never taken for a checkpoint.
    (tmp_path / ".step_000000003.01234567.partial").mkdir()
    (tmp_path / "step_000000004").mkdir()
    assert store.latest().step == 1
    monkeypatch.undo()
    store.save(2)
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_or_foreign_checkpoint_is_an_input_error(tmp_path):
    store = CheckpointStore(tmp_path, tf.train.Checkpoint(value=tf.Variable(1.0)), keep=1)
    store.save(1)
    other = CheckpointStore(tmp_path, tf.train.Checkpoint(value=tf.Variable([1.0, 2.0])), keep=1)
    with pytest.raises(InputError, match="does not fit"):
        other.restore(other.latest())
    for path in (tmp_path / "step_000000001").glob("state.data*"):
        path.write_bytes(b"")
    with pytest.raises(InputError, match="damaged"):
        store.restore(store.latest())
