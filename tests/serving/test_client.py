"""The clients against a real server, and against one that misbehaves."""

from __future__ import annotations

import asyncio
import itertools
import re
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

import serving.client
from serving.client import AsyncClient, Client, ClientError, SearchOptions
from serving.client.base import BaseClient
from serving.client.messages import MESSAGES

CODE = grpc.StatusCode


@pytest.fixture(scope="module")
def client(server):
    with Client(server.target) as client:
        yield client


def test_search(client):
    result = client.search("héllo")
    assert result.query == "héllo"
    assert result.versions == (3,)
    assert [document.id for document in result.documents] == ["v3:héllo", "V3:HéLLO"]
    assert result.documents[0].score == 6
    assert result.documents[0].title == ""


def test_options_choose_the_signature_that_takes_them(client):
    result = client.search("a", SearchOptions(top_k=3))
    assert [document.title for document in result.documents] == ["V3:A"] * 3
    assert result.documents[0].language == "en"
    assert result.documents[0].score == 7  # the model's own k_prime
    assert client.search("a", SearchOptions(k_prime=40)).documents[0].score == 40


def test_batches_are_cut_to_size_and_stay_in_order(server):
    queries = [f"query {number}" for number in range(150)]
    with Client(server.target, batch_size=64) as client:
        results = client.search_batch(queries)
    assert [result.documents[0].id for result in results] == [f"v3:{query}" for query in queries]
    assert client.search_batch([]) == []


def test_any_signature_can_be_run(client):
    options = SearchOptions(top_k=2, constant=1, languages=["de", "fr"])
    assert options.inputs(2) == {"top_k": [2, 2], "constant": [1.0, 1.0], "languages": ["de,fr"] * 2}
    prediction = client.predict("search", {"query": ["a", "b"], "top_k": [1, 1]})
    assert prediction.version == 3
    assert prediction.outputs["document_ids"].shape == (2, 1)
    assert list(prediction.outputs["document_ids"].values) == [b"v3:a", b"v3:b"]


def test_several_servers_behind_one_name_share_the_calls(start_server, toy_models, model_base):
    with start_server("--model-base", toy_models) as one, start_server("--model-base", model_base) as other:
        target = f"ipv4:127.0.0.1:{one.port},127.0.0.1:{other.port}"
        with Client(target) as client:
            one.wait_until(lambda: {client.search("a").versions[0] for _ in range(4)} == {1, 3})
            versions = [client.search("a").versions[0] for _ in range(20)]
            assert versions.count(3) == 10
            other.process.send_signal(signal.SIGTERM)
            other.process.wait(20)
            assert {client.search("a").versions for _ in range(10)} == {(3,)}

        async def ask() -> list[int]:
            async with AsyncClient(target) as asynchronous:
                return [(await asynchronous.search("a")).versions[0] for _ in range(10)]

        assert set(asyncio.run(ask())) == {3}


def test_versions_labels_and_status(server, client):
    assert client.status() == {3: "AVAILABLE"}
    with Client(server.target, version=3) as named:
        assert named.search("a").versions == (3,)
    for options, code in (({"version": 9}, CODE.NOT_FOUND), ({"label": "x"}, CODE.INVALID_ARGUMENT)):
        with Client(server.target, **options) as wrong, pytest.raises(ClientError) as caught:
            wrong.search("a")
        assert caught.value.code is code
    with pytest.raises(ValueError, match="not both"):
        Client(server.target, version=1, label="x")


def test_what_the_server_says_is_passed_on(client):
    with pytest.raises(ClientError) as caught:
        client.search("refuse me")
    assert caught.value.code is CODE.INVALID_ARGUMENT
    assert caught.value.message == "`query` is not welcome. Received: refuse me."
    with pytest.raises(ClientError) as caught:
        client.search_batch(["a"], signature="double")
    assert caught.value.code is CODE.INVALID_ARGUMENT


def test_a_client_may_be_shared_by_threads(client, in_threads):
    for index, result in enumerate(in_threads(20, lambda index: client.search(f"q{index}"))):
        assert result.documents[0].id == f"v3:q{index}"


def test_asyncio(server):
    async def main() -> None:
        async with AsyncClient(server.target) as client:
            results = await asyncio.gather(*(client.search(f"q{index}") for index in range(50)))
            assert [result.documents[0].id for result in results] == [f"v3:q{index}" for index in range(50)]
            assert (await client.search_batch(["a", "b"], SearchOptions(top_k=1)))[1].documents[
                0
            ].title == "V3:B"
            assert (await client.predict("search", {"query": ["a"]})).version == 3
            assert await client.status() == {3: "AVAILABLE"}
            with pytest.raises(ClientError) as caught:
                await client.search("refuse me")
            assert caught.value.code is CODE.INVALID_ARGUMENT

    asyncio.run(main())


class Stub:
    """A server that fails as told before it answers."""

    def __init__(self, *failures: grpc.StatusCode, seconds: float = 0.0, answer: bytes | None = None) -> None:
        self.failures = list(failures)
        self.calls: list[float] = []
        self.seconds = seconds
        response = MESSAGES["PredictResponse"]()
        response.outputs["document_ids"].dtype = 7
        response.outputs["scores"].dtype = 1
        for name in ("document_ids", "scores"):
            for _ in range(2):
                response.outputs[name].tensor_shape.dim.add(size=1)
        self.answer = response.SerializeToString() if answer is None else answer

    def predict(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append(time.monotonic())
        time.sleep(self.seconds)
        if self.failures:
            context.abort(self.failures.pop(0), "as told")
        return self.answer

    def __enter__(self) -> Stub:
        handler = grpc.unary_unary_rpc_method_handler(self.predict)
        service = "tensorflow.serving.PredictionService"
        self.server = grpc.server(ThreadPoolExecutor(2))
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {"Predict": handler}),)
        )
        self.target = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.server.stop(0)


