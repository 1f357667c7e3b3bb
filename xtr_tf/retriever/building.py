"""From documents to an index in one work folder: encodes and indexes them.

Knows the order of the steps, and what is kept of an interrupted build. Each step belongs to its own package.
The result is the same for a command and for a Python program.
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
from xtr_tf.index.one_pass import OnePass, join_coded
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
        encoding: The report of the encoding.
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
    keep_vectors: bool = True,
    strict: bool = False,
) -> BuiltIndex:
    """Encodes and indexes a corpus. If it is called again after an interruption, it continues.

    Args:
        corpus: A path that `CorpusReader` reads, or documents.
        model: The directory of an encoder.
        work: Folder for `vectors` and `index`, created if it does not exist.
        encoding: How to split, store and prune; the default configuration if None.
        index: The kind of index and its parameters; the default configuration if None.
        language: Language of documents that name none, if `corpus` is a path.
        shard_characters: Characters per shard, which is the unit of work.
        reuse: An earlier directory of vectors. Vectors of unchanged texts are copied from it.
        runner: The runner that encodes the shards.
        index_in_parts: Whether the runner also indexes, shard by shard.
        keep_vectors: Whether to store the vectors, 2 bytes per dimension and token. Otherwise each shard is
            indexed when it is encoded, and its vectors are dropped.
        strict: Whether to refuse a corpus with records that are not documents.

    Returns:
        The opened vectors and index, and the report of the encoding.

    Raises:
        InputError: If an argument cannot be used. Finished work is kept.

    Example:
        >>> built = build_parts("examples/atlas", "models/mxtr_tiny", "out/work")
    """
    vectors_folder, index_folder = Path(work) / "vectors", Path(work) / "index"
    config = index or IndexConfig()
    one_pass = None if keep_vectors else OnePass(runner, config)
    report = encode_corpus(
        corpus,
        model,
        vectors_folder,
        encoding,
        language=language,
        shard_characters=shard_characters,
        reuse=reuse,
        runner=one_pass or runner,
        strict=strict,
        coding=one_pass.settings if one_pass else None,
    )
    vectors = TokenVectors.open(vectors_folder)
    config = with_kind(config, vectors.num_tokens)
    built = _finished(index_folder, vectors, config)
    if built is None:
        shutil.rmtree(index_folder, ignore_errors=True)
        if one_pass:
            built = join_coded(vectors_folder, index_folder)
        elif index_in_parts:
            built = build_in_parts(vectors_folder, index_folder, config, runner)
        else:
            built = build_index(vectors, index_folder, config)
    return BuiltIndex(vectors, built, report)


def _finished(folder: Path, vectors: TokenVectors, config: IndexConfig) -> TokenIndex | None:
    """Returns the index that an earlier run finished, if it is the one to build."""
    try:
        index = TokenIndex.open(folder)
    except InputError:
        return None
    same = (
        index.config == config
        and index.encoder_fingerprint == vectors.encoder_fingerprint
        and index.manifest.token_lengths == vectors.token_lengths
        and np.array_equal(index.document_offsets, vectors.document_offsets)
    )
    return index if same else None
