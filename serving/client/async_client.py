"""The client for programs on an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from .messages import Value
from .reading import read_prediction, read_results, read_status
from .requests import CHANNEL_OPTIONS, PREDICT, STATUS, Requests
from .results import Prediction, SearchResult
from .search_options import SearchOptions


class AsyncClient(Requests):
    """`Client` for asyncio: the same methods, to be awaited. Belongs to the event loop it was made in."""

    def __init__(self, target: str, model: str = "default", **options: Any) -> None:
        super().__init__(target, model, **options)
        if self._credentials is None:
            self._channel = grpc.aio.insecure_channel(target, CHANNEL_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(target, self._credentials, CHANNEL_OPTIONS)
        self._calls = {method: self._channel.unary_unary(method) for method in (PREDICT, STATUS)}

    async def search(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents for a query."""
        return (await self.search_batch([query], options))[0]

    async def search_batch(
        self, queries: Sequence[str], options: SearchOptions | None = None, signature: str | None = None
    ) -> list[SearchResult]:
        """Finds documents for many queries; see `Client.search_batch`."""
        results: list[SearchResult] = []
        for part, data in self.searches(queries, options, signature):
            results += read_results(part, read_prediction(await self._call(PREDICT, data)))
        return results

    async def explain(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents, with their texts and which token answered which."""
        return (await self.search_batch([query], options, "explain"))[0]

    async def predict(self, signature: str, inputs: Mapping[str, Value]) -> Prediction:
        """Runs any signature."""
        return read_prediction(await self._call(PREDICT, self.predict_request(signature, inputs)))

    async def status(self) -> dict[int, str]:
        """Returns the state of each version, such as `{3: "AVAILABLE"}`."""
        return read_status(await self._call(STATUS, self.status_request()))

    async def close(self) -> None:
        """Ends the connection."""
        await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _call(self, method: str, data: bytes) -> bytes:
        call = self._calls[method]
        deadline = time.monotonic() + self._timeout
        attempt = 0
        while True:
            try:
                answer: bytes = await call(
                    data, timeout=max(0.0, deadline - time.monotonic()), metadata=self._metadata
                )
                return answer
            except grpc.RpcError as error:
                await asyncio.sleep(self.delay(error, attempt, deadline))
            attempt += 1
