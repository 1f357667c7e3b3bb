"""Builds an index on many machines: each shard of the vectors becomes a part, then the parts are joined.

Leaves and codebooks are trained once, on a sample of all shards. The files of the result are the same as
those that `build_index` makes in one process. `update.py` uses `join_indexes`, too. Knows nothing about how a
runner reaches its workers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory, write_atomically
from xtr_tf.index.build import BLOCK, build_index, inverse_permutation, write_postings
from xtr_tf.index.folder import TokenIndex, create_array, file_entries, save_array, stored_config
from xtr_tf.index.frequencies import PieceFrequencies
from xtr_tf.index.quantizer import TokenQuantizer, train_quantizer, trained_quantizer
from xtr_tf.index.rules import with_kind
from xtr_tf.index.term_postings import write_term_postings
from xtr_tf.index.vector_source import require_tokens
from xtr_tf.vectors.manifest import MANIFEST_FILE
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.store import TokenVectors

_IDENTITY_FILE = "identity"


@dataclasses.dataclass(frozen=True)
class IndexingJob:
    """A task for a runner, with all that a worker needs to know. Paths are the same on every machine.

    Attributes:
        vectors: The directory of token vectors.
        parts: Folder for the parts. The part of `trained_part` must already exist.
        config: Configuration of the index.
        trained_part: The shard whose part was built first. It has the trained leaves and codebooks.
    """

    vectors: str
    parts: str
    config: IndexConfig
    trained_part: int

    def load(self) -> TokenQuantizer | None:
        """Loads leaves and codebooks, once per process.

        Returns:
            The quantiser; None for an exact index.
        """
        return trained_quantizer(TokenIndex.open(self.part(self.trained_part)))

    def run(self, shard: int, quantizer: TokenQuantizer | None) -> dict[str, int]:
        """Builds the part of a shard, unless it exists.

        Args:
            shard: Number of the shard.
            quantizer: Leaves and codebooks that all parts share; None for an exact index.

        Returns:
            `tokens_indexed`, to be summed over shards.
        """
        if not self.part(shard).exists():
            source = TokenVectors.open(self.vectors).part(shard, shard + 1)
            build_index(source, self.part(shard), self.config, quantizer, is_part=True)
        return {"tokens_indexed": TokenIndex.open(self.part(shard)).num_tokens}

    def part(self, shard: int) -> Path:
        """Returns the folder of a shard's part. It appears when it is complete.

        Args:
            shard: Number of the shard.

        Returns:
            The path of the folder.
        """
        return Path(self.parts) / f"part-{shard:05d}"


def build_in_parts(
    vectors: str | Path, directory: str | Path, config: IndexConfig, runner: Runner
) -> TokenIndex:
    """Builds an index with a runner.

    A build that was killed continues when it is called again. Until the end, finished parts are kept next to
    the directory, and reused if they were built from the same vectors and configuration.

    Args:
        vectors: The directory of token vectors.
        directory: The directory to write, which appears when it is complete. An existing one is replaced.
        config: The kind of index and its parameters.
        runner: The runner that builds the parts.

    Returns:
        The opened index.

    Raises:
        InputError: If there are no tokens, or if a part is damaged.
    """
    corpus, directory = TokenVectors.open(vectors), Path(directory)
    filled = [index for index, shard in enumerate(corpus.shards) if shard.entry.tokens]
    require_tokens(len(filled))
    config = with_kind(config, corpus.num_tokens)
    parts = directory.with_name(f".{directory.name}.parts")
    _prepare(parts, corpus, config)
    job = IndexingJob(str(vectors), str(parts), config, trained_part=filled[0])
    if not job.part(filled[0]).exists():
        quantizer = None if config.kind == "exact" else train_quantizer(corpus, config)
        first = corpus.part(filled[0], filled[0] + 1)
        build_index(first, job.part(filled[0]), config, quantizer, is_part=True)
    pending = [index for index in filled if not job.part(index).exists()]
    if pending:
        runner(job, pending)
    joined = [IndexPart(_checked(job.part(index))) for index in filled]
    with atomic_directory(directory, overwrite=True) as aside:
        join_indexes(joined, corpus, aside)
    shutil.rmtree(parts)
    return TokenIndex.open(directory)


def _checked(part: Path) -> TokenIndex:
    """Opens a part. A damaged part is removed, so that the next run builds it again."""
    try:
        index = TokenIndex.open(part)
        index.verify()
    except InputError as error:
        shutil.rmtree(part)
        raise InputError(
            "A part of the index is not as it was written, and was removed; run the build again, which makes "
            f"what is missing. Received: {str(part)!r}."
        ) from error
    return index


def _prepare(parts: Path, corpus: TokenVectors, config: IndexConfig) -> None:
    """Creates the folder of parts, and removes parts of other vectors or another configuration."""
    content = (corpus.directory / MANIFEST_FILE).read_bytes()
    settings = json.dumps(stored_config(config), sort_keys=True).encode()
    identity = hashlib.sha256(content + settings).hexdigest().encode()
    file = parts / _IDENTITY_FILE
    if parts.exists() and not (file.is_file() and file.read_bytes() == identity):
        shutil.rmtree(parts)
    parts.mkdir(parents=True, exist_ok=True)
    write_atomically(file, identity)


#: Arrays that all parts of an index share.
TRAINED = ("centres", "multipliers", "codebook")
_IN_TOKEN_ORDER = {"scann": ("cells", "codes", "int8"), "exact": ("vectors",), "core": ()}


@dataclasses.dataclass(frozen=True)
class IndexPart:
    """An index, or some of its tokens.

    Attributes:
        index: The index.
        kept: `[tokens]` bool, which tokens to use; None for all.
    """

    index: TokenIndex
    kept: np.ndarray | None = None

    @property
    def num_tokens(self) -> int:
        """Number of tokens to use."""
        return self.index.num_tokens if self.kept is None else int(np.count_nonzero(self.kept))

    def tokens(self) -> np.ndarray:
        """Returns `[num_tokens]` ordinals of the tokens to use."""
        return np.arange(self.index.num_tokens) if self.kept is None else np.flatnonzero(self.kept)


def join_indexes(
    parts: Sequence[IndexPart],
    corpus: TokenVectors,
    folder: Path,
    frequencies: PieceFrequencies | None = None,
) -> None:
    """Joins parts, and writes the index into an empty folder.

    Args:
        parts: The parts, in the order of their tokens; at least one. Trained arrays are copied from the
            first.
        corpus: The vectors of the joined index, for the offsets and terms of documents, which are not joined.
        folder: The folder to write into. The caller makes sure that it appears only when it is complete.
        frequencies: Document frequencies of pieces in the joined index. If None, the sum over the parts,
            which must then use all of their tokens.

    Raises:
        InputError: If the parts have different encoders, configurations or trained arrays, or if their tokens
            are not those of the documents.
    """
    first, document_offsets = parts[0].index, corpus.document_offsets
    tokens = sum(part.num_tokens for part in parts)
    _check(parts, tokens, int(document_offsets[-1]))
    for name in TRAINED:
        if f"{name}.npy" in first.manifest.files:
            shutil.copyfile(first.directory / f"{name}.npy", folder / f"{name}.npy")
    for name in _IN_TOKEN_ORDER[first.config.kind]:
        if f"{name}.npy" in first.manifest.files:
            _concatenate(parts, name, tokens, folder)
    if first.config.kind == "core":
        _merge_postings(parts, tokens, folder)
    save_array(folder, "document_offsets", np.asarray(document_offsets, np.int64))
    if frequencies is None:
        counted = [PieceFrequencies.read(part.index) for part in parts]
        known = [of_part for of_part in counted if of_part is not None]
        frequencies = PieceFrequencies.total(known) if len(known) == len(parts) else None
    if frequencies is not None:
        frequencies.write(folder)
    write_term_postings(corpus.documents(), first.config.lexical, folder)
    dataclasses.replace(
        first.manifest,
        num_tokens=tokens,
        num_documents=len(document_offsets) - 1,
        files=file_entries(folder),
    ).write(folder)


def _check(parts: Sequence[IndexPart], tokens: int, expected: int) -> None:
    first = parts[0].index
    for part in parts[1:]:
        same = part.index.config == first.config and all(
            part.index.manifest.files.get(f"{name}.npy") == first.manifest.files.get(f"{name}.npy")
            for name in TRAINED
        )
        if not same or part.index.encoder_fingerprint != first.encoder_fingerprint:
            raise InputError(
                "Only indexes of one encoder, one configuration and the same leaves can be joined. "
                f"Received: {part.index.directory} and {first.directory}."
            )
    if tokens != expected:
        raise InputError(
            f"The parts of an index must have the {expected} tokens of its documents. Received: {tokens}."
        )


def _concatenate(parts: Sequence[IndexPart], name: str, tokens: int, folder: Path) -> None:
    joined = _create_like(folder, name, tokens, parts[0].index.array(name))
    end = 0
    for part in parts:
        array = part.index.array(name)
        for start in range(0, len(array), BLOCK):
            rows = array[start : start + BLOCK]
            if part.kept is not None:
                rows = rows[part.kept[start : start + BLOCK]]
            joined[end : end + len(rows)] = rows
            end += len(rows)
    joined.flush()


def _merge_postings(parts: Sequence[IndexPart], tokens: int, folder: Path) -> None:
    """Joins the arrays of a `core` index, which are sorted by leaf and within a leaf by token."""
    located = [_locate(part) for part in parts]
    leaf_of_token = np.concatenate([leaves for leaves, _ in located])
    posting_of_token = write_postings(folder, leaf_of_token, len(parts[0].index.array("centres")))
    joined = _create_like(folder, "vectors", tokens, parts[0].index.array("vectors"))
    end = 0
    for part, (_, old_postings) in zip(parts, located, strict=True):
        vectors = part.index.array("vectors")
        for start in range(0, len(old_postings), BLOCK):
            taken = old_postings[start : start + BLOCK]
            joined[posting_of_token[end : end + len(taken)]] = vectors[taken]
            end += len(taken)
    joined.flush()


def _locate(part: IndexPart) -> tuple[np.ndarray, np.ndarray]:
    """Returns the leaf and the posting (row of the vectors) of each token to use, in the order of tokens."""
    postings, leaf_offsets = part.index.array("tokens"), part.index.array("cell_offsets")
    taken = inverse_permutation(postings)[part.tokens()]
    leaf_of_posting = np.repeat(np.arange(len(leaf_offsets) - 1, dtype=np.int32), np.diff(leaf_offsets))
    return leaf_of_posting[taken], taken


def _create_like(folder: Path, name: str, rows: int, like: np.ndarray) -> np.memmap:
    return create_array(folder, name, (rows, *like.shape[1:]), like.dtype)
