"""What a request passes before it reaches the model: limits, places, tokens, the log."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from serving.server.models import directory as memory
from serving.server.requests.limits import Admission, Limits
from serving.server.requests.metrics import Metrics
from serving.server.requests.observer import (
    RequestLog,
    RequestObserver,
    RequestRecord,
    TraceContext,
    request_id_or_new,
)
from serving.server.status import Code, RequestError
from serving.server.wire.credentials import Access, BearerTokens, Watched
from xtr_tf.errors import InputError

LIMITS = Limits(max_text_bytes=10, max_document_bytes=20, max_rows=3, max_k_prime=100, max_top_k=5)


def strings(*values: bytes) -> np.ndarray:
    return np.array(values, object)


def test_what_is_within_the_limits_passes():
    assert LIMITS.check({"query": strings(b"a" * 10, b"", b"c"), "k_prime": np.array(33, np.int32)}) == 3
    assert LIMITS.check({"query": strings(b"", b"", b""), "k_prime": np.array([20, 33, 1])}) == 3
    assert LIMITS.check({"encodings": np.zeros([3, 64, 2], np.float32), "k_prime": np.array(33)}) == 3
    assert LIMITS.check({"query": strings(b"a"), "documents": strings(b"a" * 20)[np.newaxis]}) == 1
    assert LIMITS.check({"seconds": np.array(1.0)}) == 1
    assert LIMITS.check({}) == 1


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"query": strings(*[b""] * 4)}, "A request may have at most 3 rows on this server. Received: 4."),
        ({"query": strings(b"a" * 11)}, "A text may have at most 10 bytes on this server. Received: 11."),
        ({"document": strings(b"a" * 21)}, "A document may have at most 20 bytes on this server."),
        ({"documents": strings(b"a" * 21)[np.newaxis]}, "A document may have at most 20 bytes"),
        ({"k_prime": np.array(101)}, "`k_prime` times the queries may be at most 100"),
        ({"query": strings(b"", b""), "k_prime": np.array(51)}, "Received: 102."),
        # Every row is padded to the largest k'.
        ({"query": strings(b"", b""), "k_prime": np.array([1, 51])}, "Received: 102."),
        ({"top_k": np.array([1, 6])}, "`top_k` may be at most 5"),
        ({"documents": strings(*[b""] * 13)[np.newaxis]}, "An input may have at most 12 texts"),
        ({"encodings": np.zeros([1, 193, 2])}, "A request may have at most 192 query vectors"),
        (
            {"encodings": np.zeros([1, 128, 2]), "k_prime": np.array(51)},
            "`k_prime` times the query vectors may be at most 6400 on this server. Received: 6528.",
        ),
    ],
)
def test_what_is_not_is_refused(inputs, message):
    with pytest.raises(RequestError) as caught:
        LIMITS.check(inputs)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert message in caught.value.message


def test_limits_themselves_are_checked():
    with pytest.raises(InputError, match="`max_rows` must be at least 1"):
        Limits(max_rows=0)


def test_one_request_too_many_is_refused_and_the_place_is_given_back():
    admission = Admission(1, 100)
    with admission.admit():
        with pytest.raises(RequestError) as caught, admission.admit():
            pass
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
    with pytest.raises(ValueError, match="x"), admission.admit():
        raise ValueError("x")
    assert admission.in_progress == 0


def test_requests_that_are_too_much_together_are_refused():
    admission = Admission(10, 100)
    with admission.admit() as place:
        place.hold(1000)  # a single one is bound by the limit on messages
    with admission.admit() as first, admission.admit() as second:
        first.hold(60)
        with pytest.raises(RequestError, match="busy with 60 bytes of requests") as caught:
            second.hold(41)
        assert caught.value.code is Code.RESOURCE_EXHAUSTED
        second.hold(40)
        assert admission.bytes_held == 100
    assert admission.bytes_held == 0


def test_who_may_change_the_configuration():
    admin, user = "Bearer " + "a" * 16, "Bearer " + "u" * 16

    def refusal(check, header) -> Code:
        with pytest.raises(RequestError) as caught:
            check(header)
        return caught.value.code

    access = Access(BearerTokens(["u" * 16]), BearerTokens(["a" * 16]))
    access.check(user)
    access.check(admin)
    access.check_admin(admin)
    for header in (user, None):
        assert refusal(access.check_admin, header) is Code.UNAUTHENTICATED
    assert refusal(access.check, None) is Code.UNAUTHENTICATED
    Access().check_admin(None)
    closed = Access(BearerTokens(["u" * 16]), open_reload=False)
    assert refusal(closed.check_admin, user) is Code.PERMISSION_DENIED


def test_changes_of_files_are_noticed(tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    watched = Watched([tmp_path / "link"])
    assert not watched.changed()
    (tmp_path / "b").write_text("2")
    (tmp_path / "new").symlink_to(tmp_path / "b")
    (tmp_path / "new").rename(tmp_path / "link")  # as Kubernetes replaces a secret
    assert watched.changed()
    assert not watched.changed()
    (tmp_path / "b").unlink()
    assert watched.changed()


def test_tokens():
    BearerTokens().check(None)
    tokens = BearerTokens(["a" * 16, "b" * 16])
    tokens.check("Bearer " + "a" * 16)
    tokens.check("bearer " + "b" * 16)
    for header in (
        None,
        "",
        "Basic abc",
        "Bearer",
        "Bearer ",
        "Bearer " + "c" * 16,
        "Bearer é",
        "Bearer " + "a" * 15,
    ):
        with pytest.raises(RequestError) as caught:
            tokens.check(header)
        assert caught.value.code is Code.UNAUTHENTICATED


def test_token_files(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("a" * 16 + "\n\n" + "b" * 20 + "\n")
    BearerTokens.read(file).check("Bearer " + "b" * 20)
    for bad in ("", "short\n"):
        file.write_text(bad)
        with pytest.raises(InputError, match="at least 16 characters"):
            BearerTokens.read(file)


def test_every_end_of_a_request_is_counted_and_logged():
    stream = io.StringIO()
    log, metrics = RequestLog(1.0, stream), Metrics()
    observer = RequestObserver(Admission(10, 100), metrics, log, {"known"})

    def serve(model: str, error: BaseException | None) -> None:
        with observer.observe(RequestRecord("grpc", "Predict", "id1", lambda: "peer", model, 3)):
            if error is not None:
                raise error

    serve("known", None)
    with pytest.raises(RequestError, match="no such"):
        serve("stranger", RequestError(Code.NOT_FOUND, "no such"))
    with pytest.raises(RequestError, match="its log has request id1") as caught:
        serve("known", ZeroDivisionError("secret detail"))
    assert caught.value.code is Code.INTERNAL
    log.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("code") for line in lines] == ["OK", "NOT_FOUND", None, "INTERNAL"]
    assert "ZeroDivisionError: secret detail" in lines[2]["error"]
    assert lines[0]["version"] == 3
    page = metrics.page().decode()
    assert 'xtr_serving_requests_total{api="grpc",code="OK",method="Predict",model="known"} 1.0' in page
    assert 'code="NOT_FOUND",method="Predict",model=""' in page  # nobody can invent labels
    assert "stranger" not in page


def test_sampling_is_a_share():
    with pytest.raises(InputError, match="between 0 and 1"):
        RequestLog(1.5)
    log = RequestLog(0.25, io.StringIO())
    assert 800 < sum(log.picks_request() for _ in range(4000)) < 1200


def test_a_log_that_cannot_be_written_stops_nobody():
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    log = RequestLog(1.0, Full())
    for _ in range(20_000):
        log.event("something")
    log.close()


def test_a_callers_request_id_is_kept_if_it_can_be_logged():
    assert request_id_or_new("trace-1.2:3/a") == "trace-1.2:3/a"
    for bad in (None, "", "a b", "x" * 129, 'a"b', "a\nb"):
        assert len(request_id_or_new(bad)) == 32


TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_trace_is_continued():
    trace = TraceContext.read(TRACEPARENT)
    assert (trace.trace_id, trace.parent_id) == ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
    assert trace.is_sampled
    assert TraceContext.read(trace.header).parent_id == trace.span_id != trace.parent_id
    assert not TraceContext.read(TRACEPARENT[:-1] + "0").is_sampled
    assert TraceContext.read("cc" + TRACEPARENT[2:] + "-what-the-future-brings") is not None
    for bad in (
        *(None, "", "00", TRACEPARENT.upper(), TRACEPARENT + "-more", "ff" + TRACEPARENT[2:]),
        *(TRACEPARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32), TRACEPARENT[:-4] + "-01"),
        TRACEPARENT.replace("00f067aa0ba902b7", "0" * 16),
    ):
        assert TraceContext.read(bad) is None, bad


def test_requests_of_a_recorded_trace_are_logged():
    stream = io.StringIO()
    log = RequestLog(0.0, stream)
    observer = RequestObserver(Admission(10, 100), Metrics(), log, set())
    for header in (TRACEPARENT, TRACEPARENT[:-1] + "0", None):
        with observer.observe(RequestRecord("grpc", "Predict", "id", trace=TraceContext.read(header))):
            pass
    log.close()
    [line] = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert line["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert line["parent_span_id"] == "00f067aa0ba902b7"
    assert len(line["span_id"]) == 16


def test_long_messages_are_cut():
    assert len(RequestError(Code.INTERNAL, "x" * 5000).message) < 1010


def test_a_version_that_does_not_fit_is_refused():
    assert memory.available_bytes() > 0
    memory.check_room_for(1)
    with pytest.raises(RequestError, match="MiB are free") as caught:
        memory.check_room_for(1 << 50)
    assert caught.value.code is Code.RESOURCE_EXHAUSTED


def test_a_version_needs_what_its_export_measured(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(bytes(1000))
    assert memory.needed_bytes(tmp_path) == 1500
    card = tmp_path / "model_card.json"
    for text in ("no card", "[]", "{}", '{"index": 3}'):
        card.write_text(text)
        assert memory.needed_bytes(tmp_path) == int(1.5 * (1000 + len(text)))
    text = json.dumps({"index": {"kind": "scann"}})
    card.write_text(text)
    assert memory.needed_bytes(tmp_path) == int(6.5 * (1000 + len(text)))
    for peak, resident in ((7000, 5000), (5000, 7000)):
        card.write_text(json.dumps({"memory": {"peak_bytes": peak, "resident_bytes": resident}}))
        assert memory.needed_bytes(tmp_path) == 7000


def test_cached_files_are_free_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    machine = memory.available_bytes()  # no container
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("4500\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 3000\nactive_file 1000\n")
    assert memory.available_bytes() == 4500 < machine
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_bytes() > 4500
