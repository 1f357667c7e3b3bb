"""Prometheus metrics of partitions, in addition to the server's own metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from serving.server.requests.metrics import SECONDS
from serving.server.status import Code


class PartitionMetrics:
    """Counts calls to partitions.

    Args:
        registry: Registry of the server.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Counter(
            "xtr_serving_partition_calls", "Calls to partitions.", ("partition", "code"), registry=registry
        )
        self._latency = Histogram(
            "xtr_serving_partition_seconds",
            "Time until a partition's server answered.",
            ("partition",),
            buckets=SECONDS,
            registry=registry,
        )
        self._hedges = Counter(
            "xtr_serving_partition_hedges",
            "Calls that were sent to a second server because the first was slow.",
            ("partition",),
            registry=registry,
        )
        self._missing = Counter(
            "xtr_serving_partition_missing",
            "Answers that were given without a partition.",
            ("partition",),
            registry=registry,
        )
        self._replicas = Gauge(
            "xtr_serving_partition_replicas",
            "Servers of a partition that can answer.",
            ("partition",),
            registry=registry,
        )

    def asked(self, partition: int, code: Code, seconds: float) -> None:
        """Counts a call.

        Args:
            partition: Number of the partition.
            code: Status code of the call.
            seconds: Duration of the call.
        """
        self._calls.labels(str(partition), code.name).inc()
        self._latency.labels(str(partition)).observe(seconds)

    def hedged(self, partition: int) -> None:
        """Counts a second call for the same request."""
        self._hedges.labels(str(partition)).inc()

    def missed(self, partition: int) -> None:
        """Counts an answer without the partition."""
        self._missing.labels(str(partition)).inc()

    def set_replicas(self, partition: int, able: int) -> None:
        """Records the number of servers of a partition that can answer."""
        self._replicas.labels(str(partition)).set(able)
