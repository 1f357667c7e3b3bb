"""The files for TensorFlow Serving, as far as they can be checked without a container engine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, text_format

from serving.client.messages import message_class
from serving.server.models.config import VersionPolicy, read_model_configs
from serving.server.requests.batching import BatchingOptions, read_batching_options


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "serving" / "tf_serving"


def test_the_model_config_is_served(folder, toy_models, start_server, connect, tmp_path):
    [config] = read_model_configs(folder / "config" / "models.config")
    assert config.policy == VersionPolicy(specific=(1, 2))
    assert config.labels == {"stable": 1, "canary": 2}
    file = tmp_path / "models.config"
    text = (folder / "config" / "models.config").read_text()
    file.write_text(text.replace("/models/atlas", str(toy_models)))
    with start_server("--model-config-file", file) as server:
        calls = connect(server.target)
        for label, version in config.labels.items():
            assert calls.predict(model="atlas", label=label).model_spec.version.value == version
        assert server.rest("/v1/models/atlas/labels/stable/metadata")[0] == 200  # the readiness probe


def test_the_batching_parameters_are_ours_too(folder):
    options = read_batching_options(folder / "config" / "batching_parameters.txt")
    assert options == BatchingOptions(32, 0, 8, 2)


def test_the_monitoring_config_is_a_monitoring_config(folder):
    """`MonitoringConfig` is in no pip package; this is its definition."""
    file = descriptor_pb2.FileDescriptorProto(name="monitoring.proto", package="p", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto
    prometheus = file.message_type.add(name="PrometheusConfig").field
    prometheus.add(name="enable", number=1, type=kind.TYPE_BOOL, label=kind.LABEL_OPTIONAL)
    prometheus.add(name="path", number=2, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    monitoring = file.message_type.add(name="MonitoringConfig").field
    monitoring.add(
        name="prometheus_config",
        number=1,
        type=kind.TYPE_MESSAGE,
        label=kind.LABEL_OPTIONAL,
        type_name=".p.PrometheusConfig",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_class(pool.FindMessageTypeByName("p.MonitoringConfig"))()
    text_format.Parse((folder / "config" / "monitoring.config").read_text(), message)
    assert message.prometheus_config.enable
    assert message.prometheus_config.path == "/monitoring/prometheus/metrics"


def test_the_copies_in_the_manifests_are_copies(folder):
    for name in ("models.config", "monitoring.config"):
        copied = (folder / "kubernetes" / "base" / name).read_text()
        assert copied == (folder / "config" / name).read_text()


def build(directory: Path) -> list[dict[str, Any]]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which has kustomize in it, is not installed")
    built = subprocess.run(
        ["kubectl", "kustomize", str(directory)], capture_output=True, text=True, check=True, timeout=60
    )
    return list(yaml.safe_load_all(built.stdout))


def check_fields(value: Any, kind: str, path: str) -> None:
    """Checks a manifest against the models of Kubernetes' own client: unknown and missing fields fail."""
    client = pytest.importorskip("kubernetes.client", reason="the Kubernetes client is not installed")
    if kind.startswith("list["):
        for index, item in enumerate(value):
            check_fields(item, kind[5:-1], f"{path}[{index}]")
    elif kind.startswith("dict("):
        for key, item in value.items():
            check_fields(item, kind[5:-1].split(", ")[1], f"{path}.{key}")
    elif hasattr(client, kind):
        model = getattr(client, kind)
        names = {external: internal for internal, external in model.attribute_map.items()}
        unknown = set(value) - set(names)
        assert not unknown, f"{path}: {unknown}"
        model(**{names[key]: item for key, item in value.items()})  # raises where a required one is missing
        for key, item in value.items():
            check_fields(item, model.openapi_types[names[key]], f"{path}.{key}")
    else:
        simple = {"str": str, "int": int, "bool": bool, "object": object, "float": (int, float)}
        assert isinstance(value, simple[kind]), f"{path}: {value!r} is not {kind}"


KINDS = {
    "Deployment": "V1Deployment",
    "Service": "V1Service",
    "ConfigMap": "V1ConfigMap",
    "HorizontalPodAutoscaler": "V2HorizontalPodAutoscaler",
    "PodDisruptionBudget": "V1PodDisruptionBudget",
}


