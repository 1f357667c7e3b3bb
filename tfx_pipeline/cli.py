"""`xtr-tf pipeline`: run the TFX pipeline on this machine, compile it for Vertex AI, and inspect its runs.

Importing this file must not import TFX. Each command imports what it needs when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from tfx_pipeline.cli_records import ConfigOption, lineage, load_settings, status
from xtr_tf.cli.config import OTHER_KINDS, Overrides
from xtr_tf.cli.progress import Quiet, next_command
from xtr_tf.errors import needs_extra, require

if TYPE_CHECKING:
    from tfx_pipeline.config import PipelineConfig
    from tfx_pipeline.runners.local import Outcome


app = typer.Typer(help="Run, compile and inspect the TFX pipeline.", no_args_is_help=True)


app.command()(status)
app.command()(lineage)


def register(parent: typer.Typer) -> None:
    """Adds the commands of this package to `xtr-tf`."""
    parent.add_typer(app, name="pipeline")
    OTHER_KINDS["training_data"] = load_settings


class Dag(str, Enum):
    """DAGs that can be run."""

    full = "full"
    refresh = "refresh"


DagOption = Annotated[
    Dag, typer.Option(help="`full`: data, model, index. `refresh`: only the corpus changed.")
]


@app.command()
def run(
    config: ConfigOption = None,
    dag: DagOption = Dag.full,
    force: Annotated[bool, typer.Option("--force", help="Run even if nothing changed.")] = False,
    overrides: Overrides = None,
    quiet: Quiet = False,
) -> None:
    """Run the pipeline on this machine. Unchanged steps come from the cache; an interrupted run continues."""
    settings = load_settings(config, overrides or [])
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline.preflight import check, metadata_file
        from tfx_pipeline.unchanged import find_unchanged
        from tfx_pipeline.withdrawal import note_moved_directories
    # Before importing TFX, which takes longer than finding out whether there is anything to do.
    check(settings, dag.value)
    for note in note_moved_directories(settings, metadata_file(settings)):
        typer.echo(note)
    unchanged = None if force else find_unchanged(settings, dag.value, metadata_file(settings))
    if unchanged is not None:
        typer.echo(unchanged.sentence)
        raise typer.Exit(2 if unchanged.refused else 0)
    _run(settings, dag.value, quiet)


def _run(settings: PipelineConfig, dag: Literal["full", "refresh"], hidden: bool) -> None:
    from xtr_tf.progress import shown, track

    with shown(quiet=hidden), track("start TFX"):
        from tfx_pipeline.runners.local import InterruptedRunError, run_pipeline
    try:
        outcome = run_pipeline(settings, dag, force=True, hidden=hidden)
    except InterruptedRunError as interruption:
        typer.echo(f"xtr-tf: {interruption}", err=True)
        raise typer.Exit(130) from None
    print_summary(settings, outcome)
    if not outcome.pushed:
        raise typer.Exit(2)


@app.command()
def check(config: ConfigOption = None, dag: DagOption = Dag.full, overrides: Overrides = None) -> None:
    """Check configuration, paths, schemas and languages, in seconds. Every run starts with this check."""
    settings = load_settings(config, overrides or [])
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline import preflight
    preflight.check(settings, dag.value)
    languages = preflight.languages_of_schema(preflight.read_schema(settings, "corpus"))
    typer.echo(f"ok: {settings.name} can run; languages: {', '.join(languages) or 'any'}")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write the configuration and schemas into.")],
    corpus: Annotated[Path, typer.Option(help="Documents: JSONL, TSV or Parquet, or a BEIR folder.")],
    training: Annotated[Path, typer.Option(help="Judged queries: JSONL or TSV, or a BEIR folder.")],
    eval_: Annotated[
        Path | None,
        typer.Option("--eval", help="Judged queries for evaluation; by default a tenth of the others."),
    ] = None,
    encoder: Annotated[Path | None, typer.Option(help="Encoder that training starts from.")] = None,
    quiet: Quiet = False,
) -> None:
    """Start a pipeline for your own data: infer schemas, write a commented configuration."""
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline.first_steps import start_pipeline
    from xtr_tf.progress import shown

    with shown(quiet=quiet):
        started = start_pipeline(folder, corpus, training, eval_, encoder)
    for file in started.files:
        typer.echo(f"wrote {_relative(str(file))}")
    for kind, languages in started.languages.items():
        typer.echo(f"languages of the {kind}: {', '.join(languages)}")
    if encoder is None:
        vocabulary = folder / "vocabulary.model"
        next_command(f"xtr-tf tokenizer train {corpus} --vocabulary-size 8000 --out {vocabulary}")
    next_command(f"xtr-tf pipeline run --config {started.config}")


@app.command()
def reject(
    version: Annotated[int, typer.Argument(help="Number of the version to withdraw.")],
    because: Annotated[str, typer.Option(help="Why; `status` and `lineage` show it.")],
    config: ConfigOption = None,
    overrides: Overrides = None,
) -> None:
    """Withdraw a version: servers stop using it, and no run builds on it or pushes it again."""
    settings = load_settings(config, overrides or [])
    with needs_extra("The pipeline", "pipeline"), _nobody_runs(settings):
        from tfx_pipeline import withdrawal
        from tfx_pipeline.preflight import metadata_file

        taken = withdrawal.reject(settings, metadata_file(settings), version, because)
    typer.echo(f"withdrawn: version {taken.number}, now in {withdrawal.WITHDRAWN_FOLDER}/{taken.number}")
    newest = withdrawal.newest_present(Path(settings.serving_folder))
    typer.echo(f"in production: {f'version {newest}' if newest else 'nothing'}")


@app.command()
def rollback(
    because: Annotated[str, typer.Option(help="Why; `status` and `lineage` show it.")] = "rolled back.",
    config: ConfigOption = None,
    overrides: Overrides = None,
) -> None:
    """Go back to the version before the newest, for servers and for the next run."""
    settings = load_settings(config, overrides or [])
    with needs_extra("The pipeline", "pipeline"), _nobody_runs(settings):
        from tfx_pipeline import withdrawal
        from tfx_pipeline.preflight import metadata_file

        taken, now = withdrawal.roll_back(settings, metadata_file(settings), because)
    typer.echo(f"withdrawn: version {taken.number}, now in {withdrawal.WITHDRAWN_FOLDER}/{taken.number}")
    typer.echo(f"in production: version {now}")
    next_command("xtr-tf pipeline run --dag refresh --config CONFIG")


@contextmanager
def _nobody_runs(settings: PipelineConfig) -> Iterator[None]:
    """Holds the lock on the pipeline's root, so that no run can start."""
    from tfx_pipeline.config import absolute
    from tfx_pipeline.runners.local_output import run_lock

    with run_lock(Path(absolute(settings.root))):
        yield


