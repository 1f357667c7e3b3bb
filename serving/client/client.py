"""The client for programs that wait for each answer. `async_client` has the one for asyncio."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from .base import PREDICT, STATUS, BaseClient, SearchOptions
from .messages import Value
from .results import Prediction, SearchResult, read_prediction, read_results, read_status


class Client(BaseClient):
    """Queries a server over one connection. Threads may share a client.

    Args:
        target: `host:port` of the server.
        model: Name of the model.
        settings: Keyword arguments of `BaseClient`: version or label, timeout, attempts, TLS, token, batch
            size.

    Example:
        >>> client = Client("127.0.0.1:8500", timeout=2.0)
        >>> client.search("highest mountain", SearchOptions(top_k=3)).documents[0].title
    """

    def __init__(self, target: str, model: str = "default", **settings: Any) -> None:
        super().__init__(target, model, **settings)
        self._open_channel(grpc)

    def search(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents for a query.

        Args:
            query: Text to search for.
            options: Search parameters. Defaults to those of the model.

        Returns:
            The documents, best first.

        Raises:
            ClientError: The server refused the call or did not answer in time.

        Example:
            >>> result = client.search("highest mountain", SearchOptions(top_k=3))
            >>> [hit.id for hit in result.documents]
        """
        return self.search_batch([query], options)[0]

    def search_batch(
        self,
        queries: Sequence[str],
        options: SearchOptions | None = None,
        signature: str | None = None,
        contents: Sequence[str] = (),
    ) -> list[SearchResult]:
        """Finds documents for many queries.

        Args:
            queries: Texts to search for.
            options: Search parameters for all queries. Defaults to those of the model.
            signature: `search` for titles and languages, or `explain` to include matches. Defaults to
                `serving_default`, the fastest, or to `search` if there are options.
            contents: What else `search` returns, if the model keeps it: `texts`, `fields`.

        Returns:
            One result per query, in the order of `queries`.

        Raises:
            ClientError: The server refused a call or did not answer in time.

        Example:
            >>> results = client.search_batch(["one", "two"], SearchOptions(top_k=1), contents=["texts"])
        """
        results: list[SearchResult] = []
        for part, data in self.searches(queries, options, signature, contents):
            results += read_results(part, read_prediction(self._call(PREDICT, data)))
        return results

    def explain(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents and shows which tokens matched.

        Args:
            query: Text to search for.
            options: Search parameters. Defaults to those of the model.

        Returns:
            The documents, best first, each with its text and its `matches`.

        Raises:
            ClientError: The server refused the call or did not answer in time.

        Example:
            >>> for match in client.explain("highest mountain").documents[0].matches:
            ...     print(match.query_piece, match.document_piece, match.score)
        """
        return self.search_batch([query], options, "explain")[0]

    def predict(self, signature: str, inputs: Mapping[str, Value]) -> Prediction:
        """Runs any signature.

        Args:
            signature: Name of the signature, such as `encode_query`.
            inputs: Values by input name.

        Returns:
            The outputs by name, and the version that answered.

        Raises:
            ClientError: The server refused the call or did not answer in time.

        Example:
            >>> client.predict("encode_query", {"query": ["highest mountain"]}).outputs["encodings"].shape
        """
        return read_prediction(self._call(PREDICT, self.predict_request(signature, inputs)))

    def status(self) -> dict[int, str]:
        """Returns the state of each version.

        Returns:
            States by version, such as `{3: "AVAILABLE"}`.

        Raises:
            ClientError: The server refused the call or did not answer in time.
        """
        return read_status(self._call(STATUS, self.status_request()))

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _call(self, method: str, data: bytes) -> bytes:
        deadline = time.monotonic() + self._timeout
        attempt = 0
        while True:
            try:
                answer: bytes = self._begin(method, data, deadline)
                return answer
            except grpc.RpcError as error:
                time.sleep(self.delay(error, attempt, deadline))
            attempt += 1
