"""Two systems row by row: the difference, its interval, and whether it could be chance."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from xtr_tf.evaluation.resampling import holm, interval, p_value
from xtr_tf.evaluation.summary import Row

#: Below this, a difference counts as one.
SIGNIFICANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Difference:
    """One system's figure minus another's.

    Attributes:
        name: Of the row.
        metric: What was compared.
        queries: How many.
        value: The difference.
        low: Lower end of its 95% confidence interval (paired bootstrap).
        high: Upper end.
        p: Two-sided p-value of the paired randomisation test.
        adjusted_p: The same, adjusted by Holm's rule for the number of rows compared.
    """

    name: str
    metric: str
    queries: int
    value: float
    low: float
    high: float
    p: float
    adjusted_p: float

    @property
    def verdict(self) -> str:
        """`better`, `worse`, or `no clear difference`."""
        if self.adjusted_p >= SIGNIFICANCE:
            return "no clear difference"
        return "better" if self.value > 0 else "worse"


def compare(rows: Sequence[Row], system: str, other: str) -> list[Difference]:
    """Compares two systems on every row that has both, each by its own metric.

    Args:
        rows: Of one table, whose p-values are adjusted together.
        system: The one whose advantage is positive.
        other: What it is compared with.
    """
    found = []
    for row in rows:
        key, other_key = (system, row.metric), (other, row.metric)
        if key not in row.figures or other_key not in row.figures:
            continue
        value = row.figures[key].value - row.figures[other_key].value
        drawn = np.mean([cell.replicates[key] - cell.replicates[other_key] for cell in row.cells], axis=0)
        swapped = np.mean([cell.swapped(row.metric, system, other) for cell in row.cells], axis=0)
        low, high = interval(drawn)
        p = p_value(value, swapped)
        found.append(Difference(row.name, row.metric, row.queries, value, float(low), float(high), p, p))
    adjusted = holm([difference.p for difference in found])
    return [
        dataclasses.replace(difference, adjusted_p=p) for difference, p in zip(found, adjusted, strict=True)
    ]
