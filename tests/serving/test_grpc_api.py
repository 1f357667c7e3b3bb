"""The gRPC services, called by a client of TensorFlow Serving."""

from __future__ import annotations

import urllib.request

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

CODE = grpc.StatusCode


def ids(response) -> list[bytes]:
    return list(response.outputs["document_ids"].string_val)


def refusal(call, *arguments, **options) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options)
    return caught.value


def test_predict(calls):
    response = calls.predict(["hello", "wörld"])
    assert ids(response) == [b"v3:hello", b"V3:HELLO", "v3:wörld".encode(), "V3:WöRLD".encode()]
    scores = response.outputs["scores"]
    assert [dimension.size for dimension in scores.tensor_shape.dim] == [2, 2]
    assert scores.float_val[0] == 5
    assert response.model_spec.name == "default"
    assert response.model_spec.version.value == 3
    assert response.model_spec.signature_name == "serving_default"


def test_other_signatures_and_defaults_of_inputs(calls):
    inputs = {"query": np.array([b"a"], object), "top_k": np.array([3], np.int32)}
    response = calls.predict(signature="search", inputs=inputs)
    assert ids(response) == [b"v3:a"] * 3
    assert list(response.outputs["scores"].float_val) == [7] * 3  # the model's own k_prime
    inputs["k_prime"] = np.array([9], np.int32)
    assert calls.predict(signature="search", inputs=inputs).outputs["scores"].float_val[0] == 9


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int16])
def test_integers_of_another_width_are_taken_where_they_fit(calls, dtype):
    inputs = {"query": np.array([b"a"], object), "top_k": np.array([3], dtype)}
    assert ids(calls.predict(signature="search", inputs=inputs)) == [b"v3:a"] * 3


def test_outputs_can_be_chosen(calls):
    assert list(calls.predict(output_filter=("scores",)).outputs) == ["scores"]


def test_a_batch_without_rows_is_answered(calls):
    assert ids(calls.predict([])) == []


def test_the_generated_stubs_work(server, fresh_python):
    fresh_python(
        """
        import sys, grpc
        from xtr_tf.runtime.protos import import_proto
        predict_pb2 = import_proto("tensorflow_serving.apis.predict_pb2")
        stubs = import_proto("tensorflow_serving.apis.prediction_service_pb2_grpc")
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "default"
        request.inputs["query"].dtype = 7
        request.inputs["query"].tensor_shape.dim.add(size=1)
        request.inputs["query"].string_val.append(b"a")
        response = stubs.PredictionServiceStub(grpc.insecure_channel(sys.argv[1])).Predict(request, 10)
        assert response.outputs["document_ids"].string_val[0] == b"v3:a", response
        """,
        server.target,
    )