def print_summary(config: PipelineConfig, outcome: Outcome) -> None:
    """Prints the summary of a run.

    Args:
        config: Configuration of the pipeline.
        outcome: Result of the run.
    """
    console = Console(highlight=False, soft_wrap=True)
    console.print()
    if outcome.pushed:
        console.print(f"[bold green]pushed[/]   {_relative(outcome.pushed)}")
    else:
        console.print("[bold red]not pushed[/]; production stays as it is")
    for reason in outcome.reasons:
        console.print(f"         {reason}")
    console.print(f"report   {_relative(outcome.report)}")
    if outcome.pushed:
        console.print(f"serve    xtr-tf serve {_served(Path(config.serving_folder))}")
        console.print('ask      xtr-tf query "..." --explain')


def _served(folder: Path) -> str:
    """Returns the options that make a server serve the folder."""
    from xtr_tf.retriever.collection_file import COLLECTION_FILE, read_collection

    if not (folder / COLLECTION_FILE).is_file():
        return f"--model-base {_relative(str(folder))}"
    partitions = read_collection(folder / COLLECTION_FILE).partitions
    servers = " ".join(f"--partition {number}=HOST:PORT" for number in range(len(partitions)))
    return f"--collection {_relative(str(folder / COLLECTION_FILE))} {servers}"


def _relative(path: str) -> str:
    """Returns a path relative to the current folder, if it lies below it."""
    place = Path(path)
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else path


class Runner(str, Enum):
    """Platforms that a pipeline can be compiled for."""

    vertex = "vertex"


@app.command("compile")
def compile_pipeline(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The job to write (JSON).")],
    runner: Annotated[Runner, typer.Option(help="What to compile for.")] = Runner.vertex,
    config: ConfigOption = None,
    dag: DagOption = Dag.full,
    overrides: Overrides = None,
) -> None:
    """Compile the pipeline to a job for Vertex AI. Needs neither a network nor an account."""
    settings = load_settings(config, overrides or [])
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline.runners.vertex import compile_for_vertex
    import json

    from tfx_pipeline.content import has_google_account
    from xtr_tf.files import write_atomically

    job = compile_for_vertex(settings, dag.value)
    if not has_google_account():
        typer.echo(
            "note: you are not logged in to Google Cloud, so the job lacks the hashes of schemas, vocabulary "
            "and encoder; give them new names when you change them",
            err=True,
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, json.dumps(job, indent=1, sort_keys=True).encode())
    typer.echo(f"{runner.value}: {len(job['pipelineSpec']['root']['dag']['tasks'])} tasks in {out}")


@app.command()
def submit(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="What `xtr-tf pipeline compile` wrote.")],
    config: ConfigOption = None,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='Run it on a schedule, such as "0 3 * * *" every night.'),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Submit a compiled job to Vertex AI, once or on a schedule."""
    settings = load_settings(config, overrides or [])
    from tfx_pipeline.runners.vertex import submit_job

    typer.echo(submit_job(job, settings, schedule))


@app.command()
def schedule(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="What `xtr-tf pipeline compile` wrote.")],
    config: ConfigOption = None,
    overrides: Overrides = None,
) -> None:
    """Have Vertex AI run a compiled job on the schedule of `vertex.schedule`."""
    settings = load_settings(config, overrides or [])
    require(bool(settings.vertex.schedule), "Set `vertex.schedule` to a time as cron writes it.", '""')
    from tfx_pipeline.runners.vertex import submit_job

    typer.echo(submit_job(job, settings, settings.vertex.schedule))