@pytest.mark.parametrize("variant", ["base", "stock"])
def test_the_manifests_are_what_kubernetes_knows(folder, variant):
    documents = build(folder / "kubernetes" / variant)
    assert sorted(document["kind"] for document in documents) == sorted(KINDS)
    for document in documents:
        check_fields(document, KINDS[document["kind"]], document["kind"])
    by_kind = {document["kind"]: document for document in documents}
    deployment = by_kind["Deployment"]
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert by_kind["Service"]["spec"]["selector"].items() <= labels.items()
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert (
        by_kind["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    )
    [container] = template["spec"]["containers"]
    image = "tensorflow/serving:2.16.1" if variant == "stock" else "xtr-tf-serving:2.16-scann"
    assert container["image"] == image
    config = {volume["name"]: volume for volume in template["spec"]["volumes"]}["config"]
    assert config["configMap"]["name"] == by_kind["ConfigMap"]["metadata"]["name"]


def test_the_check_of_fields_can_fail():
    with pytest.raises(AssertionError, match="clusterip"):
        check_fields({"clusterip": "None"}, "V1ServiceSpec", "spec")
    with pytest.raises(AssertionError, match="is not int"):
        check_fields({"containerPort": "8500"}, "V1ContainerPort", "port")
    with pytest.raises(ValueError, match="must not be `None`"):
        check_fields({"protocol": "TCP"}, "V1ContainerPort", "port")


def test_compose_and_kserve_name_the_same_things(folder):
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    assert {name: service["image"] for name, service in compose["services"].items()} == {
        "scann": "xtr-tf-serving:2.16-scann",
        "stock": "tensorflow/serving:2.16.1",
    }
    for service in compose["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    runtime = yaml.safe_load((folder / "kserve" / "serving_runtime.yaml").read_text())
    service = yaml.safe_load((folder / "kserve" / "inference_service.yaml").read_text())
    assert service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"]
    check_fields(runtime["spec"]["containers"], "list[V1Container]", "containers")


OPS_BUILD = """load("@pybind11_bazel//:build_defs.bzl", "pybind_library")

cc_binary(
    name = "_scann_ops.so",
    deps = [":scann_ops", ":scann_ops_kernels"],
)

cc_library(
    name = "scann_ops",
    deps = [
        "@local_config_tf//:libtensorflow_framework",
        "@local_config_tf//:tf_header_lib",
    ],
)

cc_library(
    name = "scann_ops_kernels",
    deps = [
        "@local_config_tf//:libtensorflow_framework",
        "@local_config_tf//:tf_header_lib",
    ],
)

pybind_library(
    name = "scann_npy",
    srcs = ["scann_npy.cc"],
)
"""
WRAPPERS_BUILD = """cc_library(
    name = "tf_dependency",
    deps = [
        "@local_config_tf//:libtensorflow_framework",
        "@local_config_tf//:tf_header_lib",
    ],
)
"""
SERVERS_BUILD = """SUPPORTED_TENSORFLOW_OPS = if_v2([]) + [
    "@org_tensorflow_text//tensorflow_text:ops_lib",
    "@org_tensorflow_decision_forests//ops:kernel_and_op",
]
"""


@pytest.fixture
def sources(tmp_path) -> tuple[Path, Path]:
    """Sources of ScaNN and TensorFlow Serving, as far as the build recipe edits them."""
    scann, server = tmp_path / "scann", tmp_path / "serving"
    files = {
        scann / "scann/scann_ops/cc/BUILD.bazel": OPS_BUILD,
        scann / "scann/oss_wrappers/BUILD.bazel": WRAPPERS_BUILD,
        server / "tensorflow_serving/model_servers/BUILD": SERVERS_BUILD,
        server / "WORKSPACE": 'workspace(name = "tf_serving")\n',
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return scann, server


def add_scann_ops(folder: Path, sources: tuple[Path, Path]) -> subprocess.CompletedProcess[str]:
    command = [str(folder / "add_scann_ops.sh"), *map(str, sources)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_scanns_ops_become_part_of_the_build(folder, sources):
    scann, server = sources
    ended = add_scann_ops(folder, sources)
    assert ended.returncode == 0, ended.stderr
    assert (server / "tensorflow_serving/model_servers/BUILD").read_text() == SERVERS_BUILD.replace(
        'ops_lib",\n', 'ops_lib",\n    "@com_google_scann//scann/scann_ops/cc:scann_ops_static",\n'
    )
    assert f'path = "{scann}"' in (server / "WORKSPACE").read_text()
    ops = (scann / "scann/scann_ops/cc/BUILD.bazel").read_text()
    assert "pybind" not in ops
    assert "_scann_ops.so" not in ops
    assert 'name = "scann_ops_static"' in ops
    assert ops.count("@org_tensorflow//tensorflow/core:tensorflow_opensource") == 2
    again = add_scann_ops(folder, sources)
    assert again.returncode == 1
    assert "has ScaNN's ops already" in again.stderr


@pytest.mark.parametrize(
    "file",
    [
        "scann/scann/scann_ops/cc/BUILD.bazel",
        "serving/tensorflow_serving/model_servers/BUILD",
        "serving/WORKSPACE",
    ],
)
def test_sources_of_another_form_stop_the_build(folder, sources, file):
    changed = sources[0].parent / file
    changed.write_text("something else\n")
    ended = add_scann_ops(folder, sources)
    assert ended.returncode == 1
    assert f"{changed} does not contain" in ended.stderr
    assert changed.read_text() == "something else\n"


@pytest.mark.parametrize(
    ("linter", "patterns"),
    [
        ("shellcheck", ["serving/**/*.sh", "tools/**/*.sh", "examples/*.sh", "benchmarks/*/*.sh", ".ci/run"]),
        ("hadolint", ["serving/**/Dockerfile", "tfx_pipeline/Dockerfile"]),
    ],
)
def test_linters_find_nothing(repository, linter, patterns):
    files = [str(file) for pattern in patterns for file in repository.glob(pattern)]
    assert len(files) >= len(patterns)
    command = [str(Path(sys.executable).parent / linter), *files]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_scripts_parse(folder):
    for script in folder.rglob("*.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)
        assert script.stat().st_mode & 0o111
