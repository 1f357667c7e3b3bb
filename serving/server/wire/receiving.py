"""Limits how many gRPC messages are received at the same time.

gRPC does not report how much of a message has arrived, so each counts with the largest size allowed. A call
that finds all places taken waits without using memory, because its message is not requested yet. Slow
messages lose their place to waiting calls, the latest first, so that calls that never send their message
cannot block others for long.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from serving.server.status import Code, RequestError

_PATIENCE_SECONDS = 1.0


class Receiver:
    """Receives the messages of calls. Use it only from the event loop.

    Args:
        places: Messages that may be received at the same time.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._since: dict[asyncio.Task[Any], float] = {}
        self._given_up: set[asyncio.Task[Any]] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self, context: grpc.aio.ServicerContext) -> bytes:
        """Receives the message of a call.

        Args:
            context: The context of the call.

        Returns:
            The serialised message.

        Raises:
            RequestError: RESOURCE_EXHAUSTED, if it did not arrive while other calls waited.
        """
        task = asyncio.current_task()
        assert task is not None
        while len(self._since) >= self._places:
            await self._wait()
        self._since[task] = asyncio.get_running_loop().time()
        try:
            raw = await context.read()
        except asyncio.CancelledError:
            if task not in self._given_up:
                raise
            raise RequestError(
                Code.RESOURCE_EXHAUSTED, "The message did not arrive while others waited; try again later."
            ) from None
        finally:
            del self._since[task]
            self._given_up.discard(task)
            self._wake_one()
        if raw is grpc.aio.EOF:
            raise RequestError(Code.INTERNAL, "The call has no message.")
        message: bytes = raw
        return message

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        place = loop.create_future()
        self._waiting.append(place)
        if self._timer is None:
            self._timer = loop.call_later(_PATIENCE_SECONDS / 4, self._give_up_the_slow)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._waiting:
            place = self._waiting.pop()
            if not place.done():
                place.set_result(None)
                return

    def _give_up_the_slow(self) -> None:
        self._timer = None
        self._waiting = [place for place in self._waiting if not place.done()]
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        for task, since in self._since.items():
            if loop.time() - since > _PATIENCE_SECONDS and task not in self._given_up:
                self._given_up.add(task)
                task.cancel()
        self._timer = loop.call_later(_PATIENCE_SECONDS / 4, self._give_up_the_slow)