BAD_REQUESTS = [
    ({"model": ""}, CODE.INVALID_ARGUMENT, "ModelSpec has no name specified."),
    ({"model": "other"}, CODE.NOT_FOUND, "Servable not found for request: Latest(other)"),
    ({"model": "other", "version": 1}, CODE.NOT_FOUND, "Servable not found for request: Specific(other, 1)"),
    ({"version": 77}, CODE.NOT_FOUND, "Servable not found for request: Specific(default, 77)"),
    ({"label": "canary"}, CODE.INVALID_ARGUMENT, "Unrecognized servable version label: canary"),
    ({"signature": "nope"}, CODE.FAILED_PRECONDITION, 'Serving signature key "nope" not found.'),
    (
        {"inputs": {}},
        CODE.INVALID_ARGUMENT,
        "input size does not match signature: 0!=1 len({}) != len({query})."
        " Sent extra: {}. Missing but required: {query}.",
    ),
    (
        {"inputs": {"text": np.array([b"a"], object)}},
        CODE.INVALID_ARGUMENT,
        "Signature input alias: query(feed name: serving_default_query:0) not found in request and no default"
        " value provided. Inputs expected to be in the request {text}, or default input alias set: ",
    ),
    (
        {"inputs": {"query": np.array([b"a"], object), "k": np.array(1)}},
        CODE.INVALID_ARGUMENT,
        "input size does not match signature: 2!=1 len({k,query}) != len({query})."
        " Sent extra: {k}. Missing but required: {}.",
    ),
    (
        {"signature": "search", "inputs": {"query": np.array([b"a"], object), "k": np.array(1)}},
        CODE.INVALID_ARGUMENT,
        "Inputs contains invalid name. Used request inputs: query, request input: k,query",
    ),
    (
        {"inputs": {"query": np.array([1.0], np.float32)}},
        CODE.INVALID_ARGUMENT,
        "Expects arg[0] to be string but float is provided (input `query`)",
    ),
    (
        {
            "signature": "search",
            "inputs": {"query": np.array([b"a"], object), "top_k": np.array(1 << 31, np.int64)},
        },
        CODE.INVALID_ARGUMENT,
        "Expects arg[2] to be int32 but int64 is provided (input `top_k`)",
    ),
    (
        {"inputs": {"query": np.array([[b"a"]], object)}},
        CODE.INVALID_ARGUMENT,
        "Input `query` must have the shape [?]. Received: shape [1, 1].",
    ),
    (
        {"signature": "double", "inputs": {"matrix": np.zeros([3, 1], np.float32)}},
        CODE.INVALID_ARGUMENT,
        "Input `matrix` must have the shape [2, ?]. Received: shape [3, 1].",
    ),
    (
        {"output_filter": ("scores", "nope")},
        CODE.INVALID_ARGUMENT,
        "output tensor alias not found in signature: nope"
        " Outputs expected to be in the set {document_ids,scores}.",
    ),
    ({"output_filter": ("scores", "scores")}, CODE.INVALID_ARGUMENT, "duplicate output tensor alias: scores"),
    (
        {"query": ["refuse me"]},
        CODE.INVALID_ARGUMENT,
        "`query` is not welcome. Received: refuse me.",
    ),
    (
        {"query": ["x" * 9000]},
        CODE.INVALID_ARGUMENT,
        "A text may have at most 8192 bytes on this server. Received: 9000.",
    ),
    (
        {"query": ["x"] * 300},
        CODE.INVALID_ARGUMENT,
        "A request may have at most 256 rows on this server. Received: 300.",
    ),
]


@pytest.mark.parametrize(("request_fields", "code", "message"), BAD_REQUESTS)
def test_bad_requests_get_tensorflow_servings_answers(calls, request_fields, code, message):
    error = refusal(calls.predict, **request_fields)
    assert error.code() is code
    assert error.details() == message


def test_a_tensor_that_cannot_be_parsed_is_named(calls):
    request = calls.request()
    request.inputs["query"].tensor_shape.dim[0].size = 1 << 40
    error = refusal(calls.raw, "Predict", request.SerializeToString())
    assert (error.code(), error.details()) == (CODE.INVALID_ARGUMENT, "tensor parsing error: query")


def test_a_message_that_cannot_be_parsed(calls):
    error = refusal(calls.raw, "Predict", b"\xff" * 20)
    assert (error.code(), error.details()) == (CODE.INTERNAL, "The message is not a PredictRequest.")


def test_an_empty_message_has_no_model(calls):
    for method, service in (
        ("Predict", "PredictionService"),
        ("GetModelMetadata", "PredictionService"),
        ("GetModelStatus", "ModelService"),
    ):
        error = refusal(calls.raw, method, b"", service)
        assert (error.code(), error.details()) == (CODE.INVALID_ARGUMENT, "Missing ModelSpec")


@pytest.mark.parametrize("method", ["Classify", "Regress", "MultiInference"])
def test_what_a_retriever_cannot_do_is_unimplemented(calls, method):
    assert refusal(calls.raw, method, b"").code() is CODE.UNIMPLEMENTED
    assert refusal(calls.raw, "Invented", b"").code() is CODE.UNIMPLEMENTED


