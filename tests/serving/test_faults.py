"""Whatever is sent to the server, it answers with a status and keeps running."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest

EXPECTED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INTERNAL,
}


def mutate(generator: random.Random, data: bytes) -> bytes:
    """Flips, drops, repeats or inserts some bytes."""
    mutated = bytearray(data)
    for _ in range(generator.randint(1, 6)):
        position = generator.randrange(len(mutated) + 1)
        match generator.randrange(4):
            case 0 if position < len(mutated):
                mutated[position] ^= 1 << generator.randrange(8)
            case 1:
                del mutated[position : position + generator.randint(1, 8)]
            case 2:
                mutated[position:position] = mutated[position : position + generator.randint(1, 16)]
            case _:
                mutated[position:position] = generator.randbytes(generator.randint(1, 8))
    return bytes(mutated)


def outcome(call) -> tuple[grpc.StatusCode, str]:
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def test_thousands_of_mutated_messages(server, calls):
    """INTERNAL is allowed only for bytes that are not a message at all."""
    generator = random.Random(0)
    status_request = calls.protos.get_model_status_pb2.GetModelStatusRequest()
    status_request.model_spec.name = "default"
    seeds = [
        ("Predict", "PredictionService", calls.request(["hello", "world"], signature="serving_default")),
        ("Predict", "PredictionService", calls.request(["x"], version=3, output_filter=("scores",))),
        ("GetModelStatus", "ModelService", status_request),
    ]
    outcomes: dict[object, int] = {}
    for number in range(4000):
        method, service, message = seeds[number % len(seeds)]
        data = mutate(generator, message.SerializeToString())
        code, details = outcome(lambda: calls.raw(method, data, service))  # noqa: B023
        outcomes[code] = outcomes.get(code, 0) + 1
        if code is not grpc.StatusCode.OK:
            assert code in EXPECTED, (code, details, data)
            assert details
        if code is grpc.StatusCode.INTERNAL:
            assert details.startswith("The message is not a "), (details, data)
    assert len(outcomes) >= 4, outcomes
    assert calls.predict().model_spec.version.value == 3
    assert not [line for line in server.log() if line["event"] == "fault"]


def test_slow_loris_connections_hold_up_nobody(server, calls):
    connections = []
    for number in range(200):
        port = server.rest_port if number % 2 else server.port
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(
            b"POST /v1/models/default:predict HTTP/1.1\r\nContent-Length: 50\r\nX"
            if number % 2
            else b"PRI * HT"
        )
        connections.append(connection)
    start = time.monotonic()
    for _ in range(20):
        assert calls.predict().model_spec.version.value == 3
        assert server.rest("/v1/models/default")[0] == 200
    assert time.monotonic() - start < 10
    for connection in connections:
        connection.close()


@pytest.mark.slow
def test_slow_loris_connections_are_closed(server):
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=30) as connection:
        connection.sendall(b"GET /v1/models/default HTTP/1.1\r\nHost: ")
        assert connection.recv(1000) == b""  # closed after the time for headers


def test_half_open_calls_hold_up_nobody(server, calls):
    """Calls that announce a message and never send it."""
    stream = calls.channel.stream_unary("/tensorflow.serving.PredictionService/Predict")

    over = threading.Event()

    def never():
        over.wait()
        yield b""

    waiting = [stream.future(never()) for _ in range(300)]
    try:
        for _ in range(10):
            assert calls.predict(timeout=10).model_spec.version.value == 3
    finally:
        for call in waiting:
            call.cancel()
        over.set()


def test_clients_that_vanish_leave_nothing_behind(server, connect):
    before = server.rest("/monitoring/prometheus/metrics")[1]
    for _ in range(50):
        calls = connect(server.target)
        request = calls.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        request.future(calls.request(["a"] * 200).SerializeToString()).cancel()
        calls.channel.close()
    server.wait_for_requests(0)
    assert "xtr_serving_requests_in_flight 1.0" in before


def test_a_full_disk_costs_log_lines_only(toy_models, connect, command):
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(
            [
                command,
                "serve",
                "--model-base",
                str(toy_models),
                "--port",
                "0",
                "--rest-port",
                "-1",
                "--log-sampling",
                "1",
            ],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
        )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().rsplit(":", 1)[1].strip()
        calls = connect(f"127.0.0.1:{port}")
        for _ in range(20):
            assert calls.predict().model_spec.version.value == 3
    finally:
        process.terminate()
        process.wait(20)


def test_no_python_tensorflow_and_little_memory(server, calls):
    calls.predict()
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    assert "libtensorflow_cc.so" in maps
    assert "_pywrap_tensorflow" not in maps
    assert server.resident_bytes() < 400 << 20


def test_the_first_answer_comes_soon(start_server, connect, toy_models):
    with start_server("--model-base", toy_models) as server:
        connect(server.target).predict()
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        processor_seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    # Processor time, which other work on the machine does not lengthen much; measured 1.9.
    assert processor_seconds < 4


def test_a_serve_without_its_extra_packages_says_so():
    script = "import sys; sys.modules['grpc'] = None; from xtr_tf.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", script, "serve"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "install `xtr-tf[serving]`" in ended.stderr
