"""`xtr-tf doctor`: is this machine and environment able to run xtr-tf?"""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(
    directory: Annotated[str, typer.Argument(help="Folder whose free space is checked.")] = ".",
) -> None:
    """Check versions, op libraries, devices, memory and disk; exit 1 with the remedies if any is wrong."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from xtr_tf.diagnosis import diagnose

    findings = diagnose(directory)
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[red]wrong[/]"
        table.add_row(mark, finding.subject, escape(finding.detail))
    console = Console()
    console.print(table)
    remedies = [f"{finding.subject}: {finding.remedy}" for finding in findings if not finding.ok]
    for remedy in remedies:
        console.print(f"[red]remedy[/] {escape(remedy)}", highlight=False, soft_wrap=True)
    if remedies:
        raise typer.Exit(1)
