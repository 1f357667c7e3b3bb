"""`xtr-tf encode`: from a corpus to a directory of token vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xtr_tf.cli import options
from xtr_tf.cli.progress import Quiet, next_command
from xtr_tf.cli.runner import LOCAL, RunnerName, chosen_runner

if TYPE_CHECKING:
    from xtr_tf.vectors.encode import EncodingReport
    from xtr_tf.vectors.runners import Runner


def encode(
    context: typer.Context,
    corpus: options.Corpus,
    model: Annotated[Path, typer.Option(help="The encoder's directory.")],
    out: Annotated[Path, typer.Option(help="Directory to write; an interrupted run in it is continued.")],
    runner: RunnerName = LOCAL,
    staging: options.Staging = "",
    reuse: options.Reuse = None,
    language: options.Language = "und",
    passage_length: options.PassageLength = 0,
    overlap: options.Overlap = None,
    dtype: options.VectorsDtype = "float16",
    keep_text: options.KeepText = True,
    batch_tokens: options.BatchTokens = 4096,
    shard_characters: options.ShardCharacters = 1_000_000,
    skip_punctuation: options.SkipPunctuation = False,
    skip_pieces: options.SkipPieces = None,
    min_norm: options.MinNorm = 0.0,
    max_tokens: options.MaxTokens = 0,
    length_penalty: options.LengthPenalty = 0.0,
    repetition_bonus: options.RepetitionBonus = 0.0,
    compute_dtype: options.ComputeDtype = "",
    field: options.Field = None,
    strict: options.Strict = False,
    quiet: Quiet = False,
) -> None:
    """Encode a corpus into token vectors; run again to continue after an interruption."""
    from xtr_tf.collections.fields import parse_declarations
    from xtr_tf.config.retrieval import EncodingConfig
    from xtr_tf.progress import shown
    from xtr_tf.vectors.encode import encode_corpus

    config = options.chosen(
        EncodingConfig,
        {**locals(), "skip_pieces": options.lines(skip_pieces), "fields": parse_declarations(field or [])},
    )
    with shown(quiet=quiet):
        report = encode_corpus(
            corpus,
            model,
            out,
            config,
            language=language,
            shard_characters=shard_characters,
            reuse=reuse,
            runner=staged(chosen_runner(runner, context.args), staging),
            strict=strict,
        )
    print_encoding(report, out)
    next_command(f"xtr-tf index {out} --out INDEX")


def staged(runner: Runner, staging: str) -> Runner:
    """Returns the runner, which uses a staging folder if one is named."""
    if not staging:
        return runner
    from xtr_tf.vectors.staged import StagedRunner

    return StagedRunner(runner, staging)


def print_encoding(report: EncodingReport, out: Path) -> None:
    """Prints what was encoded, reused and left out."""
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
    if manifest.skipped:
        total = sum(manifest.skipped.values())
        typer.echo(f"{total:,} records were skipped in all; --strict refuses such a corpus")
