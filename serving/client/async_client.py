"""The client for asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from .base import PREDICT, STATUS, BaseClient, SearchOptions
from .messages import Value
from .results import Prediction, SearchResult, read_prediction, read_results, read_status


class AsyncClient(BaseClient):
    """Queries a server from asyncio. Use it only on the event loop where you created it.

    Methods take, return and raise the same as those of `Client`, but are awaited.

    Args:
        target: `host:port` of the server.
        model: Name of the model.
        settings: Keyword arguments of `BaseClient`: version or label, timeout, attempts, TLS, token, batch
            size.

    Example:
        >>> async with AsyncClient("127.0.0.1:8500", timeout=2.0) as client:
        ...     result = await client.search("highest mountain", SearchOptions(top_k=3))
        >>> [hit.id for hit in result.documents]
    """

    def __init__(self, target: str, model: str = "default", **settings: Any) -> None:
        super().__init__(target, model, **settings)
        self._open_channel(grpc.aio)

    async def search(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents for a query, as `Client.search` does.

        Args:
            query: Text to search for.
            options: Search parameters. Defaults to those of the model.

        Returns:
            The documents, best first.

        Raises:
            ClientError: The server refused the call or did not answer in time.
        """
        return (await self.search_batch([query], options))[0]

    async def search_batch(
        self,
        queries: Sequence[str],
        options: SearchOptions | None = None,
        signature: str | None = None,
        contents: Sequence[str] = (),
    ) -> list[SearchResult]:
        """Finds documents for many queries, as `Client.search_batch` does.

        Args:
            queries: Texts to search for.
            options: Search parameters for all queries. Defaults to those of the model.
            signature: `search` or `explain`. Defaults to `serving_default`, or to `search` if there are
                options.
            contents: What else `search` returns, if the model keeps it: `texts`, `fields`.

        Returns:
            One result per query, in the order of `queries`.

        Raises:
            ClientError: The server refused a call or did not answer in time.
        """
        results: list[SearchResult] = []
        for part, data in self.searches(queries, options, signature, contents):
            results += read_results(part, read_prediction(await self._call(PREDICT, data)))
        return results

    async def explain(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents and shows which tokens matched, as `Client.explain` does.

        Args:
            query: Text to search for.
            options: Search parameters. Defaults to those of the model.

        Returns:
            The documents, best first, each with its text and its `matches`.

        Raises:
            ClientError: The server refused the call or did not answer in time.
        """
        return (await self.search_batch([query], options, "explain"))[0]

    async def predict(self, signature: str, inputs: Mapping[str, Value]) -> Prediction:
        """Runs any signature, as `Client.predict` does.

        Args:
            signature: Name of the signature, such as `encode_query`.
            inputs: Values by input name.

        Returns:
            The outputs by name, and the version that answered.

        Raises:
            ClientError: The server refused the call or did not answer in time.
        """
        return read_prediction(await self._call(PREDICT, self.predict_request(signature, inputs)))

    async def status(self) -> dict[int, str]:
        """Returns the state of each version, as `Client.status` does.

        Returns:
            States by version, such as `{3: "AVAILABLE"}`.

        Raises:
            ClientError: The server refused the call or did not answer in time.
        """
        return read_status(await self._call(STATUS, self.status_request()))

    async def close(self) -> None:
        """Closes the connection."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _call(self, method: str, data: bytes) -> bytes:
        deadline = time.monotonic() + self._timeout
        attempt = 0
        while True:
            try:
                answer: bytes = await self._begin(method, data, deadline)
                return answer
            except grpc.RpcError as error:
                await asyncio.sleep(self.delay(error, attempt, deadline))
            attempt += 1
