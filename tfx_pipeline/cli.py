"""`xtr-tf pipeline`: run the TFX pipeline here, compile it for Vertex AI, and look at what it did.

Importing this file must not import TFX: a command imports what it needs when it runs.
"""

from __future__ import annotations

import datetime as dt
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from xtr_tf.cli.config import Overrides
from xtr_tf.errors import InputError, needs_extra

if TYPE_CHECKING:
    from tfx_pipeline.config import PipelineConfig
    from tfx_pipeline.lineage import Lineage, RunRecord
    from tfx_pipeline.provenance import Provenance
    from tfx_pipeline.runners.local import Outcome


app = typer.Typer(help="Run, compile and inspect the TFX pipeline.", no_args_is_help=True)


def register(parent: typer.Typer) -> None:
    """Adds the commands of this package to `xtr-tf`."""
    parent.add_typer(app, name="pipeline")


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
        from tfx_pipeline.runners.local import run_pipeline

    outcome = run_pipeline(settings, dag.value)
    print_summary(settings, outcome)
    if not outcome.pushed:
        raise typer.Exit(2)


def load_settings(config: Path | None, overrides: list[str]) -> PipelineConfig:
    """Reads a pipeline's configuration; shared by the commands of this group."""
    from tfx_pipeline.config import load_pipeline_config

    return load_pipeline_config(config, overrides)


def print_summary(config: PipelineConfig, outcome: Outcome) -> None:
    """Prints the summary of a run."""
    console = Console(highlight=False, soft_wrap=True)
    console.print()
    if outcome.pushed:
        console.print(f"[bold green]pushed[/]   {_relative(outcome.pushed)}")
    else:
        console.print("[bold red]not pushed[/]; what was in production stays")
    for reason in outcome.reasons:
        console.print(f"         {reason}")
    console.print(f"report   {_relative(outcome.report)}")
    if outcome.pushed:
        console.print(f"serve    xtr-tf serve --model-base {_relative(config.serving_folder)}")
        console.print('ask      xtr-tf query "..." --explain')


def _relative(path: str) -> str:
    """A path as short as it can be typed here."""
    place = Path(path)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else path


RootOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="The pipeline's root, instead of a configuration.")
]

_COLOURS = {"complete": "green", "failed": "red", "interrupted": "yellow"}
_MARKS = {"COMPLETE": "[green]✓[/]", "CACHED": "[green]=[/]", "FAILED": "[red]✗[/]"}
_SYSTEMS = {"xtr": "this model", "baseline": "latest blessed", "bm25": "BM25"}


@app.command()
def status(
    config: ConfigOption = None,
    root: RootOption = None,
    last: Annotated[int, typer.Option(min=1, help="How many runs to show.")] = 5,
    overrides: Overrides = None,
) -> None:
    """Show the last runs, what each component did, and what is in production."""
    lineage = _open(config, root, overrides or [])
    console = _console()
    runs = lineage.runs()[-last:]
    for run in runs:
        console.print(f"[bold]{_when(run.run_id)}[/]  [{_COLOURS[run.state]}]{run.state}[/]")
        if run is runs[-1]:
            _print_components(console, run)
    pushed = [
        record.properties["pushed_destination"]
        for record in lineage.artifacts("PushedModel")
        if record.properties.get("pushed")
    ]
    console.print(f"\nin production: {pushed[-1] if pushed else 'nothing yet'}")
    for kind in ("ModelBlessing", "InfraBlessing"):
        for record in lineage.artifacts(kind)[-1:]:
            blessed = "[green]blessed[/]" if record.properties.get("blessed") else "[red]not blessed[/]"
            reasons = str(record.properties.get("reasons", "")).splitlines()
            console.print(f"last {record.producer}: {blessed}; {' '.join(reasons)}")


@app.command()
def lineage(
    model: Annotated[str, typer.Argument(help="A version that was pushed, or a model's artifact folder.")],
    config: ConfigOption = None,
    root: RootOption = None,
    overrides: Overrides = None,
) -> None:
    """Tell what a model was made from, how good it is, and why it was (not) blessed."""
    from tfx_pipeline.config import absolute
    from tfx_pipeline.provenance import trace

    _print_provenance(_console(), trace(_open(config, root, overrides or []), absolute(model)))


def _open(config: Path | None, root: Path | None, overrides: list[str]) -> Lineage:
    from tfx_pipeline.config import absolute, is_remote

    place = str(root) if root else load_settings(config, overrides).root
    if is_remote(place):
        raise InputError(
            f"Metadata of a pipeline in the cloud are Vertex AI's; look at its console. Received: {place}."
        )
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline.lineage import METADATA_FILE, Lineage
    return Lineage(Path(absolute(place), METADATA_FILE))


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def _when(run_id: str) -> str:
    """A run's id is the time it began."""
    try:
        return dt.datetime.fromisoformat(run_id).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return run_id


def _print_components(console: Console, run: RunRecord) -> None:
    for component in run.components:
        mark = _MARKS.get(component.state, "[yellow]?[/]")
        note = "cached" if component.state == "CACHED" else f"{component.seconds:.1f} s"
        console.print(f"  {mark} {component.component:28} {note}")


def _print_provenance(console: Console, found: Provenance) -> None:
    def line(name: str, text: str) -> None:
        console.print(f"[bold]{name:12}[/] {text}")

    line("model", found.model.uri)
    line("pushed to", found.pushed or "nowhere")
    for record in found.data:
        fingerprint = str(record.properties.get("input_fingerprint", ""))
        span = f", span {record.properties['span']}" if "span" in record.properties else ""
        files = f" ({' '.join(fingerprint.split())})" if fingerprint else ""
        line("data", f"{record.producer}: {record.uri}{span}{files}")
    for record in found.schemas:
        line(
            "schema", f"{record.producer}: {record.uri}, SHA-256 {record.properties.get('sha256', 'unknown')}"
        )
    line("code", ", ".join(f"{name} {version}" for name, version in found.versions.items()) or "unknown")
    for record in found.base_models:
        line("base model", f"{record.producer or 'imported'}: {record.uri}")
    if not found.base_models:
        line("base model", "none, trained from random weights")
    if found.report:
        averages = (
            f"{name} {found.averages[key]:.3f}" for key, name in _SYSTEMS.items() if key in found.averages
        )
        line(found.metric, ", ".join(averages))
        line("", ", ".join(f"{language} {value:.3f}" for language, value in found.languages.items()))
        line("report", f"{found.report}/report.html")
    for judgement in found.judgements:
        blessed = "[green]blessed[/]" if judgement.blessed else "[red]not blessed[/]"
        line(judgement.judge, f"{blessed}; {' '.join(judgement.reasons)}")


class Runner(str, Enum):
    """What a pipeline can be compiled for."""

    vertex = "vertex"


@app.command("compile")
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

    from xtr_tf.files import write_atomically

    job = compile_for_vertex(settings, dag.value)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, json.dumps(job, indent=1, sort_keys=True).encode())
    typer.echo(f"{runner.value}: {len(job['pipelineSpec']['root']['dag']['tasks'])} tasks in {out}")


@app.command()
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
    from tfx_pipeline.runners.vertex import submit_job

    typer.echo(submit_job(job, settings, schedule))
