"""Too much at once, too late, too large: refused at once with the right code; the server keeps running."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import numpy as np
import pytest

CODE = grpc.StatusCode


def sleeping(seconds: float) -> dict[str, np.ndarray]:
    return {"query": np.array([b"a"], object), "seconds": np.array(seconds)}


@pytest.fixture(scope="module")
def small(start_server, toy_models):
    """A server with one worker and three places."""
    arguments = ("--workers", "1", "--max-concurrent", "3", "--max-message-mb", "1", "--max-k-prime", "1000")
    with start_server("--model-base", toy_models, *arguments, "--rest-timeout-ms", "700") as server:
        yield server


@contextmanager
def blocked(server, calls, seconds: float) -> Iterator[threading.Thread]:
    """A server whose only worker is held up for so long."""
    blocker = threading.Thread(target=lambda: calls.predict(signature="sleep", inputs=sleeping(seconds)))
    blocker.start()
    server.wait_for_requests(1)
    yield blocker
    blocker.join()


def test_overload_is_refused_at_once(small, connect, in_threads):
    calls = connect(small.target)

    def call(index):
        try:
            calls.predict(timeout=20)
            return CODE.OK, blocker.is_alive()
        except grpc.RpcError as error:
            return error.code(), blocker.is_alive()

    with blocked(small, calls, 2.0) as blocker:
        outcomes = in_threads(9, call)
    # Two find a place behind the one that works; the others are told while it still does.
    assert [code for code, _ in outcomes].count(CODE.OK) == 2
    assert outcomes.count((CODE.RESOURCE_EXHAUSTED, True)) == 7
    assert calls.predict().model_spec.version.value == 3


def test_messages_that_do_not_come_give_way_to_those_that_do(start_server, toy_models, connect):
    # Two megabytes for all, one for each: at most 16 calls are received at once.
    limits = ("--max-message-mb", "1", "--max-total-mb", "2")
    with start_server("--model-base", toy_models, *limits) as server:
        calls = connect(server.target)
        silent = threading.Event()

        def nothing() -> Iterator[bytes]:
            silent.wait(60)
            yield b""

        stream = calls.channel.stream_unary("/tensorflow.serving.PredictionService/Predict")
        begun = [stream.future(nothing()) for _ in range(40)]
        try:
            assert calls.predict(timeout=20).model_spec.version.value == 3
            ended = [call.code() for call in begun if call.done()]
            assert set(ended) == {CODE.RESOURCE_EXHAUSTED}
            for _ in range(20):
                calls.predict(timeout=20)
        finally:
            for call in begun:
                call.cancel()
            silent.set()


def test_work_is_not_started_after_its_deadline(small, connect, in_threads):
    calls = connect(small.target)
    with blocked(small, calls, 2.0) as blocker:
        with pytest.raises(grpc.RpcError) as caught:
            calls.predict(signature="sleep", inputs=sleeping(60.0), timeout=0.2)
        assert caught.value.code() is CODE.DEADLINE_EXCEEDED
        assert blocker.is_alive()
    # If the call of 60 s had been started, the only worker would be busy now.
    assert calls.predict(timeout=20).model_spec.version.value == 3


def test_an_expired_deadline_is_an_answer(small, connect):
    # The answer would take longer than the deadline: a quick one can be there before gRPC's timer fires.
    with pytest.raises(grpc.RpcError) as caught:
        connect(small.target).predict(signature="sleep", inputs=sleeping(0.3), timeout=1e-6)
    assert caught.value.code() is CODE.DEADLINE_EXCEEDED


def test_rest_has_a_deadline_too(small):
    body = {"signature_name": "sleep", "inputs": {"query": ["a"], "seconds": 2}}
    status, answer = small.rest("/v1/models/default:predict", body)
    assert (status, answer["error"]) == (504, "The request was not answered in time.")


def test_a_message_of_100_mb_is_refused(small, connect):
    channel = grpc.insecure_channel(small.target, options=[("grpc.max_send_message_length", -1)])
    calls = connect(small.target, channel)
    with pytest.raises(grpc.RpcError) as caught:
        calls.raw("Predict", b"\0" * (100 << 20))
    assert caught.value.code() is CODE.RESOURCE_EXHAUSTED
    assert "larger than max" in caught.value.details()
    assert calls.predict().model_spec.version.value == 3
    assert small.resident_bytes() < 500 << 20


def test_k_prime_is_bounded_with_the_queries(small, connect):
    calls = connect(small.target)
    inputs = {"query": np.array([b"a", b"b"], object), "k_prime": np.array([501], np.int32)}
    with pytest.raises(grpc.RpcError, match="`k_prime` times the queries may be at most 1000") as caught:
        calls.predict(signature="search", inputs=inputs)
    assert caught.value.code() is CODE.INVALID_ARGUMENT


def is_unavailable(calls) -> bool:
    try:
        calls.status()
    except grpc.RpcError as error:
        return error.code() is CODE.UNAVAILABLE
    return False


def test_sigterm_drains(start_server, connect, toy_models):
    with start_server("--model-base", toy_models) as server:
        calls = connect(server.target)
        answers: list[object] = []

        def slow_grpc() -> None:
            answers.append(calls.predict(signature="sleep", inputs=sleeping(3.0)).model_spec.version.value)

        def slow_rest() -> None:
            body = {"signature_name": "sleep", "inputs": {"query": ["a"], "seconds": 3.0}}
            answers.append(server.rest("/v1/models/default:predict", body))

        threads = [threading.Thread(target=slow_grpc), threading.Thread(target=slow_rest)]
        for thread in threads:
            thread.start()
        server.wait_for_requests(2)
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: is_unavailable(connect(server.target)))
        assert all(thread.is_alive() for thread in threads)
        for thread in threads:
            thread.join()
        assert server.process.wait(30) == 0
        assert sorted(map(str, answers)) == ["(200, {'outputs': ['a']})", "3"]


def test_batches_form_under_load(start_server, connect, toy_models, in_threads):
    with start_server("--model-base", toy_models, "--workers", "1") as server:
        calls = connect(server.target)
        calls.predict()
        # The only worker is held up, so that what comes meanwhile is one batch.
        with blocked(server, calls, 2.0):
            outcomes = in_threads(10, lambda index: calls.predict([f"q{index}"] if index else ["refuse me"]))
        for index, outcome in enumerate(outcomes[1:], start=1):
            assert outcome.outputs["document_ids"].string_val[0] == f"v3:q{index}".encode()
        assert outcomes[0].code() is CODE.INVALID_ARGUMENT  # and nobody else
        page = server.rest("/monitoring/prometheus/metrics")[1]
        assert 'xtr_serving_batch_rows_bucket{le="16.0",model="default"} 2.0' in page
        assert 'xtr_serving_batch_rows_bucket{le="8.0",model="default"} 1.0' in page
