"""Compiles a pipeline for Vertex AI: a JSON job, made offline, that any account can submit later.

Training becomes a custom job on the configured worker pools, Beam's work goes to Dataflow, and everything
else runs in containers of the pipeline's image. The job must not refer to anything local.
"""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any

from kfp.pipeline_spec import pipeline_spec_pb2
from tfx.dsl.components.base import base_component
from tfx.extensions.google_cloud_ai_platform import constants
from tfx.extensions.google_cloud_ai_platform.trainer import component as cloud_trainer
from tfx.extensions.google_cloud_ai_platform.trainer.executor import TRAINING_ARGS_KEY
from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner
from tfx.orchestration.pipeline import Pipeline

from tfx_pipeline.artifacts import OWN_TYPES
from tfx_pipeline.config import PipelineConfig, is_remote
from tfx_pipeline.pipeline import Dag, create_pipeline
from tfx_pipeline.runners.vertex_tasks import move_to_machines, retry_tasks
from tfx_pipeline.vertex_config import HEAVY_TASKS, VertexConfig, WorkerPool
from tfx_pipeline.vertex_records import first_line
from xtr_tf.errors import InputError

_COMMAND = ("python", "-m", "tfx_pipeline.runners.vertex_container")
# Filter that TFX writes for a type that it does not know.
_ANY_TYPE = 'schema_title="tfx.Artifact"'


def compile_for_vertex(config: PipelineConfig, dag: Dag = "full") -> dict[str, Any]:
    """Compiles the job.

    Args:
        config: Configuration with a complete `vertex` section and all paths in Cloud Storage.
        dag: `full` or `refresh`.

    Returns:
        A `PipelineJob` of Vertex AI, ready to be written as JSON.

    Raises:
        InputError: Something that Vertex AI needs is not configured, or is on this machine.
    """
    _check(config)
    vertex = config.vertex
    config = dataclasses.replace(config, beam_args=dataflow_options(config))
    pipeline = create_pipeline(config, dag, trainer_class=partial(_trainer, vertex=vertex))
    _give_memory(pipeline, vertex)
    runner = kubeflow_v2_dag_runner.KubeflowV2DagRunner(
        kubeflow_v2_dag_runner.KubeflowV2DagRunnerConfig(
            display_name=f"{config.name}-{dag}", default_image=vertex.image, default_commands=list(_COMMAND)
        )
    )
    job: dict[str, Any] = runner.run(pipeline, write_out=False)
    _look_for_own_types(job)
    retry_tasks(job, vertex.retries)
    move_to_machines(job, vertex)
    return job


def dataflow_options(config: PipelineConfig) -> tuple[str, ...]:
    """Returns Beam's options for Dataflow.

    Args:
        config: The configuration.

    Returns:
        Options as on a command line. The user's own options override those of the `vertex` section.
    """
    vertex, dataflow = config.vertex, config.vertex.dataflow
    options = [
        "--runner=DataflowRunner",
        f"--project={vertex.project}",
        f"--region={vertex.region}",
        f"--temp_location={config.root}/dataflow",
        # Workers run the pipeline's own image, so that nothing is installed or missing when they start.
        f"--sdk_container_image={vertex.image}",
        "--experiments=use_runner_v2",
        # One process with TensorFlow per machine, which uses all of its cores.
        "--experiments=no_use_multiple_sdk_containers",
        f"--worker_machine_type={dataflow.machine}",
        f"--max_num_workers={dataflow.max_workers}",
        f"--disk_size_gb={dataflow.disk_gb}",
    ]
    if vertex.service_account:
        options.append(f"--service_account_email={vertex.service_account}")
    if dataflow.subnetwork:
        options += [f"--subnetwork={dataflow.subnetwork}", "--no_use_public_ips"]
    given = [option for option in config.beam_args if not option.startswith("--direct_")]
    # Experiments accumulate. Every other option has one value.
    replaced = {_name(option) for option in given} - {"--experiments"}
    return (*(option for option in options if _name(option) not in replaced), *given)


def _name(option: str) -> str:
    return option.partition("=")[0]


def _trainer(*, vertex: VertexConfig, custom_config: dict[str, Any], **given: Any) -> cloud_trainer.Trainer:
    """Makes TFX's Trainer with an executor that starts a custom job and waits for it."""
    job_spec: dict[str, Any] = {"worker_pool_specs": [_worker_pool(pool, vertex) for pool in vertex.training]}
    if vertex.service_account:
        job_spec["service_account"] = vertex.service_account
    if vertex.network:
        job_spec["network"] = vertex.network
    if vertex.training_timeout_hours:
        job_spec["scheduling"] = {"timeout": f"{round(vertex.training_timeout_hours * 3600)}s"}
    custom_job = {
        constants.ENABLE_VERTEX_KEY: True,
        constants.VERTEX_REGION_KEY: vertex.region,
        TRAINING_ARGS_KEY: {"project": vertex.project, "job_spec": job_spec},
    }
    return cloud_trainer.Trainer(custom_config=custom_config | custom_job, **given)


