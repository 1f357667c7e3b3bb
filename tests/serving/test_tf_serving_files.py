"""The files for TensorFlow Serving, as far as they can be checked without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, text_format

from serving.client.messages import message_class
from serving.health import is_serving
from serving.server.models.config import VersionPolicy, read_model_configs
from serving.server.requests.batching import BatchingOptions, read_batching_options
from tests.support.documents import blocks
from xtr_tf.files import MARKER, checksums_of


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "serving" / "tf_serving"


def test_the_model_configs_are_served(folder, toy_models, start_server, connect, tmp_path):
    [config] = read_model_configs(folder / "config" / "models.config")
    assert config.policy == VersionPolicy(latest=1)
    [canary] = read_model_configs(folder / "config" / "canary.config")
    assert canary.policy == VersionPolicy(specific=(1, 2))
    assert canary.labels == {"stable": 1, "canary": 2}
    file, base = tmp_path / "models.config", tmp_path / "atlas"
    shutil.copytree(toy_models / "1", base / "1")

    def use(name: str) -> None:
        text = (folder / "config" / name).read_text()
        file.write_text(text.replace("/models/atlas", str(base)))

    use("models.config")
    with start_server("--model-config-file", file, "--poll-seconds", "0.05") as server:
        calls = connect(server.target)
        # A refresh: the pipeline's version, numbered by the time of its push, is followed by itself.
        shutil.copytree(toy_models / "2", base / ".pushing")
        (base / ".pushing").rename(base / "1794917184")
        calls.wait_for(1794917184, model="atlas")
        calls.wait_for(1, "END", model="atlas")
        assert server.rest("/v1/models/atlas/metadata")[0] == 200  # the readiness probe
        shutil.copytree(toy_models / "2", base / "2")
        use("canary.config")
        for version in (1, 2):
            calls.wait_for(version, model="atlas")
        for label, version in canary.labels.items():
            assert calls.predict(model="atlas", label=label).model_spec.version.value == version


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
    "PersistentVolumeClaim": "V1PersistentVolumeClaim",
    "StatefulSet": "V1StatefulSet",
}
IMAGES = {
    "base": "xtr-tf-serving:2.16-scann",
    "stock": "tensorflow/serving:2.16.1",
    "xtr_tf": "xtr-tf-server:0.1",
}


@pytest.mark.parametrize("variant", ["base", "stock", "xtr_tf"])
def test_the_manifests_are_what_kubernetes_knows(folder, variant):
    documents = build(folder / "kubernetes" / variant)
    assert sorted(document["kind"] for document in documents) == sorted(KINDS.keys() - {"StatefulSet"})
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
    assert container["image"] == IMAGES[variant]
    assert_unprivileged(template["spec"])
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    claim = by_kind["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim
    if variant != "xtr_tf":
        assert_drains(container, template["spec"]["terminationGracePeriodSeconds"])
    config = {volume["name"]: volume for volume in template["spec"]["volumes"]}["config"]
    assert config["configMap"]["name"] == by_kind["ConfigMap"]["metadata"]["name"]


def test_the_manifests_in_the_guide_are_what_kubernetes_knows(repository):
    guide = blocks(repository / "docs" / "how-to" / "kubernetes.md")
    shown = [yaml.safe_load(block.text) for block in guide if block.language == "yaml"]
    kinds = {manifest["kind"]: manifest for manifest in shown if "kind" in manifest}
    assert sorted(kinds) == ["GRPCRoute", "Ingress", "Pod"]
    for kind in ("Ingress", "Pod"):
        check_fields(kinds[kind], f"V1{kind}", kind)


def assert_unprivileged(pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    for container in (*pod["containers"], *pod.get("initContainers", [])):
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]


def test_our_server_takes_the_flags_of_its_manifest(folder, toy_models, start_server, tmp_path):
    documents = build(folder / "kubernetes" / "xtr_tf")
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert "command" not in container  # the image's own
    assert container["readinessProbe"]["grpc"] == {"port": 8500}
    config = tmp_path / "models.config"
    text = (folder / "config" / "models.config").read_text()
    config.write_text(text.replace("/models/atlas", str(toy_models)))
    arguments = [argument.replace("/config/models.config", str(config)) for argument in container["args"]]
    assert str(config) in arguments[0]
    with start_server(*arguments) as server:
        assert is_serving(server.target)
    assert not is_serving(server.target)
    drain = float(dict(argument.split("=") for argument in arguments)["--drain-seconds"])
    wait = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert wait + drain < pod["terminationGracePeriodSeconds"]


def test_a_collection_of_partitions(folder, collection_base, start_server, tmp_path):
    documents = build(folder / "kubernetes" / "collection")
    for document in documents:
        check_fields(document, KINDS[document["kind"]], document["kind"])
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    sets = [document for document in documents if document["kind"] == "StatefulSet"]
    services = {d["metadata"]["name"]: d["spec"]["selector"] for d in documents if d["kind"] == "Service"}
    # Every pod of every set is a server of the partition of its number, and no other is asked.
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    asked = [argument for argument in container["args"] if argument.startswith("--partition=")]
    expected = [
        f"--partition={number}=" + ",".join(f"{d['metadata']['name']}-{number}.partition:8500" for d in sets)
        for number in range(sets[0]["spec"]["replicas"])
    ]
    assert asked == expected
    for document in (deployment, *sets):
        template = document["spec"]["template"]
        assert_unprivileged(template["spec"])
        labels = template["metadata"]["labels"]
        assert document["spec"]["selector"]["matchLabels"].items() <= labels.items()
        owner = document["spec"].get("serviceName", "retriever")
        assert services[owner].items() <= labels.items()
    # Both take their flags: a partition, and who asks it.
    [server] = sets[0]["spec"]["template"]["spec"]["containers"]
    [index] = [variable for variable in server["env"] if variable["name"] == "PARTITION"]
    assert index["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    of_partition = [
        flag.replace("$(PARTITION)", "0").replace("/models", str(collection_base)) for flag in server["args"]
    ]
    with start_server(*of_partition) as zero:
        one = [zero.target, "127.0.0.1:1"]
        flags = [flag.replace("/models", str(collection_base)) for flag in container["args"]]
        kept = [flag for flag in flags if not flag.startswith("--partition=")]
        with start_server(*kept, *(f"--partition={n}={target}" for n, target in enumerate(one))) as asking:
            assert not is_serving(asking.target)  # one partition is missing
            _, answer = asking.rest("/v1/models/default")
            [version] = answer["model_version_status"]
            assert version["status"]["error_message"] == "partition 1: 127.0.0.1:1 does not answer"


def test_versions_from_a_bucket(folder):
    documents = build(folder / "kubernetes" / "bucket")
    kinds = [document["kind"] for document in documents]
    assert "PersistentVolumeClaim" not in kinds
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    check_fields(deployment, "V1Deployment", "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert_unprivileged(pod)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["models"] == {"name": "models", "emptyDir": {}}
    configs = {document["metadata"]["name"] for document in documents if document["kind"] == "ConfigMap"}
    assert volumes["fetch"]["configMap"]["name"] in configs
    assert {container["name"] for container in pod["containers"]} == {"server", "fetch"}
    copied = folder / "kubernetes" / "bucket" / "fetch_versions.sh"
    assert copied.read_bytes() == (folder / "fetch_versions.sh").read_bytes()
    assert copied.stat().st_mode & 0o111


def fetch(folder: Path, source: Path, target: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(folder / "fetch_versions.sh"), str(source), str(target)]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=30, env={**os.environ, **environment}
    )


def test_only_whole_versions_are_fetched(folder, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"

    def push(version: int, marked: bool = True) -> Path:
        place = source / str(version)
        (place / "variables").mkdir(parents=True)
        (place / "saved_model.pb").write_bytes(b"graph %d" % version)
        (place / "variables" / "variables.index").write_bytes(b"index")
        if marked:
            (place / MARKER).write_text(checksums_of(place))
        return place

    def fetched() -> list[str]:
        return sorted(path.name for path in target.iterdir())

    push(1)
    push(2, marked=False)
    fetch(folder, source, target)
    assert fetched() == ["1"]
    assert (target / "1" / "variables" / "variables.index").read_bytes() == b"index"
    damaged = push(3)
    (damaged / "saved_model.pb").write_bytes(b"half")
    ended = fetch(folder, source, target, KEEP="3")
    assert "version 3 is not what its marker says" in ended.stderr
    assert fetched() == ["1"]
    for version in (10, 9):  # by number, not by name
        push(version)
    fetch(folder, source, target)
    assert fetched() == ["10", "9"]


def assert_drains(container: dict[str, Any], grace_seconds: int) -> None:
    """The server ignores SIGTERM, so everything must finish while `preStop` sleeps."""
    flags = dict(argument.removeprefix("--").split("=", 1) for argument in container["args"])
    assert int(flags["grpc_max_threads"]) >= 64
    assert flags["allow_version_labels_for_unavailable_models"] == "true"
    channel = dict(pair.split("=") for pair in flags["grpc_channel_arguments"].split(","))
    connections = sum(int(channel[f"grpc.max_connection_age_{part}"]) for part in ("ms", "grace_ms"))
    sleep, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert sleep == "sleep"
    assert max(connections, int(flags["rest_api_timeout_in_ms"])) < 1000 * int(seconds)
    assert int(seconds) < grace_seconds


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
        "xtr-tf": "xtr-tf-server:0.1",
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


def test_every_repository_that_scann_names_is_declared(folder, sources):
    scann, server = sources
    # As in ScaNN 1.3.2: what TensorFlow Serving's workspace lacks, what it has, and what is left out.
    utils = scann / "scann/utils/BUILD.bazel"
    utils.parent.mkdir()
    utils.write_text('cc_library(\n    name = "io_npy",\n    deps = [\n        "@cnpy",\n    ],\n)\n')
    python = scann / "scann/scann_ops/cc/python/BUILD.bazel"
    python.parent.mkdir()
    python.write_text(
        'load("@pybind11_bazel//:build_defs.bzl", "pybind_extension")\n\n'
        'pybind_extension(\n    name = "scann_pybind",\n)\n'
    )
    (scann / "scann/utils/build_defs.bzl").write_text('load("@com_google_protobuf//:protobuf.bzl", "x")\n')
    ended = add_scann_ops(folder, sources)
    assert ended.returncode == 0, ended.stderr
    workspace = (server / "WORKSPACE").read_text()
    assert re.search(r'git_repository\(\s+name = "cnpy",\s+commit = "[0-9a-f]{40}"', workspace)
    assert not python.exists()


def test_a_repository_that_nobody_has_stops_the_build(folder, sources):
    scann, server = sources
    newer = scann / "scann/oss_wrappers/BUILD.bazel"
    newer.write_text(newer.read_text() + 'cc_library(\n    name = "x",\n    deps = ["@eigen"],\n)\n')
    ended = add_scann_ops(folder, sources)
    assert ended.returncode == 1
    assert "name @eigen, which is in no workspace" in ended.stderr
    assert "git_repository" not in (server / "WORKSPACE").read_text()


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
