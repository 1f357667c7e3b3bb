"""Toy retrievers with a retriever's public signatures, and real server processes to serve them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.processes import COMMAND

# Run in a process of its own, so that this one stays free of TensorFlow: the server's parts are
# tested here in the state in which they run.
_BUILD = """
    import os, sys
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    class Toy(tf.Module):
        def __init__(self, version):
            super().__init__()
            self.version = tf.Variable(version)
            self.ballast = tf.Variable(tf.zeros([1 << 16]))

        def name(self):
            return tf.strings.join(["v", tf.strings.as_string(self.version)])

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="query")])
        def serving_default(self, query):
            refused = tf.reduce_any(query == "refuse me")
            check = tf.debugging.Assert(~refused, ["`query` is not welcome. Received:", query])
            with tf.control_dependencies([check]):
                first = tf.strings.join([self.name(), ":", query])
            lengths = tf.cast(tf.strings.length(query), tf.float32)
            return {
                "document_ids": tf.stack([first, tf.strings.upper(first)], axis=1),
                "scores": tf.stack([lengths, tf.fill(tf.shape(lengths), 0.2)], axis=1),
            }

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.string, name="query"),
                tf.TensorSpec([None], tf.int32, name="k_prime"),
                tf.TensorSpec([None], tf.int32, name="top_k"),
            ]
        )
        def search(self, query, k_prime=tf.constant([7]), top_k=tf.constant([2])):
            columns = tf.reduce_max(top_k)
            ids = tf.tile(tf.strings.join([self.name(), ":", query])[:, tf.newaxis], [1, columns])
            return {
                "document_ids": ids,
                "titles": tf.strings.upper(ids),
                "languages": tf.fill(tf.shape(ids), "en"),
                "scores": tf.broadcast_to(tf.cast(k_prime, tf.float32)[:, tf.newaxis], tf.shape(ids)),
            }

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="query"),
                                      tf.TensorSpec([], tf.float64, name="seconds")])
        def sleep(self, query, seconds):
            end = tf.timestamp() + seconds
            tf.while_loop(lambda now: now < end, lambda now: (tf.timestamp(),), (tf.timestamp(),))
            with tf.control_dependencies([end]):
                return {"query": tf.identity(query)}

        @tf.function(input_signature=[tf.TensorSpec([2, None], tf.float32, name="matrix")])
        def double(self, matrix):
            return {"doubled": 2.0 * matrix}

    for version in map(int, sys.argv[2:]):
        toy = Toy(version)
        directory = os.path.join(sys.argv[1], str(version))
        signatures = {n: getattr(toy, n) for n in ("serving_default", "search", "sleep", "double")}
        tf.saved_model.save(toy, directory, signatures=signatures)

    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    def log(text):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "any"
        request.inputs["query"].CopyFrom(tf.make_tensor_proto([text]))
        return prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))

    def write(name, logs):
        with tf.io.TFRecordWriter(os.path.join(sys.argv[1], name)) as writer:
            for record in logs:
                writer.write(record if isinstance(record, bytes) else record.SerializeToString())

    write("good", [log("a"), log("b" * 1000), log("")])
    write("refused", [log("a"), log("refuse me")])
    write("classify", [prediction_log_pb2.PredictionLog(classify_log=prediction_log_pb2.ClassifyLog())])
    write("garbage", [b"\\xff" * 30])
    write("many", [log("a")] * 1001)
    slow = log("a")
    slow.predict_log.request.model_spec.signature_name = "sleep"
    slow.predict_log.request.inputs["seconds"].CopyFrom(tf.make_tensor_proto(2.0, tf.float64))
    write("slow", [slow])
    write("empty", [])
