"""The job compiled for Vertex AI, checked without an account."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.processes import call_command
from tfx_pipeline.config import PipelineConfig, load_pipeline_config
from xtr_tf.errors import InputError

COMPONENTS = {
    "TrainingGen",
    "CorpusGen",
    "TrainingStatistics",
    "CorpusStatistics",
    "TrainingSchema",
    "CorpusSchema",
    "TrainingValidator",
    "CorpusValidator",
    "DataGate",
    "Transform",
    "Trainer",
    "CorpusEncoder",
    "IndexBuilder",
    "RetrieverExporter",
    "RetrievalEvaluator",
    "ServingValidator",
    "Pusher",
}
ON_MACHINES = ("IndexBuilder", "RetrieverExporter", "RetrievalEvaluator")
IMAGE = "europe-docker.pkg.dev/my-project/xtr-tf/pipeline:1"


@pytest.fixture(scope="module")
def config(repository: Path) -> PipelineConfig:
    return load_pipeline_config(repository / "examples" / "configs" / "vertex_pipeline.yaml")


@pytest.fixture(scope="module")
def job_file(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job that the command compiles from the documented configuration."""
    from xtr_tf.cli.app import app

    out = tmp_path_factory.mktemp("vertex") / "out" / "job.json"
    example = repository / "examples" / "configs" / "vertex_pipeline.yaml"
    command = ["pipeline", "compile", "--runner", "vertex", "--config", str(example), "--out", str(out)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert "tasks in" in result.output
    return out


@pytest.fixture(scope="module")
def job(job_file: Path) -> dict[str, Any]:
    return json.loads(job_file.read_text())


@pytest.fixture(scope="module")
def executors(job: dict[str, Any]) -> dict[str, Any]:
    found = job["pipelineSpec"]["deploymentSpec"]["executors"]
    return {name.removesuffix("_executor"): executor for name, executor in found.items()}


def texts(value: Any) -> Iterator[str]:
    """Every string in the job, and those in the JSON that strings hold."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
    elif isinstance(value, str):
        yield value
        if value[:1] in "{[":
            with contextlib.suppress(ValueError):
                yield from texts(json.loads(value))


def test_the_job_has_every_component(job: dict[str, Any], executors: dict[str, Any]) -> None:
    tasks = set(job["pipelineSpec"]["root"]["dag"]["tasks"])
    assert tasks >= COMPONENTS
    assert {task for task in tasks if task.startswith("LatestBlessedModel")}
    assert {task for task in tasks if task.startswith("LatestDataGate")}
    assert set(executors) == tasks
    assert job["runtimeConfig"]["gcsOutputDirectory"] == "gs://my-bucket/pipeline"


def launched(container: dict[str, Any]) -> dict[str, Any]:
    """The custom job that a launcher's container starts."""
    arguments = container["args"]
    return dict(json.loads(arguments[arguments.index("--payload") + 1]))


def test_containers_run_our_image_and_the_right_executor(executors: dict[str, Any]) -> None:
    containers = {name: own["container"] for name, own in executors.items() if "container" in own}
    for name in ON_MACHINES:
        (pool,) = launched(containers[name])["job_spec"]["worker_pool_specs"]
        containers[name] = {"image": pool["container_spec"].pop("image_uri"), **pool["container_spec"]}
    assert {container["image"] for container in containers.values()} == {IMAGE}
    own = {
        "DataGate": "tfx_pipeline.components.data_gate.DataGateExecutor",
        "RetrievalEvaluator": "tfx_pipeline.components.retrieval_evaluator.RetrievalEvaluatorExecutor",
        "ServingValidator": "tfx_pipeline.components.serving_validator.ServingValidatorExecutor",
        "Trainer": "tfx.extensions.google_cloud_ai_platform.trainer.executor.GenericExecutor",
    }
    for name, executor in own.items():
        arguments = containers[name]["args"]
        assert arguments[arguments.index("--executor_class_path") + 1] == executor
    commands = {tuple(container["command"]) for container in containers.values()}
    assert commands == {("python", "-m", "tfx_pipeline.runners.vertex_container")}
    encoder = containers["CorpusEncoder"]["resources"]
    assert (encoder["cpuLimit"], encoder["memoryLimit"]) == (32, 120)


def test_tasks_that_need_a_disk_are_custom_jobs(executors: dict[str, Any], job: dict[str, Any]) -> None:
    """The job has the same form as a recorded one of Google's own components."""
    from google.cloud.aiplatform_v1.types import CustomJob

    recorded = json.loads((Path(__file__).parent / "recorded" / "custom_job.json").read_text())
    container = executors["IndexBuilder"]["container"]
    for part in ("image", "command"):
        assert container[part] == recorded["container"][part]
    assert container["args"][::2] == recorded["container"]["args"][::2]
    assert container["args"][-1] == recorded["container"]["args"][-1]
    outputs = job["pipelineSpec"]["components"]["IndexBuilder"]["outputDefinitions"]
    assert list(outputs["parameters"]) == recorded["output_parameters"]
    assert "index" in outputs["artifacts"]

    payload = launched(container)
    (pool,) = payload["job_spec"]["worker_pool_specs"]
    expected = recorded["worker_pool_spec"]
    assert pool.keys() == expected.keys()
    assert pool["machine_spec"] == expected["machine_spec"]
    assert pool["disk_spec"] == expected["disk_spec"]
    arguments = pool["container_spec"]["args"]
    assert "{{$.json_escape[1]}}" in arguments
    assert "{{$}}" not in arguments
    assert arguments[1] == "tfx_pipeline.components.index_builder.IndexBuilderExecutor"
    assert payload["job_spec"]["scheduling"] == {"timeout": "86400s"}
    assert payload["job_spec"]["service_account"].startswith("pipeline@")
    # Google's own message knows every field.
    assert CustomJob(payload).job_spec.worker_pool_specs[0].disk_spec.boot_disk_size_gb == 500
    for name in ON_MACHINES:
        assert executors[name]["container"]["image"] == recorded["container"]["image"]
        assert "resources" not in executors[name]["container"]


def test_a_tasks_invocation_stays_valid_json_inside_the_launchers_json(executors: dict[str, Any]) -> None:
    """Vertex AI inserts the invocation, escaped once, in place of `json_escape[1]`."""
    arguments = executors["IndexBuilder"]["container"]["args"]
    invocation = json.dumps({"inputs": {"parameters": {"settings": {"stringValue": '{"kind": "scann"}'}}}})
    told = arguments[arguments.index("--payload") + 1].replace(
        "{{$.json_escape[1]}}", json.dumps(invocation)[1:-1]
    )
    (pool,) = json.loads(told)["job_spec"]["worker_pool_specs"]
    received = pool["container_spec"]["args"]
    assert received[received.index("--json_serialized_invocation_args") + 1] == invocation


def test_tasks_in_containers_are_retried(job: dict[str, Any], executors: dict[str, Any]) -> None:
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2

    tasks = job["pipelineSpec"]["root"]["dag"]["tasks"]
    retried = {name for name, task in tasks.items() if "retryPolicy" in task}
    assert retried == {name for name, executor in executors.items() if "container" in executor}
    policy = pipeline_spec_pb2.PipelineTaskSpec.RetryPolicy()
    json_format.ParseDict(tasks["IndexBuilder"]["retryPolicy"], policy)
    assert (policy.max_retry_count, policy.backoff_duration.seconds) == (2, 60)


def test_resolvers_ask_for_the_right_artifact_types(executors: dict[str, Any]) -> None:
    filters = {
        (name, key): query["filter"]
        for name, executor in executors.items()
        for key, query in executor.get("resolver", {}).get("outputArtifactQueries", {}).items()
    }
    assert filters["LatestDataGate", "gate"] == 'schema_title="xtr.DataGate" AND state=LIVE'
    assert "tfx.ModelBlessing" in filters["LatestBlessedModel-model-blessing-resolver", "model_blessing"]
    assert not [own for own in filters.values() if "tfx.Artifact" in own]


def test_training_is_a_custom_job_on_the_worker_pools(job: dict[str, Any]) -> None:
    parameters = job["pipelineSpec"]["root"]["dag"]["tasks"]["Trainer"]["inputs"]["parameters"]
    given = json.loads(parameters["custom_config"]["runtimeValue"]["constantValue"]["stringValue"])
    assert given["ai_platform_enable_vertex"] is True
    assert given["ai_platform_vertex_region"] == "europe-west4"
    training = given["ai_platform_training_args"]
    assert training["project"] == "my-project"
    (pool,) = training["job_spec"]["worker_pool_specs"]
    assert pool["machine_spec"] == {"machine_type": "ct5lp-hightpu-4t", "tpu_topology": "2x2"}
    assert pool["container_spec"]["image_uri"].endswith("pipeline-tpu:1")
    assert training["job_spec"]["service_account"].startswith("pipeline@")
    assert training["job_spec"]["scheduling"] == {"timeout": "259200s"}
    # The paper's recipe, not the defaults.
    assert (given["run"]["training"]["batch_size"], given["run"]["loss"]["k_train"]) == (256, 256)
    assert given["run"]["training"]["dtype"] == "mixed_bfloat16"
    assert given["run"]["encoder"]["dtype"] == "float32"
    assert given["run"]["training"]["distribution"] == "tpu"
    # Google's own message knows every field.
    from google.cloud.aiplatform_v1.types import CustomJobSpec

    assert CustomJobSpec(training["job_spec"]).worker_pool_specs[0].machine_spec.tpu_topology == "2x2"


def test_beam_runs_on_dataflow(executors: dict[str, Any]) -> None:
    for name in ("TrainingGen", "CorpusStatistics", "DataGate", "Transform"):
        arguments = executors[name]["container"]["args"]
        assert "--runner=DataflowRunner" in arguments
        assert "--region=europe-west4" in arguments
        assert "--max_num_workers=100" in arguments
        assert "--temp_location=gs://my-bucket/pipeline/dataflow" in arguments
        assert f"--sdk_container_image={IMAGE}" in arguments


def test_beam_knows_every_option(config: PipelineConfig) -> None:
    from apache_beam.options.pipeline_options import PipelineOptions

    from tfx_pipeline.runners.vertex import dataflow_options

    known = PipelineOptions(list(dataflow_options(config))).get_all_options(drop_default=True)
    assert known == {
        "runner": "DataflowRunner",
        "project": "my-project",
        "region": "europe-west4",
        "temp_location": "gs://my-bucket/pipeline/dataflow",
        "sdk_container_image": IMAGE,
        "experiments": ["use_runner_v2", "no_use_multiple_sdk_containers"],
        "machine_type": "n1-standard-8",
        "max_num_workers": 100,
        "disk_size_gb": 100,
        "service_account_email": "pipeline@my-project.iam.gserviceaccount.com",
    }


def test_user_options_override_the_defaults(config: PipelineConfig) -> None:
    from tfx_pipeline.runners.vertex import dataflow_options

    own = ("--max_num_workers=7", "--experiments=shuffle_mode=service", "--direct_num_workers=1")
    options = dataflow_options(dataclasses.replace(config, beam_args=own))
    assert [option for option in options if "num_workers" in option] == ["--max_num_workers=7"]
    assert len([option for option in options if option.startswith("--experiments=")]) == 3


def test_thresholds_reach_the_evaluator(job: dict[str, Any]) -> None:
    tasks = job["pipelineSpec"]["root"]["dag"]["tasks"]
    thresholds = tasks["RetrievalEvaluator"]["inputs"]["parameters"]["thresholds"]
    quality = json.loads(thresholds["runtimeValue"]["constantValue"]["stringValue"])
    assert quality["max_language_drop"] == 0.02
    assert tasks["Transform"]["dependentTasks"].count("DataGate") == 1


def test_the_job_contains_no_local_path(job: dict[str, Any], repository: Path) -> None:
    found = list(texts(job))
    assert len(found) > 300
    assert [text for text in found if str(repository) in text] == []
    assert [text for text in found if re.match(r"(file:|/|~|\.\.?/)", text)] == []


def test_gpu_pools_and_private_workers_are_in_the_job(config: PipelineConfig) -> None:
    from tfx_pipeline.runners.vertex import compile_for_vertex, dataflow_options
    from xtr_tf.config.loading import from_mapping, to_mapping

    settings = to_mapping(config)
    settings["vertex"] |= {
        "training": [
            {"machine": "a2-highgpu-8g", "accelerator": "NVIDIA_TESLA_A100", "accelerator_count": 8},
            {
                "machine": "a2-highgpu-8g",
                "accelerator": "NVIDIA_TESLA_A100",
                "accelerator_count": 8,
                "replicas": 3,
            },
        ],
        "dataflow": {"subnetwork": "regions/europe-west4/subnetworks/private"},
    }
    gpus = from_mapping(PipelineConfig, settings)
    assert "--no_use_public_ips" in dataflow_options(gpus)
    tasks = compile_for_vertex(gpus)["pipelineSpec"]["root"]["dag"]["tasks"]
    given = tasks["Trainer"]["inputs"]["parameters"]["custom_config"]["runtimeValue"]["constantValue"]
    pools = json.loads(given["stringValue"])["ai_platform_training_args"]["job_spec"]["worker_pool_specs"]
    assert [pool["replica_count"] for pool in pools] == [1, 3]
    assert pools[1]["machine_spec"]["accelerator_count"] == 8
    assert pools[1]["container_spec"]["image_uri"] == IMAGE


def test_the_refresh_dag_does_not_train(config: PipelineConfig) -> None:
    from tfx_pipeline.runners.vertex import compile_for_vertex

    tasks = set(compile_for_vertex(config, "refresh")["pipelineSpec"]["root"]["dag"]["tasks"])
    assert tasks >= COMPONENTS - {"Trainer", "Transform"}
    assert not tasks & {"Trainer", "Transform"}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("vertex.project=''", "Vertex AI needs `vertex.project`"),
        ("vertex.training=[{machine: ct5lp-hightpu-4t, tpu_topology: 4x4}]", r"one machine.*\('4x4', 1\)"),
        (
            "vertex.tasks={Pusher: {}}",
            "`vertex.tasks` must be one of NegativeMiner, .*'Pusher'",
        ),
        ("vertex.tasks={IndexBuilder: {disk_gb: 20}}", "`disk_gb` of a task must be at least 100.*20"),
        ("root=out/pipeline", "set `root` to a `gs://` path"),
        ("corpus.folder=data", "set `corpus.folder` to a `gs://` path"),
        ("run.tokenizer.model=spiece.model", "set `run.tokenizer.model` to a `gs://` path"),
    ],
)
def test_a_configuration_that_vertex_could_not_run_is_refused(
    repository: Path, override: str, message: str
) -> None:
    from tfx_pipeline.runners.vertex import compile_for_vertex

    example = repository / "examples" / "configs" / "vertex_pipeline.yaml"
    with pytest.raises(InputError, match=message):
        compile_for_vertex(load_pipeline_config(example, [override]))


