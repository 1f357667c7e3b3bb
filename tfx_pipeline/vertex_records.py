"""The runs of a pipeline that Vertex AI recorded, in the form that `xtr-tf pipeline status` shows.

Uses Google's own client, which is imported only when it is needed.
"""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

from tfx_pipeline.lineage import ComponentRecord, RunRecord
from tfx_pipeline.vertex_config import VertexConfig
from xtr_tf.errors import InputError, needs_extra, require

# By the names of Google's states. A task in any other state is running or waiting.
_STATES = {"SUCCEEDED": "COMPLETE", "SKIPPED": "CACHED", "FAILED": "FAILED", "CANCELLED": "CANCELED"}


def recorded_runs(vertex: VertexConfig, name: str, last: int, client: Any = None) -> list[RunRecord]:
    """Returns the last runs of a pipeline.

    Args:
        vertex: Settings with project and region.
        name: Name of the pipeline.
        last: Maximum number of runs.
        client: A `PipelineServiceClient`. Defaults to one for the region, with the account that is logged in.

    Returns:
        The runs, the newest last, each with its tasks in the order they began.

    Raises:
        InputError: Project or region are not configured, nobody is logged in, or Vertex AI refuses.
    """
    for key in ("project", "region"):
        require(
            bool(getattr(vertex, key)), f"Vertex AI needs `vertex.{key}`; set it in the configuration.", ""
        )
    with needs_extra("The pipeline", "pipeline"):
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.aiplatform_v1 import PipelineServiceClient
    request = {
        "parent": f"projects/{vertex.project}/locations/{vertex.region}",
        "filter": f'pipeline_name="{name}"',
        "order_by": "create_time desc",
        "page_size": last,
    }
    try:
        if client is None:
            place = f"{vertex.region}-aiplatform.googleapis.com"
            client = PipelineServiceClient(client_options={"api_endpoint": place})
        jobs = list(itertools.islice(client.list_pipeline_jobs(request=request), last))
    except GoogleAuthError as error:
        raise InputError(
            "Vertex AI keeps the records of what it ran, and there are no credentials to ask with; run "
            f"`gcloud auth application-default login`. Received: {first_line(error)}."
        ) from None
    except GoogleAPICallError as error:
        raise InputError(f"Vertex AI refused to list the runs. Received: {first_line(error)}.") from None
    return [_run(job) for job in reversed(jobs)]


def _run(job: Any) -> RunRecord:
    # The job itself is among its tasks, as the parent of all others.
    tasks = [_component(task) for task in job.job_detail.task_details if task.parent_task_id]
    return RunRecord(job.name.rpartition("/")[2], tuple(sorted(tasks, key=lambda task: task.started)))


def _component(task: Any) -> ComponentRecord:
    started = task.start_time or task.create_time or dt.datetime.fromtimestamp(0, dt.timezone.utc)
    seconds = (task.end_time - started).total_seconds() if task.end_time else 0.0
    return ComponentRecord(task.task_name, _STATES.get(task.state.name, "RUNNING"), started, seconds)


def first_line(error: Exception) -> str:
    """Returns the first line of an error's message. Google's messages can be a page long."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
