"""What the data gate tolerates. No TFX: a configuration file is checked without importing it."""

from __future__ import annotations

import dataclasses

from xtr_tf.config.schema import require


@dataclasses.dataclass(frozen=True)
class GateSettings:
    """Thresholds of `DataGate`.

    Attributes:
        training_drift: By how much the share of one language among training queries may differ from
            the last data that passed, such as 0.1 for ten percentage points.
        corpus_drift: The same for documents of the corpus.
        fewest_examples: A language of the schema with fewer examples in a split has vanished.
    """

    training_drift: float = 0.1
    corpus_drift: float = 0.1
    fewest_examples: int = 1

    def __post_init__(self) -> None:
        for name in ("training_drift", "corpus_drift"):
            require(0 < getattr(self, name) <= 1, f"`{name}` must be in (0, 1].", getattr(self, name))
        require(self.fewest_examples >= 1, "`fewest_examples` must be at least 1.", self.fewest_examples)
