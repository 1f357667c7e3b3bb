"""One loaded version of a model, which runs its signatures and counts the requests that use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import numpy as np

from serving.server.requests.batching import Batcher, BatchingOptions
from serving.server.requests.call import DEFAULT_SIGNATURE, ModelCall
from serving.server.requests.worker_pool import WorkerPool
from serving.server.status import Code, RequestError
from xtr_tf.errors import InputError
from xtr_tf.runtime import SavedModelSession, Signature, StatusError

_Used = TypeVar("_Used", bound="Leased")


class Leased:
    """Counts the requests that use a version, so that it can be unloaded when there are none."""

    def __init__(self) -> None:
        self._leases = 0
        self._unused = asyncio.Event()
        self._unused.set()

    @contextmanager
    def lease(self: _Used) -> Iterator[_Used]:
        """Keeps the version loaded while a request uses it."""
        self._leases += 1
        self._unused.clear()
        try:
            yield self
        finally:
            self._leases -= 1
            if not self._leases:
                self._unused.set()

    async def drain(self, seconds: float) -> int:
        """Waits until no request uses the version.

        Args:
            seconds: Longest time to wait.

        Returns:
            The number of requests that still use it.
        """
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._unused.wait(), seconds)
        return self._leases


class Servable(Leased):
    """A version that answers requests. Use it from the event loop; the model runs on threads of the pool.

    Args:
        name: Name of the model.
        version: Version of the model.
        session: The loaded model.
        pool: Threads that run the model.
        batching: Limits of the batches of `serving_default`.
        observe_batch: Called with the number of rows of every batch.
    """

    def __init__(
        self,
        name: str,
        version: int,
        session: SavedModelSession,
        pool: WorkerPool,
        batching: BatchingOptions,
        observe_batch: Callable[[int], None] = lambda rows: None,
    ) -> None:
        super().__init__()
        self.name = name
        self.version = version
        self.session = session
        self._pool = pool
        self._is_closing = False
        self._batcher: Batcher | None = None
        default = session.signatures.get(DEFAULT_SIGNATURE)
        if default is not None and batching.max_batch_size > 1 and _is_batchable(default):
            self._batcher = Batcher(pool, partial(self._run, default), batching, observe_batch)

    @property
    def depth(self) -> int:
        """Rows that wait for a batch."""
        return self._batcher.depth if self._batcher is not None else 0

    async def run(self, call: ModelCall) -> dict[str, np.ndarray]:
        """Runs a checked call.

        Args:
            call: The call.

        Returns:
            The requested outputs by name.

        Raises:
            RequestError: The model refused the call or failed, or too many requests wait.
        """
        if self._batcher is not None and call.signature.name == DEFAULT_SIGNATURE and _has_rows(call.inputs):
            return await self._batcher.run(call.inputs, call.outputs)
        return await self._pool.run(partial(self._run, call.signature, call.inputs, call.outputs))

    def close(self) -> None:
        """Frees the model. Requests that still use it fail with UNAVAILABLE, so that clients retry them."""
        self._is_closing = True
        self.session.close(cancel=True)

    def _run(
        self, signature: Signature, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> dict[str, np.ndarray]:
        try:
            return self.session.run_checked(signature, inputs, outputs)
        except (StatusError, InputError) as error:
            if self._is_closing:
                raise RequestError(
                    Code.UNAVAILABLE,
                    f"Version {self.version} of model {self.name} was unloaded before it could answer; "
                    "try again.",
                ) from None
            if isinstance(error, StatusError):
                raise RequestError(Code(error.code), error.message) from None
            raise RequestError(Code.INVALID_ARGUMENT, str(error)) from None


def _is_batchable(signature: Signature) -> bool:
    """Whether the first dimension of every input and output is a number of rows of any size."""
    specs = (*signature.inputs.values(), *signature.outputs.values())
    return all(spec.shape is not None and len(spec.shape) > 0 and spec.shape[0] is None for spec in specs)


def _has_rows(inputs: Mapping[str, np.ndarray]) -> bool:
    rows = {len(array) for array in inputs.values()}
    return len(rows) == 1 and rows != {0}