def test_googles_library_accepts_the_job(job_file: Path) -> None:
    """Google's own library accepts the file; nothing is sent."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import aiplatform

    read = aiplatform.PipelineJob(
        display_name="retriever",
        template_path=str(job_file),
        project="my-project",
        location="europe-west4",
        credentials=AnonymousCredentials(),
    )
    assert read.pipeline_spec["pipelineInfo"]["name"] == "retriever"


def test_submitting_without_an_account_is_an_input_error(
    job_file: Path, config: PipelineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfx_pipeline.runners.vertex import submit_job

    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(InputError, match="no credentials for Google Cloud"):
        submit_job(job_file, config)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="A job is the JSON file that `xtr-tf pipeline compile` wrote"):
        submit_job(tmp_path / "other.json", config)
    with pytest.raises(InputError, match=r"Received: .*absent.json \(FileNotFoundError\)"):
        submit_job(tmp_path / "absent.json", config)


def test_lineage_of_a_pipeline_in_the_cloud_refers_to_vertex(repository: Path) -> None:
    from tfx_pipeline.cli_records import lineage

    example = repository / "examples" / "configs" / "vertex_pipeline.yaml"
    with pytest.raises(InputError, match=r"pipelines/runs\?project=my-project.*Received: gs://my-bucket"):
        lineage("gs://my-bucket/serving/retriever/1", config=example)


@pytest.fixture
def vertex_service() -> Iterator[Any]:
    """A service that lists pipeline jobs, and Google's own client that asks it.

    The answer has the form of the API's reference; it was written by hand, because there is no account.
    """
    import grpc
    from google.cloud.aiplatform_v1 import PipelineServiceClient, types
    from google.cloud.aiplatform_v1.services.pipeline_service.transports import PipelineServiceGrpcTransport

    recorded = Path(__file__).with_name("pipeline_jobs.json").read_text()
    answer = types.ListPipelineJobsResponse.from_json(recorded)
    asked: list[Any] = []

    def list_jobs(request: Any, context: grpc.ServicerContext) -> Any:
        asked.append(request)
        if "my-project" not in request.parent:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "Permission denied on resource project.")
        return answer

    handler = grpc.unary_unary_rpc_method_handler(
        list_jobs, types.ListPipelineJobsRequest.deserialize, types.ListPipelineJobsResponse.serialize
    )
    name = "google.cloud.aiplatform.v1.PipelineService"
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(name, {"ListPipelineJobs": handler})]
    )
    port = server.add_insecure_port("localhost:0")
    server.start()
    with grpc.insecure_channel(f"localhost:{port}") as channel:
        yield PipelineServiceClient(transport=PipelineServiceGrpcTransport(channel=channel)), asked
    server.stop(None)


def test_runs_in_the_cloud_are_listed_with_their_tasks(vertex_service: Any, config: PipelineConfig) -> None:
    from tfx_pipeline.vertex_records import recorded_runs

    client, asked = vertex_service
    runs = recorded_runs(config.vertex, config.name, 5, client)
    assert [(run.run_id, run.state) for run in runs] == [
        ("retriever-20261115030002", "complete"),
        ("retriever-20261116030001", "failed"),
    ]
    tasks = {task.component: (task.state, task.seconds) for task in runs[1].components}
    assert tasks == {
        "CorpusGen": ("CACHED", 0.0),
        "DataGate": ("COMPLETE", 95.5),
        "CorpusEncoder": ("FAILED", 60.0),
    }
    assert asked[0].parent == "projects/my-project/locations/europe-west4"
    assert asked[0].filter == 'pipeline_name="retriever"'
    elsewhere = dataclasses.replace(config.vertex, project="other")
    with pytest.raises(InputError, match=r"refused to list the runs.*Permission denied"):
        recorded_runs(elsewhere, config.name, 5, client)


def test_status_shows_runs_in_the_cloud(
    repository: Path, vertex_service: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tfx_pipeline.cli_records import status

    client, _ = vertex_service
    monkeypatch.setattr("google.cloud.aiplatform_v1.PipelineServiceClient", lambda **_: client)
    status(config=repository / "examples" / "configs" / "vertex_pipeline.yaml")
    said = capsys.readouterr().out
    assert "retriever-20261116030001  failed" in said
    assert "✗ CorpusEncoder" in said
    assert "in production: the newest version in gs://my-bucket/serving/retriever" in said


def test_status_without_an_account_is_an_input_error(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfx_pipeline.cli_records import status

    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(InputError, match="no credentials to ask with"):
        status(config=repository / "examples" / "configs" / "vertex_pipeline.yaml")


def test_the_whole_configuration_is_printed(repository: Path, tmp_path: Path) -> None:
    shown = call_command("config", "show", repository / "examples" / "configs" / "vertex_pipeline.yaml")
    assert shown.returncode == 0
    (tmp_path / "shown.yaml").write_text(shown.stdout)
    again = load_pipeline_config(tmp_path / "shown.yaml")
    assert again == load_pipeline_config(repository / "examples" / "configs" / "vertex_pipeline.yaml")
    assert again.run.training.batch_size == 256


def test_a_schedule_is_part_of_the_configuration(job_file: Path, repository: Path, tmp_path: Path) -> None:
    example = repository / "examples" / "configs" / "vertex_pipeline.yaml"
    nobody = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "none.json")}
    asked = call_command("pipeline", "schedule", job_file, "--config", example, **nobody)
    assert "no credentials for Google Cloud" in asked.stderr
    never = call_command("pipeline", "schedule", job_file, "--config", example, "--set", "vertex.schedule=''")
    assert "Set `vertex.schedule`" in never.stderr