def _worker_pool(pool: WorkerPool, vertex: VertexConfig) -> dict[str, Any]:
    machine: dict[str, Any] = {"machine_type": pool.machine}
    if pool.accelerator:
        machine |= {"accelerator_type": pool.accelerator, "accelerator_count": pool.accelerator_count}
    if pool.tpu_topology:
        machine["tpu_topology"] = pool.tpu_topology
    given: dict[str, Any] = {
        "machine_spec": machine,
        "replica_count": pool.replicas,
        "container_spec": {"image_uri": pool.image or vertex.image},
    }
    if pool.disk_gb:
        given["disk_spec"] = {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": pool.disk_gb}
    return given


def _give_memory(pipeline: Pipeline, vertex: VertexConfig) -> None:
    container = pipeline_spec_pb2.PipelineDeploymentConfig.PipelineContainerSpec
    resources = container.ResourceSpec(cpu_limit=vertex.cpu_limit, memory_limit=vertex.memory_gb)
    for node in pipeline.components:
        if isinstance(node, base_component.BaseComponent) and node.id in HEAVY_TASKS:
            node.with_platform_config(resources)


def _look_for_own_types(job: dict[str, Any]) -> None:
    """Corrects the queries of resolvers, which would not find artifacts of our own types."""
    specification = job["pipelineSpec"]
    for component in specification["components"].values():
        executor = specification["deploymentSpec"]["executors"][component["executorLabel"]]
        for key, query in executor.get("resolver", {}).get("outputArtifactQueries", {}).items():
            schema = component["outputDefinitions"]["artifacts"][key]["artifactType"]["instanceSchema"]
            for kind in OWN_TYPES:
                if f"title: {kind.TYPE_NAME}\n" in schema:
                    query["filter"] = query["filter"].replace(_ANY_TYPE, f'schema_title="{kind.TYPE_NAME}"')


def _check(config: PipelineConfig) -> None:
    for name in ("project", "region", "image"):
        if not getattr(config.vertex, name):
            raise InputError(f"Vertex AI needs `vertex.{name}`; set it in the configuration. Received: ''.")
    places = {
        "root": config.root,
        "push_directory": config.serving_folder,
        "training_data.folder": config.training_data.folder,
        "training_data.schema": config.schema_folder("training"),
        "corpus.folder": config.corpus.folder,
        "corpus.schema": config.schema_folder("corpus"),
        "run.tokenizer.model": config.vocabulary,
        "run.training.initial_encoder": config.run.training.initial_encoder,
    }
    for name, place in places.items():
        # A vocabulary and an encoder to start from are optional.
        if not is_remote(place) and (place or not name.startswith("run.")):
            raise InputError(
                f"Vertex AI reads only from Cloud Storage; copy the data there and set `{name}` to a "
                f"`gs://` path. Received: {place!r}."
            )


def submit_job(job: Path, config: PipelineConfig, schedule: str | None = None) -> str:
    """Submits a job, once or on a schedule.

    Args:
        job: The file that `xtr-tf pipeline compile` wrote.
        config: The configuration that it was compiled with.
        schedule: Cron expression to run the job repeatedly, at most one run at a time. None runs it once.

    Returns:
        A phrase with the name that Vertex AI gave to the job or schedule.

    Raises:
        InputError: The job cannot be read, project or region are not configured, Google's library is not
            installed, there are no credentials, or Vertex AI refuses the job.
    """
    _check_job(job)
    vertex = config.vertex
    for name in ("project", "region"):
        if not getattr(vertex, name):
            raise InputError(f"Vertex AI needs `vertex.{name}`; set it in the configuration. Received: ''.")
    try:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import aiplatform
    except ImportError as error:
        raise InputError(
            f"Submitting needs `google-cloud-aiplatform`; install `xtr-tf[pipeline]`. Received: {error}."
        ) from None
    who = {"service_account": vertex.service_account or None, "network": vertex.network or None}
    try:
        aiplatform.init(project=vertex.project, location=vertex.region)
        submitted: Any = aiplatform.PipelineJob(
            display_name=config.name, template_path=str(job), pipeline_root=config.root
        )
        if schedule is None:
            submitted.submit(**who)
            return f"submitted as {submitted.resource_name}"
        planned = submitted.create_schedule(
            display_name=config.name, cron=schedule, max_concurrent_run_count=1, **who
        )
        return f"scheduled as {planned.resource_name}"
    except GoogleAuthError as error:
        raise InputError(
            "There are no credentials for Google Cloud; run `gcloud auth application-default login` or name "
            f"a service account. Received: {first_line(error)}."
        ) from None
    except GoogleAPICallError as error:
        raise InputError(f"Vertex AI refused the job. Received: {first_line(error)}.") from None


def _check_job(job: Path) -> None:
    try:
        content = json.loads(job.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"A job is the JSON file that `xtr-tf pipeline compile` wrote. Received: {job} "
            f"({type(error).__name__})."
        ) from None
    if not isinstance(content, dict) or "pipelineSpec" not in content:
        raise InputError(
            f"A job is the JSON file that `xtr-tf pipeline compile` wrote. Received: {job}, which is not one."
        )
