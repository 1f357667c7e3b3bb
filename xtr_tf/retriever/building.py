"""From documents to a retriever in one work folder: encode, index, assemble.

The order of the steps, and what of an interrupted build is kept; each step is its own room's. What is
built is the same whether a command or a Python program asks for it.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np

from xtr_tf.collections.corpus import Corpus
from xtr_tf.collections.document import UNKNOWN_LANGUAGE
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.parts import build_in_parts
from xtr_tf.index.rules import with_kind
from xtr_tf.vectors.encode import SHARD_CHARACTERS, EncodingReport, encode_corpus
from xtr_tf.vectors.runners import Runner, run_locally
from xtr_tf.vectors.store import TokenVectors


@dataclasses.dataclass(frozen=True)
class BuiltIndex:
    """Token vectors and their index, on disk.

    Attributes:
        vectors: The token vectors.
        index: Their index.
        encoding: What encoding did.
    """

    vectors: TokenVectors
    index: TokenIndex
    encoding: EncodingReport


def build_parts(
    corpus: str | Path | Corpus,
    model: str | Path,
    work: str | Path,
    encoding: EncodingConfig | None = None,
    index: IndexConfig | None = None,
    *,
    language: str = UNKNOWN_LANGUAGE,
    shard_characters: int = SHARD_CHARACTERS,
    reuse: str | Path | None = None,
    runner: Runner = run_locally,
    index_in_parts: bool = False,
    strict: bool = False,
) -> BuiltIndex:
    """Encodes and indexes a corpus; called again after an interruption, it continues.

    Args:
        corpus: A path that `CorpusReader` reads, or documents.
        model: An encoder's directory.
        work: Folder for `vectors` and `index`, made if need be.
        encoding: How to split, store and prune.
        index: The kind of index and its parameters.
        language: Of documents of a path that do not name one.
        shard_characters: Text of a shard, which is the unit of work.
        reuse: An earlier directory of vectors to copy unchanged ones from.
        runner: What encodes the shards.
        index_in_parts: Whether the runner also indexes, shard by shard.
        strict: Whether a corpus with records that are not documents is refused.

    Returns:
        The opened vectors and index, and the report of the encoding.

    Raises:
        InputError: If anything given cannot be used; what was finished is kept.

    Example:
        >>> built = build_parts("examples/atlas", "models/mxtr_tiny", "out/work")
    """
    vectors_folder, index_folder = Path(work) / "vectors", Path(work) / "index"
    report = encode_corpus(
        corpus,
        model,
        vectors_folder,
        encoding,
        language=language,
        shard_characters=shard_characters,
        reuse=reuse,
        runner=runner,
        strict=strict,
    )
    vectors = TokenVectors.open(vectors_folder)
    config = with_kind(index or IndexConfig(), vectors.num_tokens)
    finished = _finished(index_folder, vectors, config)
    if finished is not None:
        return BuiltIndex(vectors, finished, report)
    shutil.rmtree(index_folder, ignore_errors=True)
    if index_in_parts:
        return BuiltIndex(vectors, build_in_parts(vectors_folder, index_folder, config, runner), report)
    return BuiltIndex(vectors, build_index(vectors, index_folder, config), report)


def _finished(folder: Path, vectors: TokenVectors, config: IndexConfig) -> TokenIndex | None:
    """The index that an earlier run finished, if it is the one to be built."""
    try:
        index = TokenIndex.open(folder)
    except InputError:
        return None
    same = (
        index.config == config
        and index.encoder_fingerprint == vectors.encoder_fingerprint
        and np.array_equal(index.document_offsets, vectors.document_offsets)
    )
    return index if same else None
