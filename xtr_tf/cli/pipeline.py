"""`xtr-tf pipeline run`: the TFX pipeline on this machine, and a summary of what came of it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli.config import Overrides
from xtr_tf.cli.extras import needs_extra

if TYPE_CHECKING:
    from tfx_pipeline.config import PipelineConfig

app = typer.Typer(help="Run, compile and inspect the TFX pipeline.", no_args_is_help=True)


class Dag(str, Enum):
    """The entry DAGs."""

    full = "full"
    refresh = "refresh"


ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration of the pipeline (YAML).")
]
DagOption = Annotated[
    Dag, typer.Option(help="`full`: data, model, index. `refresh`: only the corpus changed.")
]


@app.command()
def run(config: ConfigOption = None, dag: DagOption = Dag.full, overrides: Overrides = None) -> None:
    """Run the pipeline here; what did not change is taken from the cache, what was killed continues."""
    settings = load_settings(config, overrides or [])
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline.runners.local_pipeline import run_pipeline
    from xtr_tf.cli.pipeline_summary import print_summary

    outcome = run_pipeline(settings, dag.value)
    print_summary(settings, outcome)
    if not outcome.pushed:
        raise typer.Exit(2)


def load_settings(config: Path | None, overrides: list[str]) -> PipelineConfig:
    """Reads a pipeline's configuration; shared by the commands of this group."""
    from tfx_pipeline.config import load_pipeline_config

    return load_pipeline_config(config, overrides)
