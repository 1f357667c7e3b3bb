"""The local runner on a toy pipeline with a real metadata store."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from tfx_pipeline.runners.local import InterruptedRunError, run_locally
from tfx_pipeline.runners.local_output import run_lock
from xtr_tf.errors import InputError


def toy_pipeline(root: Path, text: str):
    import toy_components
    from tfx import v1 as tfx

    produce = toy_components.Produce(text=text)
    shout = toy_components.Shout(said=produce.outputs["said"])
    return tfx.dsl.Pipeline(
        pipeline_name="toy",
        pipeline_root=str(root / "artifacts"),
        components=[produce, shout],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(root / "metadata.sqlite")
        ),
    )


def test_a_run_prints_one_line_per_component_and_logs_the_rest(
    tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    results = run_locally(toy_pipeline(tmp_path, "hello"), tmp_path)
    shown = capfd.readouterr()
    assert [(result.component, result.cached) for result in results] == [("Produce", False), ("Shout", False)]
    assert "✓ Produce" in shown.out
    assert "noise" not in shown.out + shown.err
    assert shown.err == ""
    (log,) = (tmp_path / "logs").iterdir()
    assert "noise on standard output" in log.read_text()

    again = run_locally(toy_pipeline(tmp_path, "hello"), tmp_path)
    assert [result.cached for result in again] == [True, True]


def test_a_failing_component_is_reported_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    with pytest.raises(
        InputError,
        match=r"The component Shout failed: The text must not be wrong\. Received: wrong \(log: .*\.log\)\.$",
    ):
        run_locally(toy_pipeline(tmp_path, "wrong"), tmp_path)
    assert "✗ Shout" in capfd.readouterr().out


@pytest.mark.parametrize("where", ["stop", "stop training"])
def test_an_interrupted_run_says_where_it_stopped(
    tmp_path: Path, capfd: pytest.CaptureFixture, where: str
) -> None:
    with pytest.raises(
        InterruptedRunError, match=r"stopped in Shout; what was finished is kept.*goes on from"
    ):
        run_locally(toy_pipeline(tmp_path, where), tmp_path)
    assert "‖ Shout" in capfd.readouterr().out
    with run_lock(tmp_path):
        pass


def _hold(root: Path, held: multiprocessing.Event, release: multiprocessing.Event) -> None:  # type: ignore
    with run_lock(root):
        held.set()
        release.wait(30)


def test_a_second_run_on_the_same_root_is_refused(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, held, release))
    other.start()
    try:
        assert held.wait(30)
        with pytest.raises(InputError, match=f"in use by process {other.pid}"), run_lock(tmp_path):
            pass
    finally:
        release.set()
        other.join()
    with run_lock(tmp_path):
        pass
