"""What statistics tell of data that should not be used: anomalies, languages that vanished or drifted.

Each problem is a phrase that says what is wrong and where. Reads messages of TensorFlow Metadata; knows
nothing of artifacts, nor of what `DataGate` makes of a problem.
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
        statistics: `DatasetFeatureStatistics` of the same split, which hold what could not be read.

    Returns:
        A phrase each; records that could not be read come first.
    """
    found = dict(anomalies.anomaly_info)
    sentences = []
    if found.pop(DEFECT, None) is not None:
        sentences.append(_unreadable(statistics))
        # What an unreadable record lacks is no news.
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
    """Finds languages of the schema that a split has too few examples of.

    Args:
        statistics: `DatasetFeatureStatistics` of the split.
        schema: The curated schema, whose domain of `language` lists those in use.
        minimum: Examples that a language must have.

    Returns:
        A phrase per language.
    """
    counts = language_counts(statistics)
    return [
        f"the language `{language}` of the schema has vanished, examples left: {counts.get(language, 0):.0f}"
        for language in _languages_of(schema)
        if counts.get(language, 0) < minimum
    ]


def drifted_languages(statistics: Any, previous: Any, schema: Any, threshold: float) -> list[str]:
    """Compares a split's languages with an earlier split's, by TFDV's drift comparator.

    Args:
        statistics: `DatasetFeatureStatisticsList` with one split.
        previous: The same of the data that it is compared with.
        schema: The curated schema.
        threshold: How far the share of one language may be apart.

    Returns:
        A phrase per language.
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
    """Examples of a split by language."""
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
