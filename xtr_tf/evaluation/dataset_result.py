"""Everything measured on one dataset, per query; and the part of it that a later comparison reads."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.corpus.files import write_aside
from xtr_tf.errors import InputError
from xtr_tf.evaluation.datasets.dataset import Dataset
from xtr_tf.evaluation.honesty import Honesty
from xtr_tf.evaluation.model_result import ModelResult

#: `[queries]` values by metric.
Values = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class DatasetResult:
    """Values of every system on every query.

    Attributes:
        dataset: What was measured.
        documents: Documents of its corpus.
        depth: Documents of each query that were ranked.
        values: By system, then by metric.
        honesty: What was missing or empty.
        model: What the model under test gave.
    """

    dataset: Dataset
    documents: int
    depth: int
    values: Mapping[str, Values]
    honesty: Honesty
    model: ModelResult

    @property
    def languages(self) -> list[str]:
        """`[queries]`."""
        return [query.language for query in self.dataset.queries]

    @property
    def groups(self) -> list[str]:
        """`[queries]`."""
        return [query.group for query in self.dataset.queries]

    def write_queries(self, path: Path) -> None:
        """Writes the values of every query as JSON."""
        content = {
            "dataset": self.dataset.name,
            "queries": [query.id for query in self.dataset.queries],
            "languages": self.languages,
            "groups": self.groups,
            "values": {
                # Unrounded: a rounding error of one sign would be a significant difference.
                system: {metric: own.tolist() for metric, own in values.items()}
                for system, values in self.values.items()
            },
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, json.dumps(content, ensure_ascii=False).encode())


def file_name(dataset: str) -> str:
    """A dataset's name as the beginning of a file's name."""
    return dataset.replace("/", "--")


def read_values(path: Path, queries: Sequence[str], system: str = "xtr") -> Values:
    """Reads one system's values of some queries from what `write_queries` wrote.

    Raises:
        InputError: There is no such file, or it lacks a query.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            "The earlier report has no values of a dataset; evaluate the baseline on the same datasets. "
            f"Received: {str(path)!r}."
        ) from error
    places = {query: place for place, query in enumerate(content["queries"])}
    missing = [query for query in queries if query not in places]
    if missing:
        raise InputError(
            "The earlier report lacks queries of a dataset; give both evaluations the same number of queries "
            f"and seed. Received: {str(path)!r} without {missing[0]!r} and {len(missing) - 1} others."
        )
    order = [places[query] for query in queries]
    return {metric: np.array(own)[order] for metric, own in content["values"][system].items()}
