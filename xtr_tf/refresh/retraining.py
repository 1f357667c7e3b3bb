"""When an index that was refreshed should get new cells and codebooks.

They are trained once and serve every refresh. Train new ones (`xtr-tf index`) when either holds:

- the tokens have doubled or halved since, so that the number of cells no longer suits them;
- tokens that came lie a tenth farther from their cells (mean squared distance) than those that
  stayed, so that the corpus has moved away from its cells.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from xtr_tf.corpus.token_vectors import TokenVectors
from xtr_tf.index.token_index import TokenIndex
from xtr_tf.index.token_quantizer import TokenQuantizer

STATE_FILE = "refresh.json"
GROWTH_LIMIT = 2.0
DRIFT_LIMIT = 1.1
_SAMPLE = 16_384


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """What a refreshed index remembers.

    Attributes:
        trained_tokens: Tokens of the corpus that cells and codebooks were trained on.
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
    """How much farther tokens that came lie from their cells than those that stayed.

    Args:
        quantizer: The cells.
        vectors: Tokens that stayed, then those that came.
        stay: How many stayed.
        seed: Of the samples.

    Returns:
        The ratio of mean squared distances, or 1 if either part is empty.
    """
    generator = np.random.default_rng(seed)

    def mean_distance(first: int, last: int) -> float:
        chosen = generator.choice(last - first, min(_SAMPLE, last - first), replace=False)
        sample = vectors.take(first + np.sort(chosen))
        residuals = sample - quantizer.centres[quantizer.assign(sample)]
        return float(np.square(residuals).sum(axis=1).mean())

    if stay in (0, vectors.num_tokens):
        return 1.0
    before = mean_distance(0, stay)
    return mean_distance(stay, vectors.num_tokens) / before if before else 1.0


def advice(state: TrainingState, num_tokens: int, drift_ratio: float) -> str:
    """Why new cells should be trained, or "" if they need not be."""
    growth = num_tokens / state.trained_tokens
    if not 1 / GROWTH_LIMIT <= growth <= GROWTH_LIMIT:
        return f"the index has {growth:.2f} times the tokens its cells were trained for"
    if drift_ratio > DRIFT_LIMIT:
        return f"new tokens lie {drift_ratio:.2f} times as far from their cells as old ones"
    return ""
