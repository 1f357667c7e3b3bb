"""What every format of training data is turned into: examples by number.

Random access is what makes sampling a pure function of seed and step, and with it shuffling
over the whole set, sharding over hosts and resuming at any step.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from xtr_tf.data.training_example import TrainingExample


class ExampleSource(Protocol):
    """Examples by number.

    Attributes:
        name: Tells sources apart; document ids are compared within one name only.
        languages: Language of each example, `[examples]` of strings.
        max_positives: The most positives an example has.
    """

    name: str
    languages: np.ndarray
    max_positives: int

    def __len__(self) -> int:
        """Number of examples."""
        ...

    def __getitem__(self, index: int) -> TrainingExample:
        """The example at `index`, from 0."""
        ...
