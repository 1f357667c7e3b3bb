"""What long-running commands have in common: `--quiet`, `--check`, and how they end."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


class Depth(str, Enum):
    """How closely to look."""

    fast = "fast"
    full = "full"


def next_command(line: str) -> None:
    """Tells which command comes next, on standard error, so that output can be piped."""
    typer.echo(f"next: {line}", err=True)
