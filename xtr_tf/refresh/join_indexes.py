"""Indexes over the same cells and codebooks put together as one, less what is taken away.

Refreshes join an old index with that of new documents, parallel builds the parts of all workers.
The result is the index that one build of all these tokens in this order would make: codes depend
on nothing but a token's vector and what was trained.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from xtr_tf.errors import InputError
from xtr_tf.index.index_manifest import file_entries
from xtr_tf.index.token_index import TokenIndex

_BLOCK = 65_536
_TRAINED = ("centres", "multipliers", "codebook")
_IN_TOKEN_ORDER = {"scann": ("cells", "codes", "int8"), "exact": ("vectors",), "core": ()}


@dataclasses.dataclass(frozen=True)
class IndexPart:
    """An index, or some of it.

    Attributes:
        index: The index.
        kept: `[tokens]` bool, which tokens to take; None takes all.
    """

    index: TokenIndex
    kept: np.ndarray | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens to take."""
        return self.index.num_tokens if self.kept is None else int(np.count_nonzero(self.kept))

    def tokens(self) -> np.ndarray:
        """`[num_tokens]` ordinals of the tokens to take."""
        return np.arange(self.index.num_tokens) if self.kept is None else np.flatnonzero(self.kept)


def join_indexes(parts: Sequence[IndexPart], document_offsets: np.ndarray, folder: Path) -> None:
    """Writes the joint index into an empty folder.

    Args:
        parts: In the order of their tokens; at least one. What was trained is the first one's.
        document_offsets: `[documents + 1]` int64, of the joint index.
        folder: Where to; the caller makes sure that it appears only when it is whole.

    Raises:
        InputError: If the parts differ in what was trained, or do not have the documents' tokens.
    """
    first = parts[0].index
    tokens = sum(part.num_tokens for part in parts)
    _check(parts, tokens, int(document_offsets[-1]))
    for name in _TRAINED:
        if f"{name}.npy" in first.manifest.files:
            shutil.copyfile(first.directory / f"{name}.npy", folder / f"{name}.npy")
    for name in _IN_TOKEN_ORDER[first.config.kind]:
        if f"{name}.npy" in first.manifest.files:
            _concatenate(parts, name, tokens, folder)
    if first.config.kind == "core":
        _merge_cells(parts, tokens, folder)
    np.save(folder / "document_offsets.npy", np.asarray(document_offsets, np.int64))
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
            for name in _TRAINED
        )
        if not same or part.index.encoder_fingerprint != first.encoder_fingerprint:
            raise InputError(
                "Only indexes of one encoder, one configuration and the same cells can be joined. "
                f"Received: {part.index.directory} and {first.directory}."
            )
    if tokens != expected:
        raise InputError(
            f"The parts of an index must have the {expected} tokens of its documents. Received: {tokens}."
        )


def _concatenate(parts: Sequence[IndexPart], name: str, tokens: int, folder: Path) -> None:
    joint = _create(folder, name, tokens, parts[0].index.array(name))
    limit = 0
    for part in parts:
        array = part.index.array(name)
        for start in range(0, len(array), _BLOCK):
            rows = array[start : start + _BLOCK]
            if part.kept is not None:
                rows = rows[part.kept[start : start + _BLOCK]]
            joint[limit : limit + len(rows)] = rows
            limit += len(rows)
    joint.flush()


def _merge_cells(parts: Sequence[IndexPart], tokens: int, folder: Path) -> None:
    """The arrays of a `core` index, whose vectors lie by cell and within a cell by token."""
    located = [_locate(part) for part in parts]
    cells = np.concatenate([cells for cells, _ in located])
    num_cells = len(parts[0].index.array("centres"))
    order = np.argsort(cells, kind="stable").astype(np.int32)
    np.save(folder / "tokens.npy", order)
    np.save(folder / "cell_offsets.npy", np.searchsorted(cells[order], np.arange(num_cells + 1)))
    slots = np.empty_like(order)
    slots[order] = np.arange(tokens, dtype=np.int32)
    joint = _create(folder, "vectors", tokens, parts[0].index.array("vectors"))
    first = 0
    for part, (_, old_slots) in zip(parts, located, strict=True):
        vectors = part.index.array("vectors")
        for rows in _ranges(len(old_slots)):
            joint[slots[first + rows.start : first + rows.stop]] = vectors[old_slots[rows]]
        first += len(old_slots)
    joint.flush()


def _locate(part: IndexPart) -> tuple[np.ndarray, np.ndarray]:
    """Cell and row of each token to take, in the order of tokens."""
    index = part.index
    order, offsets = index.array("tokens"), index.array("cell_offsets")
    slots = np.empty_like(order)
    slots[order] = np.arange(len(order), dtype=order.dtype)
    taken = slots[part.tokens()]
    cells = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    return cells[taken], taken


def _ranges(length: int) -> Iterator[slice]:
    for start in range(0, length, _BLOCK):
        yield slice(start, min(start + _BLOCK, length))


def _create(folder: Path, name: str, rows: int, like: np.ndarray) -> np.memmap:
    return np.lib.format.open_memmap(
        folder / f"{name}.npy", mode="w+", dtype=like.dtype, shape=(rows, *like.shape[1:])
    )
