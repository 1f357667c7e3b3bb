"""Detects data that should not be used by their statistics: anomalies, vanished and drifted languages.

Each problem is a phrase that says what is wrong and where. This file reads messages of TensorFlow Metadata.
It knows nothing about artifacts, or how `DataGate` handles a problem.
"""

from __future__ import annotations

from typing import Any

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2

from tfx_pipeline.data.example_gen import DEFECT

_LANGUAGE = "language"
_MISSING = (
    anomalies_pb2.AnomalyInfo.FEATURE_TYPE_LOW_FRACTION_PRESENT,
    anomalies_pb2.AnomalyInfo.FEATURE_TYPE_LOW_NUMBER_PRESENT,
)


def anomaly_sentences(anomalies: Any, statistics: Any) -> list[str]:
    """Describes the anomalies of one split.

    Args:
        anomalies: `Anomalies` that ExampleValidator wrote.
        statistics: `DatasetFeatureStatistics` of the same split, which also list unreadable records.

    Returns:
        One phrase per anomaly. Unreadable records come first.
    """
    found = dict(anomalies.anomaly_info)
    sentences = []
    if found.pop(DEFECT, None) is not None:
        sentences.append(_unreadable(statistics))
        # Features that unreadable records lack are not worth reporting.
        found = {name: info for name, info in found.items() if not _only_missing(info)}
    sentences += [
        f"`{name}`: {_lower(reason.description or reason.short_description)}"
        for name, info in sorted(found.items())
        for reason in info.reason
    ]
    dataset = anomalies.dataset_anomaly_info
    sentences += [_lower(reason.description) for reason in dataset.reason]
    return [sentence.rstrip(". ") for sentence in sentences]


def _unreadable(statistics: Any) -> str:
    for feature in statistics.features:
        if DEFECT in (feature.name, *feature.path.step):
            count = feature.string_stats.common_stats.num_non_missing
            places = [value.value for value in feature.string_stats.top_values]
            return f"records that cannot be used: {count}, such as {min(places, default='?')}"
    return "records that cannot be used"


def _only_missing(info: Any) -> bool:
    return all(reason.type in _MISSING for reason in info.reason)


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def vanished_languages(statistics: Any, schema: Any, minimum: int) -> list[str]:
    """Finds languages of the schema with too few examples in a split.

    Args:
        statistics: `DatasetFeatureStatistics` of the split.
        schema: Curated schema. The domain of `language` lists the languages in use.
        minimum: Minimum number of examples per language.

    Returns:
        One phrase per language.
    """
    counts = language_counts(statistics)
    return [
        f"the language `{language}` of the schema has vanished, examples left: {counts.get(language, 0):.0f}"
        for language in _languages_of(schema)
        if counts.get(language, 0) < minimum
    ]


def drifted_languages(statistics: Any, previous: Any, schema: Any, threshold: float) -> list[str]:
    """Compares the languages of a split with those of an earlier split, by TFDV's drift comparator.

    Args:
        statistics: `DatasetFeatureStatisticsList` with one split.
        previous: `DatasetFeatureStatisticsList` of the split to compare with.
        schema: Curated schema.
        threshold: Maximum difference between the shares of a language.

    Returns:
        A phrase about the language that drifted most, or an empty list.
    """
    compared = type(schema)()
    compared.CopyFrom(schema)
    feature = _language_feature(compared)
    if feature is None:
        return []
    feature.drift_comparator.infinity_norm.threshold = threshold
    anomalies = tfdv.validate_statistics(statistics, compared, previous_statistics=previous)
    for drift in anomalies.drift_skew_info:
        for measured in drift.drift_measurements:
            if list(drift.path.step) == [_LANGUAGE] and measured.value > measured.threshold:
                return [_describe_drift(statistics.datasets[0], previous.datasets[0], threshold)]
    return []


def language_counts(statistics: Any) -> dict[str, float]:
    """Returns the number of examples by language.

    Args:
        statistics: `DatasetFeatureStatistics` of a split.

    Returns:
        Counts by language. Empty if the split has no feature `language`.
    """
    for feature in statistics.features:
        if _LANGUAGE in (feature.name, *feature.path.step):
            buckets = feature.string_stats.rank_histogram.buckets
            return {bucket.label: bucket.sample_count for bucket in buckets}
    return {}


def _language_feature(schema: Any) -> Any:
    return next((feature for feature in schema.feature if feature.name == _LANGUAGE), None)


def _languages_of(schema: Any) -> list[str]:
    feature = _language_feature(schema)
    if feature is None or not (feature.domain or feature.HasField("string_domain")):
        return []
    return list(tfdv.get_domain(schema, _LANGUAGE).value)


def _describe_drift(now: Any, before: Any, threshold: float) -> str:
    shares, earlier = _shares(now), _shares(before)
    most = max(
        sorted(shares.keys() | earlier.keys()),
        key=lambda language: abs(shares.get(language, 0) - earlier.get(language, 0)),
    )
    return (
        f"the share of the language `{most}` drifted from {earlier.get(most, 0):.1%} to "
        f"{shares.get(most, 0):.1%}, by more than {threshold:.1%}"
    )


def _shares(statistics: Any) -> dict[str, float]:
    counts = language_counts(statistics)
    total = sum(counts.values())
    return {language: count / total for language, count in counts.items()}
