"""A new configuration while the server runs: by a call, and by the watched file."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import text_format

from serving.server.protos import model_management_pb2, model_server_config_pb2

FAST = ("--poll-seconds", "0.05")


def events(server, event: str) -> list[dict[str, Any]]:
    return [line for line in server.log() if line["event"] == event]


def config(name: str, base: Path, policy: str = "", **labels: int) -> str:
    labelled = "".join(f' version_labels {{ key: "{k}" value: {v} }}' for k, v in labels.items())
    chosen = f" model_version_policy {{ {policy} }}" if policy else ""
    return f'config {{ name: "{name}" base_path: "{base}" model_platform: "tensorflow"{chosen}{labelled} }}'


def reload(calls, text: str, timeout: float = 30) -> None:
    request = model_management_pb2.ReloadConfigRequest()
    text_format.Parse(f"model_config_list {{ {text} }}", request.config)
    raw = calls.raw("HandleReloadConfigRequest", request.SerializeToString(), "ModelService", timeout=timeout)
    assert model_management_pb2.ReloadConfigResponse.FromString(raw).status.error_code == 0


def test_models_policies_and_labels(start_server, connect, toy_models, tmp_path):
    file = tmp_path / "models.config"
    every = config("every", toy_models, "all {}", stable=1, canary=3)
    file.write_text(
        f"model_config_list {{ {every} {config('two', toy_models, 'specific { versions: 2 }')} }}"
    )
    with start_server("--model-config-file", file, *FAST) as server:
        calls = connect(server.target)
        assert sorted(calls.status("every")) == [1, 2, 3]
        assert sorted(calls.status("two")) == [2]
        assert calls.predict(model="every").model_spec.version.value == 3
        assert calls.predict(model="every", version=2).model_spec.version.value == 2
        assert calls.predict(model="every", label="stable").model_spec.version.value == 1
        assert calls.predict(model="every", label="canary").model_spec.version.value == 3
        assert server.rest("/v1/models/every/labels/stable:predict", {"instances": ["a"]})[1]["predictions"]
        assert server.rest("/v1/models/every/labels/canary")[1]["model_version_status"][0]["version"] == "3"

        # A canary becomes stable; a label cannot go where nothing answers; models come and go.
        reload(calls, config("every", toy_models, "all {}", stable=3) + config("new", toy_models))
        assert calls.predict(model="every", label="stable").model_spec.version.value == 3
        assert calls.predict(model="new").model_spec.version.value == 3
        with pytest.raises(grpc.RpcError) as caught:
            calls.predict(model="two")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        page = server.rest("/monitoring/prometheus/metrics")[1]
        assert 'xtr_serving_model_newest_version{model="new"} 3.0' in page
        assert 'xtr_serving_model_newest_version{model="two"} NaN' in page
        with pytest.raises(grpc.RpcError) as caught:
            reload(calls, config("every", toy_models, "all {}", stable=7))
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert caught.value.details() == (
            "Request to assign label to version 7 of model every,"
            " which is not currently available for inference"
        )
        assert calls.predict(model="every", label="stable").model_spec.version.value == 3
        with pytest.raises(grpc.RpcError) as caught:
            reload(calls, config("every", toy_models) + config("absent", tmp_path / "nowhere"))
        assert caught.value.details() == "Some models did not become available: {absent}"

        # The file is watched too.
        file.write_text(f"model_config_list {{ {config('from_file', toy_models)} }}")
        calls.wait_for(3, model="from_file")
        file.write_text("nonsense")
        server.wait_until(lambda: events(server, "config_refused"))
        assert calls.predict(model="from_file").model_spec.version.value == 3


def test_an_empty_reload_is_refused(calls):
    request = model_management_pb2.ReloadConfigRequest(config=model_server_config_pb2.ModelServerConfig())
    with pytest.raises(grpc.RpcError, match="Only ModelConfigList is currently supported"):
        calls.raw("HandleReloadConfigRequest", request.SerializeToString(), "ModelService")


def test_a_reload_is_carried_out_though_its_caller_gives_up(start_server, connect, toy_models, model_base):
    (model_base / "1" / "assets.extra").mkdir()
    shutil.copy(toy_models / "slow", model_base / "1" / "assets.extra" / "tf_serving_warmup_requests")
    with start_server("--model-base", toy_models) as server:
        calls = connect(server.target)
        with pytest.raises(grpc.RpcError) as caught:
            reload(calls, config("default", toy_models) + config("slow", model_base), timeout=1)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        calls.wait_for(1, model="slow")
        assert calls.predict(model="slow").model_spec.version.value == 1
        reload(calls, config("default", toy_models))  # and the next one is not held up


def test_a_refused_file_is_tried_again_and_reported_once(start_server, connect, toy_models, model_base):
    file = model_base.parent / "models.config"
    file.write_text(f"model_config_list {{ {config('m', model_base, 'all {}', stable=1)} }}")
    with start_server("--model-config-file", file, *FAST) as server:
        calls = connect(server.target)
        file.write_text(f"model_config_list {{ {config('m', model_base, 'all {}', stable=2)} }}")
        server.wait_until(lambda: events(server, "config_refused"))
        time.sleep(0.3)
        assert [event["error"] for event in events(server, "config_refused")] == [
            "Request to assign label to version 2 of model m, which is not currently available for inference"
        ]
        shutil.copytree(toy_models / "2", model_base / ".2.partial")
        (model_base / ".2.partial").rename(model_base / "2")
        server.wait_until(lambda: events(server, "config_applied"))
        assert calls.predict(model="m", label="stable").model_spec.version.value == 2


def test_another_base_path_is_taken_though_the_versions_have_the_same_numbers(
    start_server, connect, toy_models, model_base, tmp_path
):
    def answer() -> bytes:
        return calls.predict(["a"]).outputs["document_ids"].string_val[0]

    shutil.copytree(toy_models / "2", tmp_path / "other" / "1")
    (tmp_path / "broken" / "1").mkdir(parents=True)
    with start_server("--model-base", model_base, *FAST) as server:
        calls = connect(server.target)
        assert answer() == b"v1:a"
        with pytest.raises(grpc.RpcError, match=r"did not become available: \{default\}"):
            reload(calls, config("default", tmp_path / "broken"))
        assert answer() == b"v1:a"  # a model that answers keeps answering
        reload(calls, config("default", tmp_path / "other"))
        assert answer() == b"v2:a"
        assert calls.status() == {1: ("AVAILABLE", 0, "")}
        page = server.rest("/monitoring/prometheus/metrics")[1]
        assert 'model_version_state{model="default",state="AVAILABLE",version="1"} 1.0' in page
        assert [event["state"] for event in events(server, "version")][-2:] == ["UNLOADING", "END"]
