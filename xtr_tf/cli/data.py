"""`xtr-tf data`: download datasets for evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xtr_tf.cli.progress import Quiet

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
    quiet: Quiet = False,
) -> None:
    """Download a dataset, check it and unpack it; existing files are kept."""
    from xtr_tf.collections.download import fetch, files_of
    from xtr_tf.progress import Tracked, shown, track

    files = files_of(name)
    with shown(quiet=quiet):
        for file in files:
            with track(Path(file.path).name, unit="MB") as bar:

                def show(_: str, done: int, size: int, bar: Tracked = bar) -> None:
                    bar.update(done=done / 1e6, total=size / 1e6 if size else None)

                result = fetch(file, out, show)
            typer.echo(f"{file.path}: {result}")
    typer.echo(f"Evaluate on it with --dataset {out / _folder_of(files)}")


def _folder_of(files: list) -> str:
    """Returns where the files of a dataset are, below the data folder."""
    last = Path(files[-1].path)
    inside = last.name.split(".")[0]
    if last.parts[0] == "beir":
        return "beir" if len(files) > 1 else f"beir/{inside}"
    return inside if len(last.parts) == 1 else last.parts[0]
