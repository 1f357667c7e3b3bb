"""The end of `xtr-tf pipeline run`: what was pushed, or why not, where the report is, how to ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from tfx_pipeline.config import PipelineConfig
    from tfx_pipeline.runners.local_pipeline import Outcome


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
