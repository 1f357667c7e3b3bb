"""The next version of an index, from the last one and the vectors of the new documents.

Tokens that stay keep their leaves and codes, which are copied without those that go; only new tokens
are assigned and coded, by the index's own leaves and codebooks. So the new index is the one that a
full build with these leaves and codebooks would make, and nothing in it is masked or waiting to be
compacted. The second half says when new leaves should be trained. Knows nothing of texts or encoding:
that is `refresh.py`.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import numpy as np

from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.frequencies import PieceFrequencies
from xtr_tf.index.parts import IndexPart, join_indexes
from xtr_tf.index.quantizer import TokenQuantizer, trained_quantizer
from xtr_tf.vectors.store import TokenVectors


def update_index(
    index: TokenIndex, vectors: TokenVectors, kept: np.ndarray, directory: str | Path
) -> TokenIndex:
    """Writes the index of `vectors`, a part of which is in `index` already.

    Args:
        index: The last version.
        vectors: The new version's vectors, of `update_vectors`: shards of documents that stay,
            then shards of new ones.
        kept: `[documents of the last version]` bool.
        directory: A new directory, which appears when it is whole.

    Returns:
        The opened index.

    Raises:
        InputError: If the directory exists, or the index is not of these documents or encoder.
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
        parts = [old]
        if new.num_tokens:
            quantizer = trained_quantizer(index)
            built = build_index(new, Path(work) / "new", index.config, quantizer, is_part=True)
            parts.append(IndexPart(built))
        with atomic_directory(directory) as folder:
            TrainingState.of(index).write(folder)
            # Counted again, because those of documents that went cannot be taken from a sum.
            frequencies = PieceFrequencies.of(vectors.pieces, vectors.document_offsets)
            join_indexes(parts, vectors, folder, frequencies)
    return TokenIndex.open(directory)


def check_belongs(index: TokenIndex, vectors: TokenVectors, kept: np.ndarray) -> None:
    """Checks that token vectors are those of an index.

    Args:
        index: The index.
        vectors: The token vectors.
        kept: `[documents]` bool: those of the index that the vectors begin with.

    Raises:
        InputError: They are of another encoder or of other documents.
    """
    check_encoder(index.encoder_fingerprint, vectors.encoder_fingerprint)
    counts = np.diff(index.document_offsets)
    stay = int(np.count_nonzero(kept)) if len(kept) == len(counts) else -1
    if stay < 0 or not np.array_equal(np.diff(vectors.document_offsets)[:stay], counts[kept]):
        raise InputError(
            "These token vectors are not the ones the index was built from; give those. "
            f"Received: {vectors.directory} for {index.directory}."
        )


def check_encoder(expected: str, actual: str) -> None:
    """Checks that two fingerprints are of one encoder.

    Args:
        expected: Of the index.
        actual: Of what is to be added.

    Raises:
        InputError: They differ.
    """
    if expected != actual:
        raise InputError(
            "An index takes only vectors of its own encoder; encode with that one or build a new index. "
            f"Received: encoder {actual[:12]} instead of {expected[:12]}."
        )


STATE_FILE = "refresh.json"
# Training again is advised beyond these: a corpus twice (or half) as large, a tenth more distance.
GROWTH_LIMIT = 2.0
DRIFT_LIMIT = 1.1
_SAMPLE = 16_384
# The distances of fewer new tokens say little of the corpus, and matter little.
_SHARE_THAT_DRIFTS = 0.1


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """What a refreshed index remembers.

    Attributes:
        trained_tokens: Tokens of the corpus that leaves and codebooks were trained on.
        refreshes: How many refreshes they have served.
    """

    trained_tokens: int
    refreshes: int

    @classmethod
    def read(cls, index: TokenIndex) -> TrainingState:
        """The state of an index; one that was never refreshed has no file."""
        path = index.directory / STATE_FILE
        return cls(**json.loads(path.read_bytes())) if path.is_file() else cls(index.num_tokens, 0)

    @classmethod
    def of(cls, last: TokenIndex) -> TrainingState:
        """The state of the version after `last`."""
        state = cls.read(last)
        return cls(state.trained_tokens, state.refreshes + 1)

    def write(self, folder: Path) -> None:
        """Writes the file."""
        (folder / STATE_FILE).write_text(json.dumps(dataclasses.asdict(self)))


def drift(quantizer: TokenQuantizer, vectors: TokenVectors, stay: int, seed: int = 0) -> float:
    """How much farther new tokens lie from the centres of their leaves than those that stayed.

    Args:
        quantizer: The leaves.
        vectors: Tokens that stayed, then new ones.
        stay: How many stayed.
        seed: Of the samples.

    Returns:
        The ratio of mean squared distances, or 1 if there are too few new tokens to tell.
    """
    generator = np.random.default_rng(seed)

    def mean_distance(first: int, last: int) -> float:
        chosen = generator.choice(last - first, min(_SAMPLE, last - first), replace=False)
        sample = vectors.take(first + np.sort(chosen))
        residuals = sample - quantizer.centres[quantizer.assign(sample)]
        return float(np.square(residuals).sum(axis=1).mean())

    if stay == 0 or vectors.num_tokens - stay <= _SHARE_THAT_DRIFTS * vectors.num_tokens:
        return 1.0
    before = mean_distance(0, stay)
    return mean_distance(stay, vectors.num_tokens) / before if before else 1.0


def advice(state: TrainingState, num_tokens: int, drift_ratio: float) -> str:
    """Why new leaves should be trained, or "" if they need not be.

    Args:
        state: What the leaves were trained on.
        num_tokens: Tokens of the index now.
        drift_ratio: Mean squared distance of new tokens from their centres, divided by that of the others.

    Returns:
        A phrase, or "".
    """
    growth = num_tokens / state.trained_tokens
    if not 1 / GROWTH_LIMIT <= growth <= GROWTH_LIMIT:
        return f"the index has {growth:.2f} times the tokens its leaves were trained for"
    if drift_ratio > DRIFT_LIMIT:
        return f"new tokens lie {drift_ratio:.2f} times as far from the centres of their leaves as old ones"
    return ""
