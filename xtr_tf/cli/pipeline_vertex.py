"""`xtr-tf pipeline compile` and `submit`: the same pipeline in Vertex AI."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from xtr_tf.cli.config import Overrides
from xtr_tf.cli.extras import needs_extra
from xtr_tf.cli.pipeline import ConfigOption, Dag, DagOption, load_settings


class Runner(str, Enum):
    """What a pipeline can be compiled for."""

    vertex = "vertex"


def compile_pipeline(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The job to write (JSON).")],
    runner: Annotated[Runner, typer.Option(help="What to compile for.")] = Runner.vertex,
    config: ConfigOption = None,
    dag: DagOption = Dag.full,
    overrides: Overrides = None,
) -> None:
    """Compile the pipeline to a job for Vertex AI; needs neither a network nor an account."""
    settings = load_settings(config, overrides or [])
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline.runners.vertex import compile_for_vertex
    import json

    from xtr_tf.corpus.files import write_aside

    job = compile_for_vertex(settings, dag.value)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_aside(out, json.dumps(job, indent=1, sort_keys=True).encode())
    typer.echo(f"{runner.value}: {len(job['pipelineSpec']['root']['dag']['tasks'])} tasks in {out}")


def submit(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="What `xtr-tf pipeline compile` wrote.")],
    config: ConfigOption = None,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='Run it again and again, such as "0 3 * * *" every night.'),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Submit a compiled job to Vertex AI, once or on a schedule."""
    settings = load_settings(config, overrides or [])
    from tfx_pipeline.vertex_jobs import submit_job

    typer.echo(submit_job(job, settings, schedule))