def test_metadata(calls):
    messages = calls.protos.get_model_metadata_pb2
    request = messages.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "default"
    raw = calls.raw("GetModelMetadata", request.SerializeToString())
    response = messages.GetModelMetadataResponse.FromString(raw)
    assert response.model_spec.version.value == 3
    signatures = messages.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    assert sorted(signatures.signature_def) == ["double", "search", "serving_default", "sleep"]
    assert signatures.signature_def["serving_default"].inputs["query"].dtype == 7

    del request.metadata_field[:]
    error = refusal(calls.raw, "GetModelMetadata", request.SerializeToString())
    assert error.details() == "GetModelMetadataRequest must specify at least one metadata_field"
    request.metadata_field.append("weights")
    error = refusal(calls.raw, "GetModelMetadata", request.SerializeToString())
    assert error.details() == "Metadata field weights is not supported"


def test_status(calls):
    assert calls.status() == {3: ("AVAILABLE", 0, "")}
    assert calls.status(version=3) == {3: ("AVAILABLE", 0, "")}
    error = refusal(calls.status, version=77)
    assert (error.code(), error.details()) == (CODE.NOT_FOUND, "Could not find version 77 of model default")
    error = refusal(calls.status, "other")
    assert (error.code(), error.details()) == (CODE.NOT_FOUND, "Could not find any versions of model other")


def test_health(calls):
    health = health_pb2_grpc.HealthStub(calls.channel)
    for service in ("", "tensorflow.serving.PredictionService"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert refusal(health.Check, health_pb2.HealthCheckRequest(service="x")).code() is CODE.NOT_FOUND


def test_reflection_describes_the_services(calls):
    stub = reflection_pb2_grpc.ServerReflectionStub(calls.channel)

    def ask(**question):
        return next(
            iter(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**question)])))
        )

    services = [service.name for service in ask(list_services="").list_services_response.service]
    assert {"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"} <= set(services)
    answer = ask(file_containing_symbol="tensorflow.serving.PredictionService")
    file = descriptor_pb2.FileDescriptorProto.FromString(
        answer.file_descriptor_response.file_descriptor_proto[0]
    )
    methods = [method.name for method in file.service[0].method]
    assert {"Predict", "GetModelMetadata", "Classify", "Regress", "MultiInference"} <= set(methods)


def test_a_request_has_an_id_that_is_returned_and_logged(calls, server):
    predict = calls.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    data = calls.request().SerializeToString()
    _, call = predict.with_call(data, metadata=(("x-request-id", "trace-7"),))
    assert dict(call.trailing_metadata())["x-request-id"] == "trace-7"
    error = refusal(predict, b"", metadata=(("x-request-id", "trace-8"),))
    assert dict(error.trailing_metadata())["x-request-id"] == "trace-8"
    error = refusal(predict, b"")
    assert len(dict(error.trailing_metadata())["x-request-id"]) == 32
    logged = {}

    def all_are_logged() -> bool:
        logged.update({line["request_id"]: line for line in server.log() if "request_id" in line})
        return {"trace-7", "trace-8"} <= logged.keys()

    server.wait_until(all_are_logged)
    assert logged["trace-7"]["code"] == "OK"
    assert logged["trace-7"]["version"] == 3
    assert logged["trace-8"]["error"] == "Missing ModelSpec"


def test_a_trace_comes_back_with_the_servers_own_span(calls, server):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    traceparent = f"00-{trace}-00f067aa0ba902b7-01"
    predict = calls.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    _, call = predict.with_call(calls.request().SerializeToString(), metadata=(("traceparent", traceparent),))
    version, returned, span, flags = dict(call.trailing_metadata())["traceparent"].split("-")
    assert (version, returned, flags) == ("00", trace, "01")
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.rest_port}/v1/models/default", headers={"traceparent": traceparent}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.headers["traceparent"].split("-")[1] == trace
    server.wait_until(
        lambda: len([line for line in server.log() if line.get("trace_id") == trace]) >= 2,
    )
    assert span in {line.get("span_id") for line in server.log()}
