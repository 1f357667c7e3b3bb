"""`xtr-tf verify`: does an exported model still give the answers it was exported with?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def verify(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A version's directory, or the base of several.")
    ],
    tolerance: Annotated[
        float, typer.Option(help="How far scores may be apart; another processor may need 1e-3.")
    ] = 1e-5,
    processes: Annotated[
        int, typer.Option(min=1, help="Fresh processes to check in, one after the other.")
    ] = 1,
) -> None:
    """Load a model as TensorFlow Serving does, in a fresh process, and replay its reference answers."""
    from rich.console import Console
    from rich.markup import escape

    from xtr_tf.errors import InputError
    from xtr_tf.export.gate import verify_model
    from xtr_tf.export.version_directory import latest_version

    directory = latest_version(model)
    console = Console()
    for _ in range(processes):
        report = verify_model(directory, tolerance)
        if not report.passed:
            for problem in report.problems:
                console.print(f"[red]wrong[/] {escape(problem)}", highlight=False)
            raise InputError(
                "The model does not give the answers it was exported with. "
                f"Received: {str(directory)!r} ({len(report.problems)} problems)."
            )
        answers = ", ".join(f"{name} {count}" for name, count in sorted(report.cases.items()))
        libraries = ", ".join(report.op_libraries) or "none"
        console.print(f"[green]ok[/] answers: {answers}", highlight=False, soft_wrap=True)
        console.print(f"   loaded in {report.load_seconds:.2f} s, op libraries: {libraries}", highlight=False)