"""


@pytest.fixture(scope="session")
def toy_models(built_once: Callable[..., Path]) -> Path:
    """Versions 1, 2 and 3 of a toy model, which answer with their number, and files of warm-up requests."""

    def build(folder: Path) -> None:
        folder.mkdir()
        command = [sys.executable, "-c", textwrap.dedent(_BUILD), str(folder), "1", "2", "3"]
        subprocess.run(command, check=True, timeout=300)

    return built_once("toy_models", build)


@pytest.fixture
def model_base(toy_models: Path, tmp_path: Path) -> Path:
    """A base directory for one test, with version 1."""
    base = tmp_path / "base"
    shutil.copytree(toy_models / "1", base / "1")
    return base


@dataclasses.dataclass
class RunningServer:
    """A server process."""

    process: subprocess.Popen[str]
    port: int
    rest_port: int | None
    log_file: Path

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def log(self) -> list[dict[str, Any]]:
        """Returns what has been written to standard error, of which every line is JSON."""
        lines = self.log_file.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def rest(self, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Sends a REST request and returns the status and the JSON answered."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest_port}{path}", data, headers or {})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                status, content = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content.decode()

    def wait_for_requests(self, count: int, seconds: float = 30) -> None:
        """Waits until `count` requests are in progress, not counting the one that asks for the metrics."""
        expected = f"xtr_serving_requests_in_flight {count + 1:.1f}"
        self.wait_until(lambda: expected in self.rest("/monitoring/prometheus/metrics")[1], seconds)

    @staticmethod
    def wait_until(condition: Callable[[], Any], seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * 4096


@contextmanager
def running_server(*arguments: str | Path) -> Iterator[RunningServer]:
    """Starts `xtr-tf serve` on free ports and ends it."""
    log_file = Path(tempfile.mkstemp(suffix=".log")[1])
    command = [COMMAND, "serve", "--port", "0", "--rest-port", "0", *map(str, arguments)]
    with log_file.open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"gRPC [\d.]+:(\d+)(?:, REST https?://[\d.]+:(\d+))?", line)
        assert found, f"{line!r} {log_file.read_text()}"
        yield RunningServer(process, int(found[1]), int(found[2]) if found[2] else None, log_file)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        log_file.unlink()


@pytest.fixture(scope="session")
def command() -> str:
    """The `xtr-tf` command."""
    return COMMAND


@pytest.fixture(scope="session")
def start_server() -> Callable[..., Any]:
    return running_server


@pytest.fixture(scope="session")
def server(toy_models: Path) -> Iterator[RunningServer]:
    """A server that every test may use and none may change; it serves version 3."""
    with running_server("--model-base", toy_models, "--log-sampling", "1") as started:
        yield started


class Calls:
    """TensorFlow Serving's methods over one channel, with the real messages."""

    def __init__(self, target: str, channel: grpc.Channel | None = None) -> None:
        from serving.server import protos

        self.protos = protos
        self.channel = channel or grpc.insecure_channel(target)

    def raw(self, method: str, data: bytes, service: str = "PredictionService", **options: Any) -> bytes:
        call = self.channel.unary_unary(f"/tensorflow.serving.{service}/{method}")
        return call(data, timeout=options.pop("timeout", 30), **options)

    def predict(self, query: Any = ("a",), **options: Any) -> Any:
        """Sends strings to `serving_default`, or what `inputs` says to `signature`."""
        request = self.request(query, **{k: options.pop(k) for k in list(options) if k in _REQUEST_FIELDS})
        return self.protos.predict_pb2.PredictResponse.FromString(
            self.raw("Predict", request.SerializeToString(), **options)
        )

    def request(
        self,
        query: Any = ("a",),
        model: str = "default",
        version: int | None = None,
        label: str | None = None,
        signature: str = "",
        inputs: dict[str, Any] | None = None,
        output_filter: tuple[str, ...] = (),
    ) -> Any:
        import numpy as np

        from serving.server.tensor_protos import to_proto

        request = self.protos.predict_pb2.PredictRequest(output_filter=output_filter)
        request.model_spec.name = model
        request.model_spec.signature_name = signature
        if version is not None:
            request.model_spec.version.value = version
        if label is not None:
            request.model_spec.version_label = label
        if inputs is None:
            inputs = {"query": np.array([text.encode() for text in query], object)}
        for name, array in inputs.items():
            request.inputs[name].CopyFrom(to_proto(array))
        return request

    def status(self, model: str = "default", version: int | None = None) -> dict[int, tuple[str, int, str]]:
        """Returns `{version: (state, error code, error message)}`."""
        message = self.protos.get_model_status_pb2
        request = message.GetModelStatusRequest()
        request.model_spec.name = model
        if version is not None:
            request.model_spec.version.value = version
        response = message.GetModelStatusResponse.FromString(
            self.raw("GetModelStatus", request.SerializeToString(), "ModelService")
        )
        names = message.ModelVersionStatus.State
        return {
            status.version: (names.Name(status.state), status.status.error_code, status.status.error_message)
            for status in response.model_version_status
        }

    def wait_for(
        self, version: int, state: str = "AVAILABLE", model: str = "default", seconds: float = 30
    ) -> Any:
        """Waits until a version is in a state; returns all states."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                states = self.status(model)
            except grpc.RpcError:  # no version known yet
                states = {}
            if states.get(version, ("",))[0] == state:
                return states
            assert time.monotonic() < deadline, states
            time.sleep(0.02)


_REQUEST_FIELDS = ("model", "version", "label", "signature", "inputs", "output_filter")


@pytest.fixture(scope="session")
def connect() -> Callable[..., Calls]:
    return Calls


@pytest.fixture(scope="session")
def calls(server: RunningServer) -> Calls:
    return Calls(server.target)


@pytest.fixture(scope="session")
def in_threads() -> Callable[..., list[Any]]:
    """Runs a function many times at once and returns what each call returned or raised."""

    def run(count: int, function: Callable[[int], Any]) -> list[Any]:
        results: list[Any] = [None] * count

        def work(index: int) -> None:
            try:
                results[index] = function(index)
            except Exception as error:
                results[index] = error

        threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    return run


@pytest.fixture(scope="session")
def retriever_base(tiny_corpus: Any, exact_export: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real retrievers over the tiny corpus: `whole` with all of it, `shard0` to `shard2` with a part each."""
    import numpy as np
    import tensorflow as tf

    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.index.frequencies import PieceFrequencies
    from xtr_tf.index.searchers.exact import ExactSearcher
    from xtr_tf.retriever.piece_weights import PieceWeights
    from xtr_tf.retriever.retriever import Retriever
    from xtr_tf.retriever.signatures import build_signatures
    from xtr_tf.retriever.tables import DocumentTable, TokenTable

    base = tmp_path_factory.mktemp("retrievers")

    def save(name: str, first: int, last: int) -> None:
        kept = (tiny_corpus.document_of_token >= first) & (tiny_corpus.document_of_token < last)
        retriever = Retriever(
            tiny_corpus.encoder,
            tiny_corpus.tokenizer,
            ExactSearcher(np.asarray(tiny_corpus.vectors)[kept]),
            tiny_corpus.document_of_token[kept] - first,
            DocumentTable(tiny_corpus.documents[first:last], {"number": "int", "group": "keyword"}),
            TokenTable(tiny_corpus.pieces[kept], tiny_corpus.spans[kept]),
            SearchDefaults(k_prime=100, top_k=5),
            PieceWeights(
                PieceFrequencies.of(
                    tiny_corpus.pieces[kept],
                    np.searchsorted(tiny_corpus.document_of_token[kept], np.arange(first, last + 1)),
                ).of_vocabulary(1500),
                last - first,
                None,
            ),
        )
        signatures = {"search_tokens": build_signatures(retriever)["search_tokens"]}
        tf.saved_model.save(retriever, str(base / name / "1"), signatures=signatures)

    count = len(tiny_corpus.documents)
    shutil.copytree(exact_export, base / "whole" / "1")
    bounds = [0, count // 5, count // 2, count]  # shards need not be equal
    for shard, (first, last) in enumerate(itertools.pairwise(bounds)):
        save(f"shard{shard}", first, last)
    return base


@pytest.fixture(scope="session")
def retriever_server(retriever_base: Path) -> Iterator[RunningServer]:
    """A server with the real retrievers as models."""
    file = retriever_base / "models.config"
    models = "".join(
        f'config {{ name: "{path.name}" base_path: "{path}" model_platform: "tensorflow" }}'
        for path in sorted(retriever_base.iterdir())
        if path.is_dir()
    )
    file.write_text(f"model_config_list {{ {models} }}")
    with running_server("--model-config-file", file, "--playground") as started:
        yield started
