"""New versions while requests come in: none is lost or mixed, and no broken version is served."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from pathlib import Path

import grpc
import numpy as np
import pytest

from xtr_tf.files import MARKER, checksums_of

FAST = ("--poll-seconds", "0.05")


def push(models: Path, base: Path, version: int) -> Path:
    """Publishes a version as a pusher does: written aside, then renamed."""
    staging = base / f".{version}.partial"
    shutil.copytree(models / str(version), staging)
    return staging.rename(base / str(version))


class Load:
    """Sends requests from threads until told to stop, and keeps what came back."""

    def __init__(self, calls, threads: int = 4) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.errors: list[Exception] = []
        self._calls = calls
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(threads)]

    def _run(self, thread: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            queries = [f"{thread}.{number}.{row}" for row in range(1 + number % 3)]
            try:
                response = self._calls.predict(queries)
            except grpc.RpcError as error:
                self.errors.append(error)
                continue
            version = response.model_spec.version.value
            expected = [text for query in queries for text in (f"v{version}:{query}", f"V{version}:{query}")]
            if [text.decode() for text in response.outputs["document_ids"].string_val] != expected:
                self.errors.append(AssertionError(str(response)))
            self.answers.append((version, queries[0].encode()))

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


def test_swaps_under_load_lose_and_mix_nothing(start_server, connect, toy_models, model_base):
    with start_server("--model-base", model_base, *FAST) as server:
        calls = connect(server.target)
        with Load(calls) as load:
            for version in (2, 3):
                time.sleep(0.3)
                push(toy_models, model_base, version)
                calls.wait_for(version)
                calls.wait_for(version - 1, "END")
            time.sleep(0.2)
        assert not load.errors
        assert {version for version, _ in load.answers} == {1, 2, 3}
        states = [(line["version"], line["state"]) for line in server.log() if line["event"] == "version"]
        # The old one takes traffic until the new one does, and is gone before the next one is loaded.
        assert states == [
            *((1, "LOADING"), (1, "AVAILABLE")),
            *((2, "LOADING"), (2, "AVAILABLE"), (1, "UNLOADING"), (1, "END")),
            *((3, "LOADING"), (3, "AVAILABLE"), (2, "UNLOADING"), (2, "END")),
        ]


def test_a_request_in_progress_keeps_its_version(start_server, connect, toy_models, model_base):
    with start_server("--model-base", model_base, *FAST) as server:
        calls = connect(server.target)
        inputs = {"query": np.array([b"a"], object), "seconds": np.array(4.0)}
        answers = []
        slow = threading.Thread(
            target=lambda: answers.append(calls.predict(signature="sleep", inputs=inputs))
        )
        slow.start()
        server.wait_for_requests(1)
        push(toy_models, model_base, 2)
        states = calls.wait_for(2)
        assert states[1][0] == "UNLOADING"
        slow.join()
        assert answers[0].model_spec.version.value == 1
        calls.wait_for(1, "END")


def test_a_request_without_end_does_not_hold_its_version(start_server, connect, toy_models, model_base):
    with start_server("--model-base", model_base, "--drain-seconds", "0.5", *FAST) as server:
        calls = connect(server.target)
        inputs = {"query": np.array([b"a"], object), "seconds": np.array(1e6)}
        errors: list[grpc.RpcError] = []

        def ask() -> None:
            try:
                calls.predict(signature="sleep", inputs=inputs, timeout=None)
            except grpc.RpcError as error:
                errors.append(error)

        endless = [threading.Thread(target=ask) for _ in range(4)]  # more than there are workers
        for thread in endless:
            thread.start()
        server.wait_for_requests(4)
        push(toy_models, model_base, 2)
        calls.wait_for(1, "END")
        for thread in endless:
            thread.join(20)
        assert [error.code() for error in errors] == [grpc.StatusCode.UNAVAILABLE] * 4
        assert {error.details() for error in errors} == {
            "Version 1 of model default was unloaded before it could answer; try again."
        }
        assert calls.predict().model_spec.version.value == 2  # and the workers are free again
        push(toy_models, model_base, 3)
        calls.wait_for(3)
        [event] = [line for line in server.log() if line["event"] == "cancelled"]
        assert event["requests"] == 4


def test_rollback_by_removing_the_version(start_server, connect, toy_models, model_base):
    push(toy_models, model_base, 2)
    with start_server("--model-base", model_base, *FAST) as server:
        calls = connect(server.target)
        assert calls.predict().model_spec.version.value == 2
        with Load(calls) as load:
            shutil.rmtree(model_base / "2")
            calls.wait_for(1)
            calls.wait_for(2, "END")
        assert not load.errors
        assert calls.predict().model_spec.version.value == 1
        shutil.rmtree(model_base)
        time.sleep(0.3)
        assert calls.predict().model_spec.version.value == 1  # nothing left to go to


def break_nothing_copied(version: Path) -> None:
    for path in version.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def break_variables_missing(version: Path) -> None:
    shutil.rmtree(version / "variables")


def break_variables_cut(version: Path) -> None:
    data = next((version / "variables").glob("variables.data*"))
    data.write_bytes(data.read_bytes()[:1000])


def break_variables_garbled(version: Path) -> None:
    index = version / "variables" / "variables.index"
    index.write_bytes(bytes(255 - byte for byte in index.read_bytes()))


def break_graph(version: Path) -> None:
    graph = version / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:-100])


def break_warm_up(version: Path) -> None:
    (version / "assets.extra").mkdir()
    (version / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"not a record")


BROKEN = [
    (break_nothing_copied, "holds a file `saved_model.pb`"),
    (break_variables_missing, "variables are missing"),
    (break_variables_cut, "cannot load the model"),
    (break_variables_garbled, "cannot load the model"),
    (break_graph, "is damaged"),
    (break_warm_up, "Warm-up failed: corrupted record"),
]


def test_broken_versions_are_refused_and_reported_and_the_old_one_serves(
    start_server, connect, toy_models, model_base, tmp_path
):
    with start_server("--model-base", model_base, *FAST) as server:
        calls = connect(server.target)
        with Load(calls, threads=2) as load:
            for number, (break_it, message) in enumerate(BROKEN, start=10):
                staging = tmp_path / str(number)
                shutil.copytree(toy_models / "2", staging)
                break_it(staging)
                staging.rename(model_base / str(number))
                states = calls.wait_for(number, "END")
                assert message in states[number][2]
                assert states[number][1] != 0
                assert states[1][0] == "AVAILABLE"
        assert not load.errors
        assert {version for version, _ in load.answers} == {1}
        # A sound version with a higher number is taken all the same.
        (toy := tmp_path / "99").mkdir()
        shutil.copytree(toy_models / "2", toy, dirs_exist_ok=True)
        toy.rename(model_base / "99")
        calls.wait_for(99)


def test_a_version_copied_in_place_is_taken_once_it_is_whole(start_server, connect, toy_models, model_base):
    with start_server("--model-base", model_base, *FAST) as server:
        calls = connect(server.target)
        target = model_base / "2"
        (target / "variables").mkdir(parents=True)
        for path in sorted((toy_models / "2").rglob("*")):
            if path.is_file():
                time.sleep(0.15)
                shutil.copy(path, target / path.relative_to(toy_models / "2"))
                assert calls.predict().model_spec.version.value in (1, 2)
        calls.wait_for(2)
        assert calls.predict().model_spec.version.value == 2


def test_a_marker_says_that_a_version_is_whole(start_server, connect, toy_models, model_base):
    def copy_marked(number: int) -> Path:
        """Copies file by file in place, the marker first, as a careless tool does."""
        marked = model_base.parent / "marked"
        shutil.copytree(toy_models / "2", marked)
        (marked / MARKER).write_text(checksums_of(marked))
        subprocess.run(["sha256sum", "--check", "--quiet", MARKER], cwd=marked, check=True)
        target = model_base / str(number)
        (target / "variables").mkdir(parents=True)
        for path in (marked / MARKER, *(path for path in marked.rglob("*") if path.name != MARKER)):
            if path.is_file():
                shutil.copy(path, target / path.relative_to(marked))
        return target

    with start_server("--model-base", model_base, "--require-marker", *FAST) as server:
        calls = connect(server.target)
        with pytest.raises(grpc.RpcError) as caught:  # version 1 has no marker
            calls.predict()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        (model_base / "1" / MARKER).write_text(checksums_of(model_base / "1"))
        calls.wait_for(1)
        target = model_base / "2"
        target.mkdir()
        (target / MARKER).write_text(f"{'0' * 64}  saved_model.pb\n")
        states = calls.wait_for(2, "END")
        assert "1 files of the version are missing or differ" in states[2][2]
        shutil.rmtree(target)
        copy_marked(3)
        calls.wait_for(3)
        assert calls.predict().model_spec.version.value == 3


def test_a_start_with_a_broken_newest_version_serves_the_one_before(
    start_server, connect, toy_models, model_base
):
    broken = push(toy_models, model_base, 2)
    break_variables_cut(broken)
    with start_server("--model-base", model_base, *FAST) as server:
        calls = connect(server.target)
        assert calls.predict().model_spec.version.value == 1
        assert calls.status()[2][0] == "END"


def test_a_server_may_start_before_its_first_version(start_server, connect, toy_models, tmp_path):
    base = tmp_path / "empty"
    base.mkdir()
    with start_server("--model-base", base, *FAST) as server:
        calls = connect(server.target)
        with pytest.raises(grpc.RpcError) as caught:
            calls.predict()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        push(toy_models, base, 1)
        deadline = time.monotonic() + 20
        while not _answers(calls):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _answers(calls) -> bool:
    try:
        calls.predict()
    except grpc.RpcError:
        return False
    return True
