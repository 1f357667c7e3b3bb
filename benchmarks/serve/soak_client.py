"""Many requests while versions are swapped: none may fail, and none may be answered by two versions.

    python soak_client.py TARGET REQUESTS CONCURRENCY

One request in a hundred is malformed and must be refused. Prints progress as lines of JSON. The process that
started this one publishes the versions.
"""

from __future__ import annotations

import asyncio
import json
import sys

import grpc
from load import queries

from serving.client import AsyncClient, ClientError
from serving.client.base import PREDICT

# The mistakes of malformed requests, used in turn.
MALFORMED = (b"\xff" * 40, b"", b"\x0a\x03\x0a\x01x", b"\x12\x04\x0a\x02\x08\x01")
PROGRESS = 500


class Soak:
    """Counts what comes back."""

    def __init__(self, client: AsyncClient, requests: int) -> None:
        self._client = client
        self._numbers = iter(range(requests))
        self._texts = queries()
        self.failed: list[str] = []
        self.answered = self.refused = 0
        self.mixed = 0
        self.versions: set[int] = set()

    async def work(self) -> None:
        """Sends one request after the other until all have been sent."""
        raw = self._client._channel.unary_unary(PREDICT)
        for number in self._numbers:
            if number % 100 == 99:
                await self._send_malformed(raw, MALFORMED[number // 100 % len(MALFORMED)])
            else:
                await self._send(self._texts[number % len(self._texts)])
            if number % PROGRESS == 0:
                print(json.dumps({"number": number}), flush=True)

    async def _send(self, text: str) -> None:
        try:
            result = await self._client.search(text)
        except ClientError as error:
            self.failed.append(str(error))
            return
        self.answered += 1
        [version] = result.versions
        self.versions.add(version)
        # The ids of documents name their version.
        if not all(document.id.startswith(f"{version}/") for document in result.documents):
            self.mixed += 1

    async def _send_malformed(self, call: object, data: bytes) -> None:
        try:
            await call(data, timeout=60)  # type: ignore[operator]
        except grpc.RpcError:
            self.refused += 1
        else:
            self.failed.append("a malformed request was answered")


async def main() -> None:
    target, requests, concurrency = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # Nothing is retried: a request that a swap loses counts as failed.
    async with AsyncClient(target, timeout=60, attempts=1) as client:
        soak = Soak(client, requests)
        await asyncio.gather(*(soak.work() for _ in range(concurrency)))
    print(
        json.dumps(
            {
                "answered": soak.answered,
                "refused": soak.refused,
                "failed": len(soak.failed),
                "first_failures": soak.failed[:3],
                "mixed": soak.mixed,
                "versions": sorted(soak.versions),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
