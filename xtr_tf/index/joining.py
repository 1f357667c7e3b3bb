"""Joins parts of an index: those of shards, or the last version and what is new.

Knows nothing about how parts are made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtr_tf.errors import InputError
from xtr_tf.index.build import BLOCK, inverse_permutation, write_postings
from xtr_tf.index.folder import TokenIndex, create_array, file_entries, save_array
from xtr_tf.index.frequencies import PieceFrequencies
from xtr_tf.index.quantizer import TokenQuantizer, trained_quantizer
from xtr_tf.index.term_postings import write_term_postings
from xtr_tf.vectors.store import TokenVectors

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
    quantizer: TokenQuantizer | None,
    frequencies: PieceFrequencies | None = None,
) -> None:
    """Joins parts, and writes the index into an empty folder.

    Args:
        parts: The parts, in the order of their tokens; at least one.
        corpus: The vectors of the joined index, for the offsets and terms of documents, which are not joined.
        folder: The folder to write into. The caller makes sure that it appears only when it is complete.
        quantizer: Leaves and codebooks that all parts were coded with; None for an exact index.
        frequencies: Document frequencies of pieces in the joined index. If None, the sum over the parts,
            which must then use all of their tokens.

    Raises:
        InputError: If the parts have different encoders or configurations or were coded with another
            quantiser, or if their tokens are not those of the documents.
    """
    first, document_offsets = parts[0].index, corpus.document_offsets
    tokens = sum(part.num_tokens for part in parts)
    _check(parts, quantizer, tokens, int(document_offsets[-1]))
    if quantizer is not None:
        quantizer.write(folder)
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
        trained="",
        token_lengths=corpus.token_lengths,
    ).write(folder)


def _check(parts: Sequence[IndexPart], quantizer: TokenQuantizer | None, tokens: int, expected: int) -> None:
    first, expected_coding = parts[0].index, quantizer.fingerprint if quantizer else None
    for index in (part.index for part in parts):
        same = index.config == first.config and _coded_with(index) == expected_coding
        if not same or index.encoder_fingerprint != first.encoder_fingerprint:
            raise InputError(
                "Only indexes of one encoder, one configuration and the same leaves can be joined. "
                f"Received: {index.directory} and {first.directory}."
            )
    if tokens != expected:
        raise InputError(
            f"The parts of an index must have the {expected} tokens of its documents. Received: {tokens}."
        )


def _coded_with(index: TokenIndex) -> str | None:
    """Returns the fingerprint of an index's quantiser; None for an exact index."""
    if index.manifest.trained:
        return index.manifest.trained
    quantizer = trained_quantizer(index)
    return quantizer.fingerprint if quantizer else None


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
    posting_of_token = write_postings(folder, leaf_of_token, len(parts[0].index.array("cell_offsets")) - 1)
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
