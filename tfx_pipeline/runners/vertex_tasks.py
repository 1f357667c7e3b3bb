"""Settings of single tasks in a compiled job: how often they are retried, and which have their own machine.

Containers of Vertex AI Pipelines have settings for cores and memory, but not for the disk. A task that needs
a disk becomes a custom job on its own machine, in the form of Google's pipeline components: its container
becomes a launcher, which starts the original one there and waits for it. This file knows the JSON of a job,
not TFX.
"""

from __future__ import annotations

import json
from typing import Any

from tfx_pipeline.vertex_config import TaskMachine, VertexConfig

_LAUNCHER_IMAGE = "gcr.io/ml-pipeline/google-cloud-pipeline-components:2.22.0"
_LAUNCHER = ("python3", "-u", "-m", "google_cloud_pipeline_components.container.v1.custom_job.launcher")
# Placeholder for the description of a container's task, and the same within a JSON string.
_INVOCATION, _ESCAPED_INVOCATION = "{{$}}", "{{$.json_escape[1]}}"


def retry_tasks(job: dict[str, Any], count: int) -> None:
    """Retries tasks that failed in a container, after one minute, then two, and so on.

    Args:
        job: The compiled job, changed in place.
        count: Number of retries.
    """
    if not count:
        return
    specification = job["pipelineSpec"]
    policy = {"maxRetryCount": count, "backoffDuration": "60s", "backoffFactor": 2.0}
    for name, task in specification["root"]["dag"]["tasks"].items():
        if "container" in _executor(specification, _component(specification, name)):
            task["retryPolicy"] = dict(policy)


def move_to_machines(job: dict[str, Any], vertex: VertexConfig) -> None:
    """Gives the tasks of `vertex.tasks` their own machines.

    Args:
        job: The compiled job, changed in place.
        vertex: Settings with the machines.
    """
    specification = job["pipelineSpec"]
    for task, machine in vertex.tasks.items():
        component = _component(specification, task)
        executor = _executor(specification, component)
        executor["container"] = _launcher(task, executor["container"], machine, vertex)
        outputs = component.setdefault("outputDefinitions", {}).setdefault("parameters", {})
        outputs["gcp_resources"] = {"type": "STRING"}


def _launcher(
    task: str, container: dict[str, Any], machine: TaskMachine, vertex: VertexConfig
) -> dict[str, Any]:
    arguments = [_ESCAPED_INVOCATION if part == _INVOCATION else part for part in container["args"]]
    pool = {
        "machine_spec": {"machine_type": machine.machine},
        "replica_count": 1,
        "container_spec": {
            "image_uri": container["image"],
            "command": container["command"],
            "args": arguments,
            "env": [],
        },
        "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": machine.disk_gb},
    }
    job_spec: dict[str, Any] = {"worker_pool_specs": [pool]}
    if machine.timeout_hours:
        job_spec["scheduling"] = {"timeout": f"{round(machine.timeout_hours * 3600)}s"}
    for name in ("service_account", "network"):
        if getattr(vertex, name):
            job_spec[name] = getattr(vertex, name)
    payload = json.dumps({"display_name": task, "job_spec": job_spec})
    place = ["--project", vertex.project, "--location", vertex.region]
    resources = ["--gcp_resources", "{{$.outputs.parameters['gcp_resources'].output_file}}"]
    return {
        "image": _LAUNCHER_IMAGE,
        "command": list(_LAUNCHER),
        "args": ["--type", "CustomJob", "--payload", payload, *place, *resources],
    }


def _component(specification: dict[str, Any], task: str) -> dict[str, Any]:
    reference = specification["root"]["dag"]["tasks"][task].get("componentRef", {})
    found: dict[str, Any] = specification["components"][reference.get("name", task)]
    return found


def _executor(specification: dict[str, Any], component: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = specification["deploymentSpec"]["executors"][component["executorLabel"]]
    return found
