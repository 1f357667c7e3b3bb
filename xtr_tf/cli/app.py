"""The `xtr-tf` command itself: global options, the list of subcommands, and how errors are shown.

Importing this file must not import TensorFlow, so that `--help` is fast. A command imports what it needs
when it runs.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from xtr_tf.cli import (
    build,
    checkpoint,
    config,
    data,
    doctor,
    encode,
    evaluate,
    export,
    index,
    mine,
    search,
    tokenizer,
    train,
)
from xtr_tf.errors import InputError
from xtr_tf.files import storage_sentence
from xtr_tf.processes import die_with_parent
from xtr_tf.version import __version__

app = typer.Typer(
    name="xtr-tf",
    help="Train, index, serve and evaluate XTR multi-vector retrieval models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("build", context_settings={"allow_extra_args": True})(build.build)
app.command("doctor")(doctor.doctor)
app.command("encode", context_settings={"allow_extra_args": True})(encode.encode)
app.command("evaluate")(evaluate.evaluate)
app.command("export")(export.export)
app.command("mine")(mine.mine)
app.command("verify")(export.verify)
app.command("search")(search.search)
app.command("train")(train.train)
app.add_typer(config.app, name="config")
app.add_typer(index.app, name="index")
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(data.app, name="data")
app.add_typer(tokenizer.app, name="tokenizer")
# `serving` and `tfx_pipeline` register their own commands, so that this package does not depend on them.
for _commands in entry_points(group="xtr_tf.commands"):
    _commands.load()(app)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"xtr-tf {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show TensorFlow's own messages, warnings and tracebacks.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if not verbose:
        _silence_third_parties()


def _silence_third_parties() -> None:
    """Hides TensorFlow's start-up messages; must run before TensorFlow is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    warnings.filterwarnings("ignore")
    for name in ("absl", "apache_beam", "tensorflow"):
        logging.getLogger(name).setLevel(logging.ERROR)


def main() -> None:
    """Runs the command line. Bad input prints one sentence on standard error and exits with code 1."""
    die_with_parent()
    verbose = "--verbose" in sys.argv[1:]
    try:
        sys.exit(app(standalone_mode=False))
    except (typer.Abort, KeyboardInterrupt):
        _end("interrupted.", 130)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except typer.TyperException as error:
        message = error.format_message()
        if not message:  # a group without a subcommand has printed its help
            sys.exit(error.exit_code)
        _end(f"{message.rstrip('.')}. Try `xtr-tf --help`.", error.exit_code)
    except (InputError, OSError) as error:
        if verbose:
            raise
        _end(storage_sentence(error) or str(error), 1)
    except Exception as error:
        sentence = storage_sentence(error, Path.cwd())
        if verbose or sentence is None:
            raise
        _end(sentence, 1)


def _end(message: str, code: int) -> None:
    typer.echo(f"xtr-tf: {message}", err=True)
    sys.exit(code)
