"""Builds the next version of an index, from the last one and the vectors of new documents.

Tokens of documents that stay keep their leaves and codes, which are copied. Only new tokens are assigned and
coded, with the leaves and codebooks of the index. So the new index is the same as that of a full build with
these leaves and codebooks. Nothing in it is masked or needs compaction. The second half decides when new
leaves should be trained. Knows nothing about texts or encoding, which are in `refresh.py`.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.frequencies import PieceFrequencies
from xtr_tf.index.joining import IndexPart, join_indexes
from xtr_tf.index.one_pass import coded_parts
from xtr_tf.index.quantizer import TokenQuantizer, trained_quantizer
from xtr_tf.vectors.store import TokenVectors


def update_index(
    index: TokenIndex, vectors: TokenVectors, kept: np.ndarray, directory: str | Path
) -> TokenIndex:
    """Writes the index of `vectors`, some of which are already in `index`.

    Args:
        index: The last version.
        vectors: The vectors of the new version, from `update_vectors`: shards of documents that stay, then
            shards of new ones.
        kept: `[documents of the last version]` bool, which documents stay.
        directory: A new directory, which appears when it is complete.

    Returns:
        The opened index.

    Raises:
        InputError: If the directory exists, or if the index has other documents or another encoder.
    """
    directory = Path(directory)
    if directory.exists():
        raise InputError(
            f"A refresh makes a new directory; choose another name. Received: {str(directory)!r}."
        )
    check_belongs(index, vectors, kept)
    old = IndexPart(index, np.repeat(kept, np.diff(index.document_offsets)))
    new = vectors.shards_from(old.num_tokens)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".refresh-") as work:
        parts, quantizer = [old], trained_quantizer(index)
        if new.num_tokens and not new.has_vectors:
            parts += coded_parts(new)
        elif new.num_tokens:
            built = build_index(new, Path(work) / "new", index.config, quantizer, is_part=True)
            parts.append(IndexPart(built))
        with atomic_directory(directory) as folder:
            TrainingState.of(index).write(folder)
            # Counted again, because the sum does not tell the counts of the deleted documents.
            frequencies = PieceFrequencies.of(vectors.pieces, vectors.document_offsets)
            join_indexes(parts, vectors, folder, quantizer, frequencies)
    return TokenIndex.open(directory)


def check_belongs(index: TokenIndex, vectors: TokenVectors, kept: np.ndarray) -> None:
    """Checks that token vectors are those of an index.

    Args:
        index: The index.
        vectors: The token vectors.
        kept: `[documents]` bool, the documents of the index that the vectors begin with.

    Raises:
        InputError: If they have another encoder, other lengths or other documents.
    """
    check_encoder(index.encoder_fingerprint, vectors.encoder_fingerprint)
    check_lengths(index, vectors)
    counts = np.diff(index.document_offsets)
    stay = int(np.count_nonzero(kept)) if len(kept) == len(counts) else -1
    if stay < 0 or not np.array_equal(np.diff(vectors.document_offsets)[:stay], counts[kept]):
        raise InputError(
            "These token vectors are not the ones the index was built from; give those. "
            f"Received: {vectors.directory} for {index.directory}."
        )


def check_encoder(expected: str, actual: str) -> None:
    """Checks that two fingerprints are of the same encoder.

    Args:
        expected: Fingerprint of the index.
        actual: Fingerprint of the vectors or encoder to add.

    Raises:
        InputError: If they differ.
    """
    if expected != actual:
        raise InputError(
            "An index takes only vectors of its own encoder; encode with that one or build a new index. "
            f"Received: encoder {actual[:12]} instead of {expected[:12]}."
        )


def check_lengths(index: TokenIndex, vectors: TokenVectors) -> None:
    """Checks that token vectors have the lengths of those in an index.

    Args:
        index: The index.
        vectors: The token vectors.

    Raises:
        InputError: If they differ.
    """
    lengths = index.manifest.token_lengths, vectors.token_lengths
    if lengths[0] != lengths[1]:
        raise InputError(
            "The index was made from vectors with another length penalty or repetition bonus; index these "
            f"again. Received: {tuple(lengths[0])} in the index, {tuple(lengths[1])} in {vectors.directory}."
        )


STATE_FILE = "refresh.json"
# Beyond these limits, training again is advised: a corpus twice (or half) as large, a tenth more distance.
GROWTH_LIMIT = 2.0
DRIFT_LIMIT = 1.1
_SAMPLE = 16_384
# With a smaller share of new tokens, their distances say little about the corpus, and matter little.
_SHARE_THAT_DRIFTS = 0.1


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """What a refreshed index knows about its training.

    Attributes:
        trained_tokens: Number of tokens in the corpus that leaves and codebooks were trained on.
        refreshes: Number of refreshes since then.
    """

    trained_tokens: int
    refreshes: int

    @classmethod
    def read(cls, index: TokenIndex) -> TrainingState:
        """Reads the state of an index.

        Args:
            index: The index.

        Returns:
            Its state. An index that was never refreshed has no file; its state is its own size and 0
            refreshes.
        """
        if STATE_FILE not in index.manifest.files:
            return cls(index.num_tokens, 0)
        return cls(**json.loads(index.file(STATE_FILE).read_bytes()))

    @classmethod
    def of(cls, last: TokenIndex) -> TrainingState:
        """Returns the state of the version after `last`.

        Args:
            last: The last version.

        Returns:
            The same training, with one more refresh.
        """
        state = cls.read(last)
        return cls(state.trained_tokens, state.refreshes + 1)

    def write(self, folder: Path) -> None:
        """Writes the state into the folder of an index.

        Args:
            folder: The folder of the index.
        """
        (folder / STATE_FILE).write_text(json.dumps(dataclasses.asdict(self)))


def drift(
    quantizer: TokenQuantizer,
    vectors: TokenVectors,
    stay: int,
    seed: int = 0,
    take: Callable[[np.ndarray], np.ndarray] | None = None,
) -> float:
    """Returns how much farther new tokens are from the centres of their leaves than the tokens that stayed.

    Args:
        quantizer: The leaves.
        vectors: Vectors of the tokens that stayed, then of the new ones.
        stay: Number of tokens that stayed.
        seed: Seed of the samples.
        take: Reads the vectors of tokens, which ascend; `vectors.take` if None.

    Returns:
        The ratio of mean squared distances, or 1 if there are too few new tokens to tell, or no vectors.
    """
    generator = np.random.default_rng(seed)

    def mean_distance(first: int, last: int) -> float:
        chosen = generator.choice(last - first, min(_SAMPLE, last - first), replace=False)
        sample = (take or vectors.take)(first + np.sort(chosen))
        residuals = sample - quantizer.centres[quantizer.assign(sample)]
        # Relative to the vectors, whose length may depend on that of their document.
        return float((np.square(residuals).sum(axis=1) / np.square(sample).sum(axis=1)).mean())

    if (
        not vectors.has_vectors
        or stay == 0
        or vectors.num_tokens - stay <= _SHARE_THAT_DRIFTS * vectors.num_tokens
    ):
        return 1.0
    before = mean_distance(0, stay)
    return mean_distance(stay, vectors.num_tokens) / before if before else 1.0


def advice(state: TrainingState, num_tokens: int, drift_ratio: float) -> str:
    """Returns why new leaves should be trained.

    Args:
        state: What the leaves were trained on.
        num_tokens: Number of tokens in the index now.
        drift_ratio: Mean squared distance of new tokens from their centres, divided by that of the others.

    Returns:
        A phrase, or "" if new leaves are not needed.
    """
    growth = num_tokens / state.trained_tokens
    if not 1 / GROWTH_LIMIT <= growth <= GROWTH_LIMIT:
        return f"the index has {growth:.2f} times the tokens its leaves were trained for"
    if drift_ratio > DRIFT_LIMIT:
        return f"new tokens lie {drift_ratio:.2f} times as far from the centres of their leaves as old ones"
    return ""
