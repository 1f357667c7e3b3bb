"""`xtr-tf pipeline status` and `lineage`: what the runs recorded, and what is in production.

Importing this file must not import TFX. Each command imports what it needs when it runs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
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


ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration of the pipeline (YAML).")
]


def load_settings(config: Path | None, overrides: list[str]) -> PipelineConfig:
    """Reads the configuration of a pipeline. The commands of this group share it.

    Args:
        config: YAML file, or None for the defaults.
        overrides: Overrides such as `run.training.steps=20`.

    Returns:
        The configuration.

    Raises:
        InputError: The file, a key or a value cannot be used.
    """
    from tfx_pipeline.config import load_pipeline_config

    return load_pipeline_config(config, overrides)


RootOption = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="The pipeline's root, instead of a configuration.")
]

_COLOURS = {"complete": "green", "failed": "red", "interrupted": "yellow"}
_MARKS = {"COMPLETE": "[green]✓[/]", "CACHED": "[green]=[/]", "FAILED": "[red]✗[/]"}
_SYSTEMS = {"xtr": "this model", "baseline": "latest blessed", "bm25": "BM25"}


def status(
    config: ConfigOption = None,
    root: RootOption = None,
    last: Annotated[int, typer.Option(min=1, help="Number of runs to show.")] = 5,
    overrides: Overrides = None,
) -> None:
    """Show the last runs, what each component did, and what is in production."""
    from tfx_pipeline.config import is_remote

    console = _console()
    settings = None if root else load_settings(config, overrides or [])
    if settings and is_remote(settings.root):
        _print_vertex(console, settings, last)
        return
    lineage = _open(config, root, overrides or [])
    _print_runs(console, lineage.runs()[-last:])
    console.print()
    _print_production(console, lineage, settings)
    for kind in ("ModelBlessing", "InfraBlessing"):
        for record in lineage.artifacts(kind)[-1:]:
            blessed = "[green]blessed[/]" if record.properties.get("blessed") else "[red]not blessed[/]"
            reasons = str(record.properties.get("reasons", "")).splitlines()
            console.print(f"last {record.producer}: {blessed}; {' '.join(reasons)}")


def lineage(
    model: Annotated[str, typer.Argument(help="A version that was pushed, or a model's artifact folder.")],
    config: ConfigOption = None,
    root: RootOption = None,
    overrides: Overrides = None,
) -> None:
    """Show what a model was made from, how good it is, and why it was (not) blessed."""
    from tfx_pipeline.config import absolute
    from tfx_pipeline.provenance import trace

    _print_provenance(_console(), trace(_open(config, root, overrides or []), absolute(model)))


def _open(config: Path | None, root: Path | None, overrides: list[str]) -> Lineage:
    from tfx_pipeline.config import absolute, is_remote

    settings = None if root else load_settings(config, overrides)
    place = settings.root if settings else str(root)
    if is_remote(place):
        raise InputError(
            "Vertex AI keeps the records of what it ran: artifacts and lineage are at "
            f"{_vertex_page(settings)}, and `xtr-tf pipeline status --config FILE` lists the runs. "
            f"Received: {place}."
        )
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline.lineage import METADATA_FILE, Lineage
    return Lineage(Path(absolute(place), METADATA_FILE))


def _print_vertex(console: Console, settings: PipelineConfig, last: int) -> None:
    """Prints the runs that Vertex AI recorded. Its console shows artifacts and blessings."""
    with needs_extra("The pipeline", "pipeline"):
        from tfx_pipeline.vertex_records import recorded_runs
    runs = recorded_runs(settings.vertex, settings.name, last)
    _print_runs(console, runs)
    console.print(f"{'' if runs else 'no runs yet; '}more at {_vertex_page(settings)}")
    console.print(f"in production: the newest version in {settings.serving_folder}")


def _vertex_page(settings: PipelineConfig | None) -> str:
    page = "https://console.cloud.google.com/vertex-ai/pipelines/runs"
    return f"{page}?project={settings.vertex.project}" if settings and settings.vertex.project else page


def _print_runs(console: Console, runs: Sequence[RunRecord]) -> None:
    for run in runs:
        console.print(f"[bold]{_when(run.run_id)}[/]  [{_COLOURS[run.state]}]{run.state}[/]")
        if run is runs[-1]:
            _print_components(console, run)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def _when(run_id: str) -> str:
    """Formats the id of a run, which is the time it began."""
    try:
        return dt.datetime.fromisoformat(run_id).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return run_id


def _print_components(console: Console, run: RunRecord) -> None:
    for component in run.components:
        mark = _MARKS.get(component.state, "[yellow]?[/]")
        note = "cached" if component.state == "CACHED" else f"{component.seconds:.1f} s"
        console.print(f"  {mark} {component.component:28} {note}")


def _print_production(console: Console, lineage: Lineage, settings: PipelineConfig | None) -> None:
    """Prints what the directory contains now, which may differ from what was pushed."""
    from tfx_pipeline.withdrawal import newest_present, pushed_versions

    versions = pushed_versions(lineage)
    if settings is None and not versions:
        console.print("in production: nothing yet")
        return
    folder = Path(settings.serving_folder) if settings else versions[-1].place.parent
    newest = newest_present(folder)
    if newest is None:
        pushed = f"; version {versions[-1].number} was pushed and is gone" if versions else " yet"
        console.print(f"in production: nothing{pushed}")
    else:
        known = any(version.number == newest for version in versions)
        console.print(
            f"in production: {folder / str(newest)}{'' if known else ', which no run of this root pushed'}"
        )
    for version in versions:
        if version.withdrawn:
            console.print(f"[yellow]withdrawn[/]: version {version.number}, {version.withdrawn}")
        elif not version.present and newest is not None and version.number > newest:
            console.print(
                f"[yellow]moved away[/]: version {version.number}; the next run counts it as rolled back"
            )


def _print_provenance(console: Console, found: Provenance) -> None:
    def line(name: str, text: str) -> None:
        console.print(f"[bold]{name:12}[/] {text}")

    line("model", found.model.uri)
    line("pushed to", found.pushed or "nowhere")
    if found.withdrawn:
        line("withdrawn", f"[yellow]{found.withdrawn}[/]")
    for source in found.sources:
        records = ", ".join(f"{split} {count:,}" for split, count in source.records.items())
        span = f", span {source.span}" if source.span else ""
        line("data", f"{source.producer}: {records} records{span}, from {source.folder}")
        for file in source.files:
            line("", f"{file.file}, {file.bytes:,} bytes, SHA-256 {file.sha256}")
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
