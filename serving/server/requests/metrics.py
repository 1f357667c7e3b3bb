"""Metrics of the server, in the format of Prometheus."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from serving.server.status import Code, State

PATH = "/monitoring/prometheus/metrics"
CONTENT_TYPE = CONTENT_TYPE_LATEST

#: Bucket bounds of latency histograms.
SECONDS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.5, 5.0, 10.0, 30.0)
_LOAD_SECONDS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_STATES = tuple(State.__members__)


class Metrics:
    """Metrics of the server, in their own registry.

    Only names of configured models become labels, because requests can contain any name.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "xtr_serving_requests",
            "Requests answered, by outcome.",
            ("api", "method", "model", "code"),
            registry=self.registry,
        )
        self._latency = Histogram(
            "xtr_serving_request_seconds",
            "Time from a request's arrival to its answer.",
            ("api", "method", "model"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._batches = Histogram(
            "xtr_serving_batch_rows",
            "Rows of each batch.",
            ("model",),
            buckets=_ROWS,
            registry=self.registry,
        )
        self._loads = Histogram(
            "xtr_serving_model_load_seconds",
            "Time to load a version and warm it up.",
            ("model", "outcome"),
            buckets=_LOAD_SECONDS,
            registry=self.registry,
        )
        self._versions = Gauge(
            "xtr_serving_model_version_state",
            "1 for the state that a version is in.",
            ("model", "version", "state"),
            registry=self.registry,
        )
        self._newest = Gauge(
            "xtr_serving_model_newest_version",
            "Highest version that answers, NaN if none does.",
            ("model",),
            registry=self.registry,
        )

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Adds a gauge that is computed when the metrics are read.

        Args:
            name: Name of the metric, without its prefix.
            description: Help text of the metric.
            value: Returns the current value.
        """
        Gauge(f"xtr_serving_{name}", description, registry=self.registry).set_function(value)

    def observe_request(self, api: str, method: str, model: str, code: Code, seconds: float) -> None:
        """Counts an answered request and its latency.

        Args:
            api: `grpc` or `rest`.
            method: Name of the method.
            model: Name of a configured model, or "".
            code: Status code of the answer.
            seconds: Time from request to answer.
        """
        count, latency = self._of_requests(api, method, model, code)
        count.inc()
        latency.observe(seconds)

    # Looking up a metric by its labels takes longer than incrementing it.
    @functools.lru_cache(maxsize=1024)  # noqa: B019
    def _of_requests(self, api: str, method: str, model: str, code: Code) -> tuple[Counter, Histogram]:
        return (
            self._requests.labels(api, method, model, code.name),
            self._latency.labels(api, method, model),
        )

    def batch_observer(self, model: str) -> Callable[[int], None]:
        """Returns a function that records the number of rows of a batch of a model."""
        observe: Callable[[int], None] = self._batches.labels(model).observe
        return observe

    def observe_load(self, model: str, succeeded: bool, seconds: float) -> None:
        """Counts an attempt to load a version.

        Args:
            model: Name of the model.
            succeeded: Whether the version is available now.
            seconds: Time that loading and warm-up took.
        """
        self._loads.labels(model, "loaded" if succeeded else "refused").observe(seconds)

    def set_state(self, model: str, version: int, state: str) -> None:
        """Records the state of a version.

        Args:
            model: Name of the model.
            version: The version.
            state: Name of its state.
        """
        for other in _STATES:
            self._versions.labels(model, str(version), other).set(other == state)

    def set_newest(self, model: str, answering: Iterable[int]) -> None:
        """Records the highest available version of a model as a value, which alerts can compare over time.

        Args:
            model: Name of the model.
            answering: The available versions.
        """
        self._newest.labels(model).set(max(answering, default=math.nan))

    def forget_version(self, model: str, version: int) -> None:
        """Removes the metrics of a version that the status no longer lists."""
        for state in _STATES:
            self._versions.remove(model, str(version), state)

    def page(self) -> bytes:
        """Returns all metrics as text."""
        text: bytes = generate_latest(self.registry)
        return text
