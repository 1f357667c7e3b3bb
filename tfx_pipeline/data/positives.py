"""Compares judged queries with the corpus in one Beam pass over both. Statistics cannot do this.

For statistics, an empty query is a value like any other, and a positive that is not in the corpus looks like
one that is. Training learns nothing from the first. The second can never be found.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import tensorflow as tf

from tfx_pipeline.data.example_gen import DEFECT

# Development queries are judged by the ids of their positives. Training queries do not need ids.
_NEEDS_IDS = "eval"

#: The problem that is tolerated up to a share of the positives, because documents come and go.
MISSING = "have a positive that is not in the corpus"
#: Not a problem, but the total that the share refers to.
NAMED = "name a positive"

#: Split and problem.
Problem = tuple[str, str]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem of some examples of a split.

    Attributes:
        split: Name of the split.
        problem: The problem, as a phrase after "queries that".
        count: How often it occurs. Counts positives for `MISSING` and `NAMED`, and examples otherwise.
        example: One occurrence.
    """

    split: str
    problem: str
    count: int
    example: str

    def __str__(self) -> str:
        return f"queries that {self.problem}: {self.count}, such as {self.example}"


def check_positives(
    pipeline: beam.Pipeline, examples: Mapping[str, str], corpus: Iterable[str], output: str
) -> None:
    """Adds the check to a Beam pipeline.

    Args:
        pipeline: The Beam pipeline.
        examples: File pattern of the judged queries by split.
        corpus: File patterns of the documents.
        output: File for the findings, one JSON object per line.
    """
    judged = [
        pipeline
        | f"Read {split}" >> beam.io.ReadFromTFRecord(pattern)
        | f"Inspect {split}" >> beam.FlatMap(_inspect, split).with_outputs("positives", main="problems")
        for split, pattern in examples.items()
    ]
    documents = [
        pipeline | f"Read documents {number}" >> beam.io.ReadFromTFRecord(pattern)
        for number, pattern in enumerate(corpus)
    ] | "All documents" >> beam.Flatten()
    positives = [split.positives for split in judged] | "All positives" >> beam.Flatten()
    absent = (
        {"positives": positives, "documents": documents | "Ids" >> beam.FlatMap(_document_id)}
        | "Join" >> beam.CoGroupByKey()
        | "Absent" >> beam.FlatMap(_absent)
    )
    _ = (
        [*(split.problems for split in judged), positives | "Named" >> beam.Map(_named), absent]
        | "All problems" >> beam.Flatten()
        | "Count" >> beam.CombinePerKey(_CountAndFirst())
        | "To JSON" >> beam.Map(_to_json)
        | "Write" >> beam.io.WriteToText(output, shard_name_template="")
    )


def read_findings(text: str) -> list[Finding]:
    """Parses the findings that `check_positives` wrote.

    Args:
        text: Content of the file.

    Returns:
        The findings, sorted by split and problem.
    """
    found = [Finding(**json.loads(line)) for line in text.splitlines()]
    return sorted(found, key=lambda finding: (finding.split, finding.problem))


def _inspect(record: bytes, split: str) -> Iterator[Any]:
    """Yields the problems of an example, and its positives as (document id, (split, example))."""
    features = tf.train.Example.FromString(record).features.feature
    if DEFECT in features:
        return
    name, query = _text(features, "id"), _text(features, "query")
    label = repr(name or query)
    positives = [value.decode() for value in features["positive_ids"].bytes_list.value]
    if not query.strip():
        yield (split, "are empty"), label
    if not positives and not features["positive_texts"].bytes_list.value:
        yield (split, "have no positive"), label
    for positive in positives:
        if positive:
            yield beam.pvalue.TaggedOutput("positives", (positive, (split, label)))
        elif split == _NEEDS_IDS:
            yield (split, "have a positive without an id"), label


def _text(features: Any, name: str) -> str:
    return b"".join(features[name].bytes_list.value).decode("utf-8", "replace")


def _document_id(record: bytes) -> Iterator[tuple[str, bool]]:
    for value in tf.train.Example.FromString(record).features.feature["id"].bytes_list.value:
        yield value.decode(), True


def _absent(joined: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[tuple[Problem, str]]:
    document, groups = joined
    if not any(groups["documents"]):
        for split, label in groups["positives"]:
            yield (split, MISSING), f"{label} with {document!r}"


def _named(positive: tuple[str, tuple[str, str]]) -> tuple[Problem, str]:
    document, (split, label) = positive
    return (split, NAMED), f"{label} with {document!r}"


class _CountAndFirst(beam.CombineFn):
    """Counts elements and keeps the smallest, independent of their order."""

    def create_accumulator(self) -> tuple[int, str]:
        return 0, ""

    def add_input(self, accumulator: tuple[int, str], element: str) -> tuple[int, str]:
        return self.merge_accumulators([accumulator, (1, element)])

    def merge_accumulators(self, accumulators: Iterable[tuple[int, str]]) -> tuple[int, str]:
        filled = [accumulator for accumulator in accumulators if accumulator[0]]
        return sum(count for count, _ in filled), min((first for _, first in filled), default="")

    def extract_output(self, accumulator: tuple[int, str]) -> tuple[int, str]:
        return accumulator


def _to_json(counted: tuple[Problem, tuple[int, str]]) -> str:
    (split, problem), (count, example) = counted
    return json.dumps(dataclasses.asdict(Finding(split, problem, count, example)), ensure_ascii=False)
