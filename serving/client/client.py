"""The client for programs that wait."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from .messages import Value
from .reading import read_prediction, read_results, read_status
from .requests import CHANNEL_OPTIONS, PREDICT, STATUS, Requests
from .results import Prediction, SearchResult
from .search_options import SearchOptions


class Client(Requests):
    """Asks a server, and waits for its answers. May be shared by threads; the connection is kept.

    Args:
        target: `host:port`.
        model: The model's name.
        options: Those of `Requests`: version or label, deadline, attempts, TLS, token, batch size.

    Example:
        >>> client = Client("127.0.0.1:8500", timeout=2.0)
        >>> client.search("highest mountain", SearchOptions(top_k=3)).documents[0].title
    """

    def __init__(self, target: str, model: str = "default", **options: Any) -> None:
        super().__init__(target, model, **options)
        if self._credentials is None:
            self._channel = grpc.insecure_channel(target, CHANNEL_OPTIONS)
        else:
            self._channel = grpc.secure_channel(target, self._credentials, CHANNEL_OPTIONS)
        self._calls = {method: self._channel.unary_unary(method) for method in (PREDICT, STATUS)}

    def search(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents for a query."""
        return self.search_batch([query], options)[0]

    def search_batch(
        self, queries: Sequence[str], options: SearchOptions | None = None, signature: str | None = None
    ) -> list[SearchResult]:
        """Finds documents for many queries.

        Args:
            queries: What to search for.
            options: How.
            signature: `search` for titles and languages, `explain` for matches as well; by default
                `serving_default`, the fastest, or `search` if there are options.
        """
        results: list[SearchResult] = []
        for part, data in self.searches(queries, options, signature):
            results += read_results(part, read_prediction(self._call(PREDICT, data)))
        return results

    def explain(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents, with their texts and which token answered which."""
        return self.search_batch([query], options, "explain")[0]

    def predict(self, signature: str, inputs: Mapping[str, Value]) -> Prediction:
        """Runs any signature."""
        return read_prediction(self._call(PREDICT, self.predict_request(signature, inputs)))

    def status(self) -> dict[int, str]:
        """Returns the state of each version, such as `{3: "AVAILABLE"}`."""
        return read_status(self._call(STATUS, self.status_request()))

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _call(self, method: str, data: bytes) -> bytes:
        call = self._calls[method]
        deadline = time.monotonic() + self._timeout
        attempt = 0
        while True:
            try:
                answer: bytes = call(
                    data, timeout=max(0.0, deadline - time.monotonic()), metadata=self._metadata
                )
                return answer
            except grpc.RpcError as error:
                time.sleep(self.delay(error, attempt, deadline))
            attempt += 1
