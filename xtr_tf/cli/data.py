"""`xtr-tf data`: get the datasets that models are evaluated on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Get datasets.", no_args_is_help=True)


@app.command("list")
def list_names() -> None:
    """List the names that `get` knows."""
    from xtr_tf.collections.download import files_of, names

    for name in names():
        files = files_of(name)
        typer.echo(f"{name:18} {len(files):3} file{'s' if len(files) > 1 else ''}, into {_folder_of(files)}")


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A dataset, or a group of them; see `xtr-tf data list`.")],
    out: Annotated[Path, typer.Option(help="Data folder.")] = Path("data"),
) -> None:
    """Download a dataset, check and unpack it; files that are there already stay."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from xtr_tf.collections.download import fetch, files_of

    files = files_of(name)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as bars:
        for file in files:
            task = bars.add_task(Path(file.path).name, total=None)

            def show(_: str, done: int, size: int, task: int = task) -> None:
                bars.update(task, completed=done, total=size or None)  # type: ignore[arg-type]

            result = fetch(file, out, show)
            bars.remove_task(task)
            bars.console.print(f"{file.path}: {result}", highlight=False, soft_wrap=True)
    typer.echo(f"Evaluate on it with --dataset {out / _folder_of(files)}")


def _folder_of(files: list) -> str:
    """Where the files of a dataset end up, below the data folder."""
    last = Path(files[-1].path)
    inside = last.name.split(".")[0]
    if last.parts[0] == "beir":
        return "beir" if len(files) > 1 else f"beir/{inside}"
    return inside if len(last.parts) == 1 else last.parts[0]
