"""`xtr-tf train`: from a configuration to an encoder folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from xtr_tf.cli.config import Overrides
from xtr_tf.cli.progress import Quiet, next_command

RunFile = Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="Configuration of the run.")]


def train(file: RunFile, overrides: Overrides = None, quiet: Quiet = False) -> None:
    """Train an encoder; run again to continue where it stopped."""
    from xtr_tf.config.loading import load_config

    config = load_config(file, overrides or ())
    # Checked before TensorFlow is imported, which takes longer.
    from xtr_tf.training.data.sources import check_sources

    check_sources(config.data)

    from xtr_tf.progress import shown, track

    with shown(quiet=quiet), track("start TensorFlow"):
        from xtr_tf.training.progress import TrainingInterruptedError
        from xtr_tf.training.train import train as run

    try:
        encoder = run(config, quiet)
        typer.echo(encoder)
        size = sum(path.stat().st_size for path in encoder.iterdir())
        typer.echo(f"an encoder of {size / 1e6:.1f} MB after {config.training.steps} steps", err=True)
        next_command(f"xtr-tf encode CORPUS --model {encoder} --out VECTORS")
    except TrainingInterruptedError as interruption:
        typer.echo(f"xtr-tf: {interruption}", err=True)
        raise typer.Exit(143) from None
