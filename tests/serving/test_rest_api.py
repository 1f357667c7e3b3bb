"""The REST API, called by a client of TensorFlow Serving."""

from __future__ import annotations

import gzip
import json
import socket

import pytest

MODEL = "/v1/models/default"


def test_rows_may_leave_out_what_has_a_default(server):
    def rows(*instances):
        return server.rest(f"{MODEL}:predict", {"signature_name": "search", "instances": list(instances)})

    status, answer = rows({"query": "a", "top_k": 1}, {"query": "b", "top_k": 1})
    assert status == 200
    assert [row["scores"] for row in answer["predictions"]] == [[7.0], [7.0]]
    status, answer = rows({"query": "a", "k_prime": 3, "top_k": 1}, {"query": "b", "k_prime": 4, "top_k": 1})
    assert [row["scores"] for row in answer["predictions"]] == [[3.0], [4.0]]
    for instances in ([{"query": "a", "top_k": 1}, {"query": "b"}], [{"top_k": 1}], [{"query": "a", "x": 1}]):
        status, answer = rows(*instances)
        assert status == 400
        assert "keys must be equal to" in answer["error"]


def test_row_format(server):
    status, answer = server.rest(f"{MODEL}:predict", {"instances": ["a", "ü"]})
    assert status == 200
    assert answer == {
        "predictions": [
            {"document_ids": ["v3:a", "V3:A"], "scores": [1.0, 0.2]},
            {"document_ids": ["v3:ü", "V3:ü"], "scores": [2.0, 0.2]},
        ]
    }
    assert server.rest(f"{MODEL}/versions/3:predict", {"instances": [{"query": "a"}]})[0] == 200


def test_compressed_bodies(server):
    body = json.dumps({"instances": ["a"]}).encode()
    packed = gzip.compress(body)

    def ask(content: bytes, encoding: str = "gzip"):
        return server.rest(f"{MODEL}:predict", content, {"content-encoding": encoding})

    status, answer = ask(packed)
    assert (status, answer["predictions"][0]["document_ids"][0]) == (200, "v3:a")
    assert ask(body, "identity")[0] == 200
    for bad in (body, packed[:-4], packed + b"x", b""):
        assert ask(bad) == (400, {"error": "The body is not compressed with gzip."})
    bomb = gzip.compress(b" " * (9 << 20))
    assert len(bomb) < 1 << 20
    assert ask(bomb)[0] == 413
    assert ask(packed, "br") == (
        415,
        {"error": "A body may only be compressed with gzip. Received: br."},
    )


def test_column_format(server):
    _, answer = server.rest(
        f"{MODEL}:predict",
        {"signature_name": "search", "inputs": {"query": ["a"], "top_k": [1], "k_prime": [5]}},
    )
    assert answer["outputs"] == {
        "document_ids": [["v3:a"]],
        "titles": [["V3:A"]],
        "languages": [["en"]],
        "scores": [[5.0]],
    }
    _, answer = server.rest(f"{MODEL}:predict", {"signature_name": "double", "inputs": [[1, 2], [3, 4.5]]})
    assert answer == {"outputs": [[2.0, 4.0], [6.0, 9.0]]}


def test_status(server):
    expected = {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert server.rest(MODEL) == (200, {"model_version_status": [expected]})
    assert server.rest(f"{MODEL}/versions/3")[0] == 200


def test_metadata(server):
    status, answer = server.rest(f"{MODEL}/metadata")
    assert status == 200
    assert answer["model_spec"]["name"] == "default"
    assert answer["model_spec"]["version"] == "3"
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["inputs"]["query"]["dtype"] == "DT_STRING"
    assert signature["inputs"]["query"]["tensor_shape"]["dim"][0]["size"] == "-1"


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (
            "/v1/models/other:predict",
            {"instances": ["a"]},
            404,
            "Servable not found for request: Latest(other)",
        ),
        (f"{MODEL}/versions/9:predict", {"instances": ["a"]}, 404, "Specific(default, 9)"),
        (f"{MODEL}/labels/x:predict", {"instances": ["a"]}, 400, "Unrecognized servable version label: x"),
        (f"{MODEL}/versions/99999999999999999999:predict", {}, 400, "Failed to convert version: 9999"),
        (f"{MODEL}:predict", b"{", 400, "JSON Parse error"),
        (f"{MODEL}:predict", b"", 400, "The document is empty"),
        (f"{MODEL}:predict", {"instances": [1]}, 400, "is not of expected type: string"),
        (f"{MODEL}:predict", {"instances": ["refuse me"]}, 400, "not welcome"),
        (f"{MODEL}:predict", {"instances": ["x" * 9000]}, 400, "at most 8192 bytes"),
        (
            f"{MODEL}:predict",
            {"signature_name": "nope", "instances": ["a"]},
            400,
            'Serving signature name: "nope" not found in signature def',
        ),
        (f"{MODEL}:classify", {"examples": []}, 501, "classify is not implemented; use predict."),
        (f"{MODEL}:explode", {}, 400, "Malformed request: POST /v1/models/default:explode"),
        ("/v1/models", None, 400, "Malformed request: GET /v1/models"),
        ("/v1/models/other", None, 404, "Could not find any versions of model other"),
        (f"{MODEL}/versions/9", None, 404, "Could not find version 9 of model default"),
        ("/", None, 400, "Malformed request: GET /"),
    ],
)
def test_bad_requests(server, path, body, status, message):
    answered, answer = server.rest(path, body)
    assert answered == status, answer
    assert message in answer["error"]


