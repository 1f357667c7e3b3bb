"""ExampleValidator's anomalies as sentences that say what is wrong and where."""

from __future__ import annotations

from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2

from tfx_pipeline.example_gen.defects import DEFECT

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
