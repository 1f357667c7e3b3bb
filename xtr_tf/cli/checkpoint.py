"""`xtr-tf checkpoint`: import and inspect published checkpoints, and export trained encoders."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli.progress import Quiet, next_command
from xtr_tf.errors import InputError

if TYPE_CHECKING:
    from xtr_tf.checkpoints.safetensors import Progress

# Lines of a table are not wrapped when they go to a file or another program.
_FILE_WIDTH = 1000
_STYLES = {"imported": None, "known": None, "dropped": "dim", "to be initialised": "yellow"}

app = typer.Typer(help="Import, inspect and export checkpoints.", no_args_is_help=True)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="CHECKPOINT",
        help="Folder, weight file or TensorFlow prefix of a T5, mT5 or XTR checkpoint of Hugging Face, "
        "Mesh-TensorFlow or T5X; or an id on the Hugging Face Hub, such as google/mt5-small.",
    ),
]
Revision = Annotated[
    str | None, typer.Option(help="Branch, tag or commit on the Hub; by default its main branch.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset", help="Encoder that it must fit, such as mt5_small; by default the one it describes."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]


@app.command("import")
def import_(
    source: Source,
    out: Annotated[Path, typer.Option("--out", help="Encoder directory to make.")],
    tokenizer: Annotated[
        Path | None,
        typer.Option("--tokenizer", help="SentencePiece model; by default the one next to the checkpoint."),
    ] = None,
    lowercase: Annotated[bool, typer.Option(help="Lower-case texts, as Google's released XTR does.")] = True,
    query_length: Annotated[int, typer.Option(help="Tokens of a query.")] = 32,
    document_length: Annotated[int, typer.Option(help="Tokens of a document.")] = 512,
    preset: Preset = None,
    init_projection: Annotated[
        int | None,
        typer.Option(
            "--init-projection", metavar="SEED", help="Initialise a random projection if there is none."
        ),
    ] = None,
    projection_dim: Annotated[
        int | None, typer.Option(help="Width of a new projection; 128 by default.")
    ] = None,
    keep_pieces_of: Annotated[
        list[Path] | None,
        typer.Option(
            "--keep-pieces-of",
            metavar="CORPUS",
            help="Trim the vocabulary to this corpus (a file or a BEIR folder); may be repeated.",
        ),
    ] = None,
    revision: Revision = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Turn a checkpoint into an encoder directory."""
    from xtr_tf.checkpoints.importing import import_checkpoint
    from xtr_tf.config.model import TokenizerConfig

    settings = TokenizerConfig(
        model=str(tokenizer or ""),
        lowercase=lowercase,
        query_length=query_length,
        document_length=document_length,
    )
    checkpoint = _fetched(source, revision)
    with _progress_bar("import", quiet) as progress:
        report = import_checkpoint(
            checkpoint,
            out,
            tokenizer=settings,
            preset=preset,
            projection_dim=projection_dim,
            projection_seed=init_projection,
            keep_pieces_of=keep_pieces_of or (),
            overwrite=overwrite,
            progress=progress,
        )
    config = report.config
    typer.echo(
        f"{out}: {config.num_layers} layers, {config.model_dim} wide, {config.num_heads} heads, "
        f"{config.feed_forward}, {config.vocabulary_size} pieces, projection to {config.projection_dim}; "
        f"{report.dropped} tensors of the {report.family} checkpoint not needed"
    )
    next_command(f"xtr-tf encode CORPUS --model {out} --out VECTORS")


@app.command()
def inspect(source: Source, preset: Preset = None, revision: Revision = None) -> None:
    """List a checkpoint's tensors, what they become, and what would be refused."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from xtr_tf.checkpoints.opening import open_checkpoint
    from xtr_tf.checkpoints.plan import inspect_tensors, plan_import

    checkpoint = open_checkpoint(_fetched(source, revision))
    plan, refusal = None, None
    try:
        plan = plan_import(checkpoint, preset=preset, initialize_projection=True)
        plan.check(source)
    except InputError as error:
        refusal = error
    table = Table(title=Text(f"{source} ({checkpoint.naming.title})"))
    for heading in ("tensor", "shape", "dtype", "becomes", ""):
        table.add_column(heading, overflow="fold")
    for row in inspect_tensors(checkpoint, plan):
        style = _STYLES.get(row.verdict, "red")
        cells = (row.name, str(list(row.shape)), row.dtype, row.becomes, row.verdict)
        table.add_row(*map(Text, cells), style=style)
    Console(width=None if sys.stdout.isatty() else _FILE_WIDTH).print(table)
    if refusal is not None:
        raise refusal


@app.command()
def export(
    directory: Annotated[Path, typer.Argument(metavar="ENCODER", help="Encoder directory.")],
    out: Annotated[Path, typer.Option("--out", help="Hugging Face folder to make.")],
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Write an encoder directory as a Hugging Face checkpoint in the layout of the released XTR."""
    from xtr_tf.checkpoints.exporting import export_checkpoint

    with _progress_bar("export", quiet) as progress:
        export_checkpoint(directory, out, overwrite=overwrite, progress=progress)
    typer.echo(f"{out}: transformers loads it with from_pretrained; the projection is in 2_Dense")


@app.command()
def compact(
    directory: Annotated[Path, typer.Argument(metavar="ENCODER", help="Encoder directory.")],
    out: Annotated[Path, typer.Option("--out", help="Encoder directory to make.")],
    overwrite: Overwrite = False,
) -> None:
    """Copy an encoder directory with its weights as float16, half the size on disk."""
    from xtr_tf.model.folder import load_encoder, read_background, save_encoder

    encoder, tokenizer = load_encoder(directory)
    background = read_background(directory, tokenizer.vocabulary_size)
    save_encoder(out, encoder, tokenizer, storage="float16", overwrite=overwrite, background=background)
    size = sum(file.stat().st_size for file in out.iterdir())
    typer.echo(f"{out}: {size / 1e6:.1f} MB")


def _fetched(source: Path, revision: str | None) -> Path:
    """Returns the checkpoint's path, after downloading it if it is an id."""
    from xtr_tf.checkpoints.hub import fetch_checkpoint, is_hub_id

    return fetch_checkpoint(str(source), revision) if is_hub_id(str(source)) else source


@contextmanager
def _progress_bar(label: str, quiet: bool) -> Iterator[Progress]:
    from xtr_tf.progress import shown, track

    with shown(quiet=quiet), track(label, unit="MB") as bar:
        yield lambda done, total: bar.update(done=done / 1e6, total=total / 1e6)