def search_in(kind: str, target: str, **options: object):
    if kind == "sync":
        with Client(target, **options) as client:
            return client.search("a")

    async def main():
        async with AsyncClient(target, **options) as client:
            return await client.search("a")

    return asyncio.run(main())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_unavailable_is_retried_with_growing_delays(kind, monkeypatch):
    delays: list[float] = []
    delay = BaseClient.delay

    def noted(self: BaseClient, *arguments: object) -> float:
        delays.append(delay(self, *arguments))
        return delays[-1]

    monkeypatch.setattr(BaseClient, "delay", noted)
    with Stub(CODE.UNAVAILABLE, CODE.UNAVAILABLE, CODE.UNAVAILABLE) as stub:
        assert search_in(kind, stub.target, attempts=4).documents[0].id == ""
    for chosen, longest in zip(delays, (0.1, 0.2, 0.4), strict=True):
        assert longest / 2 <= chosen <= longest
    waited = [later - earlier for earlier, later in itertools.pairwise(stub.calls)]
    for chosen, seconds in zip(delays, waited, strict=True):
        assert seconds > 0.9 * chosen


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(
    "code",
    [CODE.INVALID_ARGUMENT, CODE.NOT_FOUND, CODE.RESOURCE_EXHAUSTED, CODE.INTERNAL, CODE.DEADLINE_EXCEEDED],
)
def test_nothing_else_is_retried(kind, code):
    with Stub(code) as stub, pytest.raises(ClientError) as caught:
        search_in(kind, stub.target)
    assert caught.value.code is code
    assert len(stub.calls) == 1


def test_attempts_and_deadline_are_bounds():
    with Stub(*[CODE.UNAVAILABLE] * 10) as stub, pytest.raises(ClientError, match="UNAVAILABLE: as told"):
        search_in("sync", stub.target, attempts=2)
    assert len(stub.calls) == 2
    with Stub(seconds=5.0) as stub:
        start = time.monotonic()
        with pytest.raises(ClientError) as caught:
            search_in("sync", stub.target, timeout=0.3)
        assert time.monotonic() - start < 4
    assert caught.value.code is CODE.DEADLINE_EXCEEDED


def test_a_server_that_answers_nonsense():
    for answer in (b"\xff" * 10, b"", MESSAGES["PredictResponse"]().SerializeToString()):
        with Stub(answer=answer) as stub, pytest.raises(ClientError):
            search_in("sync", stub.target)


def test_no_server_is_an_error_and_not_a_hang():
    start = time.monotonic()
    with pytest.raises(ClientError) as caught:
        search_in("sync", "127.0.0.1:1", attempts=2)
    assert caught.value.code is CODE.UNAVAILABLE
    assert time.monotonic() - start < 5


def serve(command: str, models: Path, port: str = "0", seconds: float = 30) -> tuple[subprocess.Popen, str]:
    """Starts a server and returns it with its port; somebody may hold the port for a while."""
    arguments = [command, "serve", "--model-base", str(models), "--rest-port", "-1", "--port", port]
    deadline = time.monotonic() + seconds
    while True:
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        if found := re.search(r"gRPC [\d.]+:(\d+)", process.stdout.readline()):
            return process, found[1]
        assert process.wait(30)
        assert time.monotonic() < deadline


def wait_for_answer(answered: list[float], after: float, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not answered or answered[-1] < after:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_kill_and_restart_under_load(toy_models, command):
    """A server is killed and started again on the same port; clients only notice that it took longer."""
    process, port = serve(command, toy_models)
    stop = threading.Event()
    answered: list[float] = []
    failures: list[object] = []

    def work(thread: int) -> None:
        with Client(f"127.0.0.1:{port}", timeout=60, attempts=100) as client:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    found = client.search(f"{thread}.{number}").documents[0].id
                except ClientError as error:
                    failures.append(error)
                    continue
                answered.append(time.monotonic())
                if found != f"v3:{thread}.{number}":
                    failures.append(found)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_for_answer(answered, after=time.monotonic() + 0.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed = time.monotonic()
        process, _ = serve(command, toy_models, port)
        wait_for_answer(answered, after=time.monotonic() + 1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        process.terminate()
        process.wait(30)
    assert not failures
    assert min(answered) < killed < max(answered)


def test_the_folder_can_be_copied_and_needs_only_grpc_and_protobuf(server, tmp_path, fresh_python):
    source = Path(serving.client.__file__).parent
    shutil.copytree(source, tmp_path / "vendored", ignore=shutil.ignore_patterns("sharded.py", "__pycache__"))
    fresh_python(
        """
        import sys
        for absent in ("numpy", "tensorflow", "tensorflow_serving", "xtr_tf", "serving"):
            sys.modules[absent] = None
        sys.path.insert(0, sys.argv[1])
        from vendored import Client
        with Client(sys.argv[2]) as client:
            assert client.search("a").documents[0].id == "v3:a"
        """,
        tmp_path,
        server.target,
    )


def test_the_client_and_tensorflow_can_be_in_one_process(server, fresh_python):
    fresh_python(
        """
        import sys
        from serving.client import Client
        from xtr_tf.runtime.protos import import_proto
        import_proto("tensorflow_serving.apis.predict_pb2")
        with Client(sys.argv[1]) as client:
            assert client.search("a").documents[0].id == "v3:a"
        assert "tensorflow" not in sys.modules
        """,
        server.target,
    )
