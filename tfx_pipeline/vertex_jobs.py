"""Submits compiled jobs to Vertex AI. Imports Google's library when it is needed, and TFX never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfx_pipeline.config import PipelineConfig
from xtr_tf.errors import InputError


def submit_job(job: Path, config: PipelineConfig, schedule: str | None = None) -> str:
    """Submits a job, once or on a schedule.

    Args:
        job: The file that `xtr-tf pipeline compile` wrote.
        config: The configuration that it was compiled with.
        schedule: When to run it again and again, as cron writes it; at most one run at a time.

    Returns:
        A phrase with the name that Vertex AI gave it.

    Raises:
        InputError: The job cannot be read, Google's library is absent, or Google refuses.
    """
    _check_job(job)
    vertex = config.vertex
    for name in ("project", "region"):
        if not getattr(vertex, name):
            raise InputError(f"Vertex AI needs `vertex.{name}`; set it in the configuration. Received: none.")
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
            "Google Cloud does not know who is asking; run `gcloud auth application-default login` or name a "
            f"service account. Received: {_first_line(error)}."
        ) from None
    except GoogleAPICallError as error:
        raise InputError(f"Vertex AI refused the job. Received: {_first_line(error)}.") from None


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
            f"A job is the JSON file that `xtr-tf pipeline compile` wrote. Received: {job}, which is none."
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
