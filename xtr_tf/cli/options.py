"""Options of encoding, indexing and exporting that several commands share.

Unless it says otherwise, an option has the name of its parameter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

Config = TypeVar("Config")

Corpus = Annotated[Path, typer.Argument(help="File or folder: JSONL, TSV, Parquet, TFRecord or BEIR.")]

# Encoding.
Staging = Annotated[
    str, typer.Option(help="Folder such as gs://bucket/path, if workers do not see this machine's files.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a corpus with records that are not documents.")
]
Language = Annotated[str, typer.Option(help="Language of documents without one.")]
Reuse = Annotated[Path | None, typer.Option(help="Earlier output: vectors of unchanged texts are copied.")]
PassageLength = Annotated[int, typer.Option(help="Tokens per passage; 0: the model's own limit.")]
Overlap = Annotated[
    int | None, typer.Option(help="Tokens shared by neighbouring passages; by default an eighth.")
]
VectorsDtype = Annotated[str, typer.Option(help="Storage type of vectors: float16 or bfloat16.")]
KeepText = Annotated[bool, typer.Option(help="Keep texts with the vectors, for exports and BM25.")]
KeepVectors = Annotated[
    bool,
    typer.Option(
        help="Store all vectors, for `--reuse`; otherwise each shard is indexed as soon as it is encoded."
    ),
]
BatchTokens = Annotated[int, typer.Option(help="Tokens to encode at once, with padding.")]
ShardCharacters = Annotated[int, typer.Option(help="Characters of text per shard, the unit of work.")]
SkipPunctuation = Annotated[
    bool, typer.Option("--skip-punctuation", help="Leave out pieces that are only punctuation.")
]
SkipPieces = Annotated[
    Path | None, typer.Option(help="File of pieces to leave out, one per line, such as `▁the`.")
]
MinNorm = Annotated[
    float, typer.Option(help="Leave out tokens whose vector is shorter before it is normalised.")
]
MaxTokens = Annotated[int, typer.Option(help="Keep only the first N tokens of a document; 0: all.")]
LengthPenalty = Annotated[
    float, typer.Option(help="Let tokens of long documents count less; try 0.06. 0: no.")
]
ComputeDtype = Annotated[
    str, typer.Option(help="Compute in float32 or mixed_bfloat16; empty for the encoder's own.")
]
RepetitionBonus = Annotated[
    float, typer.Option(help="Let pieces that a document repeats count more; try 0.06. 0: no.")
]
Field = Annotated[
    list[str] | None,
    typer.Option(help="A field to keep, name:type (keyword, keywords, int, float, bool); may be repeated."),
]

# Indexing.
Kind = Annotated[
    str,
    typer.Option(
        help="scann (smallest, fastest), core (stock TensorFlow ops), exact, or auto: exact if quick."
    ),
]
NumLeaves = Annotated[
    int, typer.Option("--num-leaves", "--cells", help="k-means leaves; 0: chosen from the number of tokens.")
]
NumLeavesToSearch = Annotated[int, typer.Option(help="Leaves to search; 0: chosen from their number and k'.")]
SampleSize = Annotated[int, typer.Option(help="Tokens to train leaves on; 0: chosen from their number.")]
KmeansIterations = Annotated[
    int, typer.Option("--kmeans-iterations", "--training-rounds", help="k-means iterations.")
]
Seed = Annotated[int, typer.Option(help="Random seed of the sample and of k-means.")]
DimsPerBlock = Annotated[int, typer.Option(help="Dimensions per 4-bit code (scann).")]
AnisotropicThreshold = Annotated[float, typer.Option(help="Similarity from which precision matters (scann).")]
Reordering = Annotated[bool, typer.Option(help="Score hits again by int8 vectors (scann).")]
IndexDtype = Annotated[
    str, typer.Option(help="Storage type of vectors in core (int8, int4, bfloat16) or exact (float16, ...).")
]
NumShards = Annotated[int, typer.Option(help="Searchers that share the tokens in one model.")]
ParallelSearches = Annotated[int, typer.Option(help="Parts of a large batch to search at once (scann).")]
Lexical = Annotated[
    str, typer.Option(help="BM25 for hybrid search: none, over words, or over character ngrams (any script).")
]

# Exporting: the defaults of requests.
Version = Annotated[int | None, typer.Option(min=1, help="Number of the version; by default the next one.")]
KPrime = Annotated[int, typer.Option(help="Default number of tokens per query token to retrieve.")]
TopK = Annotated[int, typer.Option(help="Default number of documents returned.")]
Leaves = Annotated[int, typer.Option(help="Default number of leaves to search; 0: the index's own.")]
Imputation = Annotated[str, typer.Option(help="Default imputation.")]
Constant = Annotated[float, typer.Option(help="Default value of the imputation `constant`.")]
MinScore = Annotated[
    float, typer.Option(help="Documents that score less are not returned by default.", show_default=False)
]
TokenWeights = Annotated[str, typer.Option(help="Default weights of query tokens: none (all equal) or idf.")]
Alpha = Annotated[
    float, typer.Option(help="Default weight of BM25, from 0 (XTR only) to 1; needs --lexical.")
]
Fusion = Annotated[str, typer.Option(help="Default way to combine both scores: weighted or rrf.")]
Rescore = Annotated[
    int, typer.Option(help="Candidates ranked again by exact f_ColBERT by default; 0 for none.")
]
StoreText = Annotated[
    str, typer.Option(help="Texts to show with results: none, snippet (where the query matched) or full.")
]
KeepSpans = Annotated[
    bool, typer.Option(help="Keep pieces and positions of tokens, 12 bytes each, for explanations.")
]

# Querying a model or a server: the model has a default for everything.
AskedKPrime = Annotated[int | None, typer.Option(help="Tokens that each query token retrieves.")]
AskedRescore = Annotated[
    int | None, typer.Option(help="Candidates to rank again by exact f_ColBERT; 0 for none.")
]
AskedFilter = Annotated[
    str | None, typer.Option("--filter", help="Conditions on fields, such as 'year>=2020;source=wiki|faq'.")
]
AskedMinScore = Annotated[float | None, typer.Option(help="Leave out documents that score less.")]
AskedAlpha = Annotated[float | None, typer.Option(help="Weight of BM25, from 0 (XTR only) to 1 (BM25 only).")]
AskedFusion = Annotated[str | None, typer.Option(help="How to combine XTR and BM25: weighted or rrf.")]
AskedTokenWeights = Annotated[
    str | None, typer.Option(help="Weights of query tokens: none (all equal) or idf.")
]
ShowFields = Annotated[bool, typer.Option("--fields", help="Show the fields of documents.")]


def chosen(config: type[Config], arguments: Mapping[str, Any], **renamed: str) -> Config:
    """Makes a configuration from a command's arguments, and checks it.

    Args:
        config: Its class, whose fields have the names of arguments.
        arguments: All arguments of the command.
        renamed: Values of fields that have other names as arguments.
    """
    from xtr_tf.config.loading import from_mapping

    names = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]
    return from_mapping(config, {name: arguments[renamed.get(name, name)] for name in names})


def lines(path: Path | None) -> list[str]:
    """Returns the words of a file, one per line."""
    return path.read_text(encoding="utf-8").split() if path else []
