"""`xtr-tf encode`: a corpus to a directory of token vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli.progress import Quiet, next_command
from xtr_tf.cli.runner import LOCAL, RunnerName, chosen_runner

if TYPE_CHECKING:
    from xtr_tf.vectors.encode import EncodingReport
    from xtr_tf.vectors.runners import Runner


def encode(
    context: typer.Context,
    corpus: Annotated[Path, typer.Argument(help="File or folder: JSONL, TSV, Parquet, TFRecord or BEIR.")],
    model: Annotated[Path, typer.Option(help="The encoder's directory.")],
    out: Annotated[Path, typer.Option(help="Directory to write; that of an interrupted run continues it.")],
    runner: RunnerName = LOCAL,
    staging: Annotated[
        str,
        typer.Option(help="Folder such as gs://bucket/path, where workers do not see this machine's files."),
    ] = "",
    reuse: Annotated[
        Path | None, typer.Option(help="Earlier output: vectors of unchanged texts are copied.")
    ] = None,
    language: Annotated[str, typer.Option(help="Of documents that do not name one.")] = "und",
    passage_length: Annotated[int, typer.Option(help="Tokens of a passage; 0: the model's own.")] = 0,
    overlap: Annotated[
        int | None, typer.Option(help="Tokens shared by neighbouring passages; an eighth unless given.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="What vectors are stored as: float16 or bfloat16.")] = "float16",
    keep_text: Annotated[bool, typer.Option(help="Keep texts for display with results.")] = True,
    batch_tokens: Annotated[int, typer.Option(help="Tokens encoded at once, padding included.")] = 4096,
    shard_characters: Annotated[int, typer.Option(help="Text of a shard, the unit of work.")] = 1_000_000,
    skip_punctuation: Annotated[
        bool, typer.Option("--skip-punctuation", help="Leave out pieces of nothing but punctuation.")
    ] = False,
    skip_pieces: Annotated[
        Path | None, typer.Option(help="File of pieces to leave out, one per line, such as `▁the`.")
    ] = None,
    min_norm: Annotated[
        float, typer.Option(help="Leave out tokens whose vector is shorter before it is normalised.")
    ] = 0.0,
    max_tokens: Annotated[int, typer.Option(help="Keep the first so many tokens of a document; 0: all.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Encode a corpus into token vectors; run again to continue after an interruption."""
    from xtr_tf.config.retrieval import EncodingConfig
    from xtr_tf.vectors.encode import encode_corpus

    config = EncodingConfig(
        passage_length=passage_length,
        overlap=overlap,
        dtype=dtype,
        keep_text=keep_text,
        batch_tokens=batch_tokens,
        skip_punctuation=skip_punctuation,
        skip_pieces=tuple(_lines(skip_pieces)),
        min_norm=min_norm,
        max_tokens=max_tokens,
    )
    from xtr_tf.progress import shown

    with shown(quiet=quiet):
        report = encode_corpus(
            corpus,
            model,
            out,
            config,
            language=language,
            shard_characters=shard_characters,
            reuse=reuse,
            runner=_staged(chosen_runner(runner, context.args), staging),
        )
    _print_report(report, out)
    next_command(f"xtr-tf index {out} --out INDEX")


def _staged(runner: Runner, staging: str) -> Runner:
    if not staging:
        return runner
    from xtr_tf.vectors.staged import StagedRunner

    return StagedRunner(runner, staging)


def _lines(path: Path | None) -> list[str]:
    return path.read_text(encoding="utf-8").split() if path else []


def _print_report(report: EncodingReport, out: Path) -> None:
    manifest, counters = report.manifest, report.counters
    typer.echo(
        f"{out}: {manifest.num_documents:,} documents, {manifest.num_passages:,} passages, "
        f"{manifest.num_tokens:,} tokens of {manifest.dim} {manifest.dtype} in {len(manifest.shards)} shards"
    )
    encoded = counters.get("tokens_encoded", 0)
    pace = f", {encoded / report.seconds:,.0f} tokens/s" if encoded and report.seconds else ""
    typer.echo(
        f"this run: {counters.get('documents_encoded', 0):,} documents encoded, "
        f"{counters.get('documents_reused', 0):,} reused, {report.shards_kept} shards kept, "
        f"{counters.get('tokens_pruned', 0):,} tokens pruned{pace}"
    )
    for reason, count in manifest.skipped.items():
        typer.echo(f"skipped {count:,}: {reason} (first at {report.first_skipped[reason]})")