def test_metrics(server, calls):
    calls.predict()
    status, page = server.rest("/monitoring/prometheus/metrics")
    assert status == 200
    for line in (
        'xtr_serving_requests_total{api="grpc",code="OK",method="Predict",model="default"}',
        'xtr_serving_request_seconds_bucket{api="grpc",le="0.016",method="Predict",model="default"}',
        'xtr_serving_batch_rows_count{model="default"}',
        'xtr_serving_model_version_state{model="default",state="AVAILABLE",version="3"} 1.0',
        'xtr_serving_model_newest_version{model="default"} 3.0',
        'xtr_serving_model_load_seconds_count{model="default",outcome="loaded"} 1.0',
        "xtr_serving_queue_rows 0.0",
        "xtr_serving_requests_in_flight 1.0",
        "process_resident_memory_bytes",
    ):
        assert line in page, line


def talk(server, data: bytes, seconds: float = 5) -> bytes:
    """Sends raw bytes and returns all that comes back until the server closes or falls silent."""
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=seconds) as connection:
        connection.sendall(data)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except TimeoutError:
            pass
        return answer


BODY = b'{"instances": ["a"]}'
HEAD = b"POST /v1/models/default:predict HTTP/1.1\r\nHost: x\r\n"


def test_a_connection_serves_many_requests(server):
    request = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
    last = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
    assert talk(server, request * 3 + last).count(b"HTTP/1.1 200 OK") == 4


def test_chunked_bodies_and_expectations(server):
    chunked = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (
        len(BODY),
        BODY,
    )
    assert b"v3:a" in talk(server, chunked)
    expecting = HEAD + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n%b" % (
        len(BODY),
        BODY,
    )
    assert b"v3:a" in talk(server, expecting)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01 nonsense\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: -5\r\n\r\n", b"400"),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", b"413"),
        (HEAD + b"X: " + b"y" * 100_000 + b"\r\n\r\n", b"431"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
    ],
)
def test_bad_http_is_answered_and_the_connection_closed(server, data, status):
    answer = talk(server, data)
    assert answer.split(b" ")[1] == status, answer
    assert b'"error"' in answer
    assert server.rest(MODEL)[0] == 200


def test_head_is_get_without_the_body(server):
    request = b"%b /v1/models/default HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\r\nConnection: close\r\n\r\n"
    head, _, body = talk(server, request % b"GET").partition(b"\r\n\r\n")
    assert body
    assert talk(server, request % b"HEAD") == head + b"\r\n\r\n"
    one_more = request.replace(b"Connection: close\r\n", b"") % b"HEAD"
    assert talk(server, one_more + request % b"GET").count(b"HTTP/1.1 200 OK") == 2


def test_nobody_can_invent_labels(server):
    request = b"EXPLODE /v1/models/default HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert b"Malformed request: EXPLODE /v1/models/default" in talk(server, request)
    page = server.rest("/monitoring/prometheus/metrics")[1]
    assert "EXPLODE" not in page
    assert 'xtr_serving_requests_total{api="rest",code="INVALID_ARGUMENT",method="other",model=""}' in page


def test_a_request_id_comes_back(server):
    answer = talk(
        server,
        b"GET /v1/models/default HTTP/1.1\r\nHost: x\r\nX-Request-Id: abc\r\nConnection: close\r\n\r\n",
    )
    assert b"x-request-id: abc" in answer
