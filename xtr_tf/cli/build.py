"""`xtr-tf build`: from a corpus to a servable model, in one command."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import typer

from xtr_tf.cli import options
from xtr_tf.cli.encode import print_encoding, staged
from xtr_tf.cli.export import print_export
from xtr_tf.cli.progress import Quiet, next_command
from xtr_tf.cli.runner import LOCAL, RunnerName, chosen_runner


def build(
    context: typer.Context,
    corpus: options.Corpus,
    out: Annotated[Path, typer.Option(help="The model's base directory, for the new version.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="An encoder's directory, or an id on the Hugging Face Hub; by default the shipped one."
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which to keep `vectors` and `index`; by default a hidden one in `--out`."
        ),
    ] = None,
    runner: RunnerName = LOCAL,
    staging: options.Staging = "",
    reuse: options.Reuse = None,
    language: options.Language = "und",
    passage_length: options.PassageLength = 0,
    overlap: options.Overlap = None,
    vectors_dtype: options.VectorsDtype = "float16",
    keep_text: options.KeepText = True,
    keep_vectors: options.KeepVectors = True,
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
    kind: options.Kind = "auto",
    num_leaves: options.NumLeaves = 0,
    num_leaves_to_search: options.NumLeavesToSearch = 0,
    sample_size: options.SampleSize = 0,
    kmeans_iterations: options.KmeansIterations = 10,
    seed: options.Seed = 0,
    dims_per_block: options.DimsPerBlock = 2,
    anisotropic_threshold: options.AnisotropicThreshold = 0.2,
    reordering: options.Reordering = False,
    index_dtype: options.IndexDtype = "",
    num_shards: options.NumShards = 1,
    parallel_searches: options.ParallelSearches = 2,
    lexical: options.Lexical = "none",
    version: options.Version = None,
    k_prime: options.KPrime = 1000,
    top_k: options.TopK = 10,
    leaves: options.Leaves = 0,
    imputation: options.Imputation = "top_k_prime",
    constant: options.Constant = 0.0,
    rescore: options.Rescore = 0,
    token_weights: options.TokenWeights = "none",
    min_score: options.MinScore = -1e30,
    alpha: options.Alpha = 0.0,
    fusion: options.Fusion = "weighted",
    store_text: options.StoreText = "full",
    keep_spans: options.KeepSpans = True,
    quiet: Quiet = False,
) -> None:
    """Encode a corpus, index it and publish a version; run again to continue after an interruption."""
    import shutil

    from xtr_tf.api.loading import find_encoder
    from xtr_tf.collections.fields import parse_declarations
    from xtr_tf.config.retrieval import EncodingConfig, IndexConfig, SearchDefaults

    arguments = {
        **locals(),
        "skip_pieces": options.lines(skip_pieces),
        "fields": parse_declarations(field or []),
    }
    encoding = options.chosen(EncodingConfig, arguments, dtype="vectors_dtype")
    indexing = options.chosen(IndexConfig, arguments, dtype="index_dtype")
    defaults = options.chosen(SearchDefaults, arguments)
    encoder, _ = find_encoder(model)
    # Servers only look at names that are numbers. The remains of another interrupted build are not reused.
    hidden = out / ".build"
    folder = work or hidden / _key(
        *(corpus, encoder, encoding, language, shard_characters), *(() if keep_vectors else (indexing,))
    )

    from xtr_tf.progress import shown, track
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.retriever.building import build_parts
    from xtr_tf.retriever.export import export_retriever

    with shown(quiet=quiet):
        built = build_parts(
            corpus,
            encoder,
            folder,
            encoding,
            indexing,
            language=language,
            shard_characters=shard_characters,
            reuse=reuse,
            runner=staged(chosen_runner(runner, context.args), staging),
            index_in_parts=runner != LOCAL and not staging,
            keep_vectors=keep_vectors,
            strict=strict,
        )
        with track("export"):
            assembly = assemble_retriever(
                encoder, built.vectors.directory, built.index.directory, defaults, store_text, keep_spans
            )
            exported = export_retriever(assembly.retriever, out, assembly.card, version)
    print_encoding(built.encoding, folder / "vectors")
    if work is None:
        shutil.rmtree(hidden)
    print_export(exported, assembly.card)
    next_command(f'xtr-tf search {out} "QUERY"')


def _key(corpus: Path, encoder: Path, *settings: Any) -> str:
    """Returns a name that is equal for two builds with the same encoding."""
    from xtr_tf.collections.corpus import CorpusReader
    from xtr_tf.model.folder import read_manifest

    states = [
        (str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns)
        for file in CorpusReader(corpus).files
    ]
    parts = (read_manifest(encoder).fingerprint, states, settings)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
