"""What long-running commands share: `--quiet`, `--check`, and their last line."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


class Depth(str, Enum):
    """How thorough the check is."""

    fast = "fast"
    full = "full"


def next_command(line: str) -> None:
    """Prints which command comes next, on standard error, so that output can be piped."""
    typer.echo(f"next: {line}", err=True)
