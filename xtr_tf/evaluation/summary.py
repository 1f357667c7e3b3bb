"""From values of queries to the rows of tables: datasets, averages and languages, with intervals.

An average over datasets is the mean of their means, as in the paper; each dataset names its collection. The
figure of a language is the mean over the datasets that have it. The last part compares two systems by row.
Knows nothing about how tables are shown.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from xtr_tf.evaluation.results import DatasetResult
from xtr_tf.evaluation.statistics import bootstrap, group_mean, holm, interval, p_value, randomisation

#: The row that averages everything that was evaluated.
ALL_DATASETS = "All datasets"


@dataclasses.dataclass(frozen=True)
class Figure:
    """A mean in [0, 1] and its 95% confidence interval."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Cell:
    """Some queries of one dataset: all of them, or those in one language.

    Attributes:
        name: A unique name, which decides the random numbers together with `seed`.
        values: `[queries]` by system and metric.
        groups: `[queries]`.
        seed: Seed of the resampling.
    """

    name: str
    values: Mapping[tuple[str, str], np.ndarray]
    groups: Sequence[str]
    seed: int

    @property
    def queries(self) -> int:
        """How many."""
        return len(self.groups)

    @cached_property
    def means(self) -> dict[tuple[str, str], float]:
        """The figures."""
        return {key: float(group_mean(values, self.groups)) for key, values in self.values.items()}

    @cached_property
    def replicates(self) -> dict[tuple[str, str], np.ndarray]:
        """Returns `[samples]` bootstrapped figures, with the same queries for every system and metric."""
        drawn = bootstrap(np.stack(list(self.values.values()), axis=1), self.groups, seed=self._own_seed)
        return dict(zip(self.values, drawn.T, strict=True))

    def swapped(self, metric: str, system: str, other: str) -> np.ndarray:
        """`[samples]` differences between two systems if neither were better.

        Args:
            metric: A name from `METRICS`.
            system: One system.
            other: The other.

        Returns:
            `[samples]` float64.
        """
        differences = self.values[system, metric] - self.values[other, metric]
        return randomisation(differences, self.groups, seed=self._own_seed)

    @property
    def _own_seed(self) -> int:
        return self.seed + zlib.crc32(self.name.encode())


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table: one cell, or the mean of several.

    Attributes:
        name: Name of the row.
        cells: The cells to average.
        metric: The metric that it is usually reported with; empty if its cells have different ones.
    """

    name: str
    cells: Sequence[Cell]
    metric: str

    @property
    def queries(self) -> int:
        """Queries of all cells."""
        return sum(cell.queries for cell in self.cells)

    @cached_property
    def figures(self) -> dict[tuple[str, str], Figure]:
        """By system and metric, as far as all cells have them."""
        keys = [key for key in self.cells[0].values if all(key in cell.values for cell in self.cells)]
        figures = {}
        for key in keys:
            low, high = interval(np.mean([cell.replicates[key] for cell in self.cells], axis=0))
            figures[key] = Figure(
                float(np.mean([cell.means[key] for cell in self.cells])), float(low), float(high)
            )
        return figures


@dataclasses.dataclass(frozen=True)
class Summary:
    """The tables of an evaluation.

    Attributes:
        datasets: One row per dataset.
        averages: One row per collection of several datasets, and one over all.
        languages: One row per language.
    """

    datasets: Sequence[Row]
    averages: Sequence[Row]
    languages: Sequence[Row]


def summarise(results: Sequence[DatasetResult], seed: int = 0) -> Summary:
    """Builds the tables.

    Args:
        results: One per dataset.
        seed: Seed of the resampling.

    Returns:
        Tables by dataset, language and group, with intervals.
    """
    cells = [_cell(result, None, seed) for result in results]
    datasets = [
        Row(result.dataset.name, [cell], result.dataset.metric)
        for result, cell in zip(results, cells, strict=True)
    ]
    collections: dict[str, list[Row]] = {}
    for row, result in zip(datasets, results, strict=True):
        if result.dataset.collection and result.dataset.in_average:
            collections.setdefault(result.dataset.collection, []).append(row)
    averages = [_average(name, rows) for name, rows in collections.items() if len(rows) > 1]
    if len(datasets) > 1 and not any(len(row.cells) == len(datasets) for row in averages):
        averages.append(_average(ALL_DATASETS, datasets))
    return Summary(datasets, averages, _language_rows(results, cells, seed))


def average_of_languages(summary: Summary) -> Row:
    """Returns the mean over languages, each with the same weight."""
    return _average("all languages", summary.languages)


def _language_rows(results: Sequence[DatasetResult], cells: Sequence[Cell], seed: int) -> list[Row]:
    by_language: dict[str, list[tuple[Cell, str]]] = {}
    for result, whole in zip(results, cells, strict=True):
        languages = sorted(set(result.languages))
        for language in languages:
            cell = whole if len(languages) == 1 else _cell(result, language, seed)
            by_language.setdefault(language, []).append((cell, result.dataset.metric))
    return [
        Row(language, [cell for cell, _ in measured], _common([metric for _, metric in measured]))
        for language, measured in sorted(by_language.items())
    ]


def _cell(result: DatasetResult, language: str | None, seed: int) -> Cell:
    kept = np.array([language in (None, of_query) for of_query in result.languages])
    values = {
        (system, metric): of_queries[kept]
        for system, by_metric in result.values.items()
        for metric, of_queries in by_metric.items()
    }
    groups = [group for group, keep in zip(result.groups, kept, strict=True) if keep]
    return Cell(f"{result.dataset.name} {language or ''}", values, groups, seed)


def _average(name: str, rows: Sequence[Row]) -> Row:
    return Row(name, [cell for row in rows for cell in row.cells], _common([row.metric for row in rows]))


def _common(metrics: Sequence[str]) -> str:
    return metrics[0] if len(set(metrics)) == 1 else ""


#: A difference is significant if its adjusted p-value is below this.
SIGNIFICANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Difference:
    """One system's figure minus another's.

    Attributes:
        name: Name of the row.
        metric: What was compared.
        queries: Number of queries.
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
        rows: Rows of one table, whose p-values are adjusted together.
        system: A positive difference means that this system is better.
        other: The system to compare with.

    Returns:
        One difference per row, with its interval and p-value.
    """
    differences = []
    for row in rows:
        key, other_key = (system, row.metric), (other, row.metric)
        if key not in row.figures or other_key not in row.figures:
            continue
        value = row.figures[key].value - row.figures[other_key].value
        drawn = np.mean([cell.replicates[key] - cell.replicates[other_key] for cell in row.cells], axis=0)
        swapped = np.mean([cell.swapped(row.metric, system, other) for cell in row.cells], axis=0)
        low, high = interval(drawn)
        p = p_value(value, swapped)
        differences.append(
            Difference(row.name, row.metric, row.queries, value, float(low), float(high), p, p)
        )
    adjusted = holm([difference.p for difference in differences])
    return [
        dataclasses.replace(difference, adjusted_p=p)
        for difference, p in zip(differences, adjusted, strict=True)
    ]
