"""`xtr-tf index`: build an index from token vectors, and make its next version."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from xtr_tf.cli import options
from xtr_tf.cli.progress import Quiet, next_command
from xtr_tf.cli.runner import LOCAL, RunnerName, chosen_runner

if TYPE_CHECKING:
    from xtr_tf.index.refresh import RefreshReport


class _BuildUnlessNamed(TyperGroup):
    """Lets `xtr-tf index VECTORS ...` mean `xtr-tf index build VECTORS ...`, with options in any order."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["build", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_BuildUnlessNamed,
    help="Build and refresh token indexes; `build` may be left out.",
    no_args_is_help=True,
)


@app.command(context_settings={"allow_extra_args": True})
def build(
    context: typer.Context,
    vectors: Annotated[Path, typer.Argument(help="Directory that `xtr-tf encode` wrote.")],
    out: Annotated[Path, typer.Option(help="Directory to write; it appears when it is complete.")],
    runner: RunnerName = LOCAL,
    kind: options.Kind = "scann",
    num_leaves: options.NumLeaves = 0,
    num_leaves_to_search: Annotated[
        int,
        typer.Option(
            "--num-leaves-to-search",
            "--leaves",
            help="Leaves to search; 0: chosen from their number and k'.",
        ),
    ] = 0,
    sample_size: options.SampleSize = 0,
    kmeans_iterations: options.KmeansIterations = 10,
    seed: options.Seed = 0,
    dims_per_block: options.DimsPerBlock = 2,
    anisotropic_threshold: options.AnisotropicThreshold = 0.2,
    reordering: options.Reordering = False,
    dtype: options.IndexDtype = "",
    num_shards: options.NumShards = 1,
    parallel_searches: options.ParallelSearches = 2,
    lexical: options.Lexical = "none",
    quiet: Quiet = False,
) -> None:
    """Build an index, with one block of vectors in memory at a time."""
    import time

    from xtr_tf.config.retrieval import IndexConfig

    config = options.chosen(IndexConfig, locals())

    from xtr_tf.index.build import build_index
    from xtr_tf.index.parts import build_in_parts
    from xtr_tf.progress import shown
    from xtr_tf.runtime import peak_resident_bytes
    from xtr_tf.vectors.store import TokenVectors

    _refuse_existing(out)
    shards_runner = chosen_runner(runner, context.args)
    started = time.monotonic()
    with shown(quiet=quiet):
        if runner == LOCAL:
            index = build_index(TokenVectors.open(vectors), out, config)
        else:
            index = build_in_parts(vectors, out, config, shards_runner)
    seconds = time.monotonic() - started
    typer.echo(
        f"{out}: {index.config.kind} index of {index.num_documents:,} documents, "
        f"{index.num_tokens:,} tokens, "
        f"{index.num_bytes / index.num_tokens:.1f} bytes per token, {seconds:.1f} s, "
        f"peak memory {peak_resident_bytes() / 1e9:.1f} GB"
    )
    next_command(f"xtr-tf export {vectors} --index {out} --model ENCODER --out MODEL")


@app.command(context_settings={"allow_extra_args": True})
def update(
    context: typer.Context,
    index: Annotated[Path, typer.Argument(help="The last version's index.")],
    vectors: Annotated[Path, typer.Option(help="The token vectors it was built from.")],
    out: Annotated[Path, typer.Option(help="Directory of the new version's index.")],
    vectors_out: Annotated[Path, typer.Option(help="Directory of its token vectors.")],
    add: Annotated[
        Path | None, typer.Option(help="New and changed documents: a corpus or token vectors.")
    ] = None,
    delete: Annotated[
        Path | None, typer.Option(help="File with ids of documents to delete, one per line.")
    ] = None,
    model: Annotated[Path | None, typer.Option(help="The encoder, if a corpus is added.")] = None,
    language: Annotated[
        str | None,
        typer.Option(help="Language of added documents without one; by default that given to `encode`."),
    ] = None,
    runner: RunnerName = LOCAL,
    quiet: Quiet = False,
) -> None:
    """Make an index's next version: encode what changed, copy the codes of the rest."""
    from xtr_tf.index.refresh import refresh_index
    from xtr_tf.progress import shown

    ids = delete.read_text(encoding="utf-8").splitlines() if delete else []
    with shown(quiet=quiet):
        report = refresh_index(
            index,
            vectors,
            out,
            vectors_out,
            add=add,
            delete=[line for line in ids if line],
            model=model,
            language=language,
            runner=chosen_runner(runner, context.args),
        )
    _print_report(report, out)
    next_command(f"xtr-tf export {vectors_out} --index {out} --model ENCODER --out MODEL")


def _print_report(report: RefreshReport, out: Path) -> None:
    changes, index = report.changes, report.index
    typer.echo(
        f"{out}: {index.num_documents:,} documents, {index.num_tokens:,} tokens "
        f"(before: {len(changes.kept):,} and {report.tokens_before:,})"
    )
    typer.echo(
        f"documents: {changes.added:,} added, {changes.replaced:,} replaced, {changes.deleted:,} deleted, "
        f"{changes.unchanged:,} unchanged, {len(changes.unknown):,} unknown; "
        f"{report.documents_encoded:,} encoded"
    )
    typer.echo(f"tokens: {report.tokens_added:,} coded; {report.seconds:.1f} s")
    if changes.unknown:
        typer.echo(f"not in the index: {', '.join(changes.unknown[:5])}")
    if report.advice:
        typer.echo(f"train new leaves soon (`xtr-tf index`): {report.advice}")


def _refuse_existing(out: Path) -> None:
    from xtr_tf.errors import InputError

    if out.exists():
        raise InputError(f"The directory exists; choose another one. Received: {str(out)!r}.")
