"""Decides which version of a collection answers: the one of `collection.json`, once all partitions have it.

A version starts to answer when one server of each partition reports it as AVAILABLE and its fingerprints
match the file. Every call then names the version by number, so that no answer mixes two versions. Until then,
or if a partition cannot load it, the previous version continues to answer. That version is removed when its
last call is done.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import grpc
import numpy as np

from serving.server.collection.addresses import Address
from serving.server.collection.metrics import PartitionMetrics
from serving.server.collection.partition import Partition
from serving.server.collection.replica import Replica
from serving.server.collection.request import same_signatures
from serving.server.collection.search import CollectionSearch
from serving.server.collection.servable import CollectionServable, CollectionSession
from serving.server.models.config import ModelConfig
from serving.server.models.versions import ModelVersions, Version
from serving.server.requests.metrics import Metrics
from serving.server.requests.observer import RequestLog
from serving.server.requests.worker_pool import WorkerPool
from serving.server.status import Code, RequestError, State, invalid_argument, not_found
from xtr_tf.errors import InputError
from xtr_tf.retriever.collection_file import Collection, read_collection

_CALL_SECONDS = 5.0
_NOTHING = {"documents": np.full((1, 1), -1, np.int32), "tokens": np.full((1, 1, 1), -1, np.int32)}
_IDENTITY = ("encoder", "quantizer", "partition")


@dataclasses.dataclass(frozen=True)
class CollectionOptions:
    """Options of a served collection.

    Attributes:
        file: The `collection.json` of the collection, which is watched.
        addresses: Servers of each partition.
        name: Name of the collection in requests.
        partial: Whether to `refuse` or `allow` answers without some partitions, unless a request sets it.
        timeout_seconds: Timeout of requests in seconds. An earlier deadline of a request applies instead.
        credentials: TLS credentials for the servers of partitions, or None for plain text.
        token: Bearer token for these servers.
    """

    file: Path
    addresses: tuple[tuple[Address, ...], ...]
    name: str = "default"
    partial: str = "refuse"
    timeout_seconds: float = 10.0
    credentials: grpc.ChannelCredentials | None = None
    token: str | None = None


class CollectionManager:
    """The versions of one collection. Used only from the event loop.

    Args:
        options: Options of the collection.
        pool: Threads that merge answers.
        metrics: Metrics of the server, which count states and calls.
        log: Log for changes.
        on_change: Called after the state of a version has changed.
        drain_seconds: Time to finish requests before a version is removed.
    """

    def __init__(
        self,
        options: CollectionOptions,
        pool: WorkerPool,
        metrics: Metrics,
        log: RequestLog,
        on_change: Callable[[], None],
        drain_seconds: float,
    ) -> None:
        self._options = options
        self._pool = pool
        self._metrics = metrics
        self._log = log
        self._on_change = on_change
        self._drain_seconds = drain_seconds
        self._model = ModelVersions(ModelConfig(options.name, options.file))
        self.models = {options.name: self._model}
        self._of_partitions = PartitionMetrics(metrics.registry)
        self._partitions = [
            Partition(
                number,
                [Replica(address, options.credentials, options.token) for address in addresses],
                self._of_partitions,
            )
            for number, addresses in enumerate(options.addresses)
        ]
        self._collections: dict[int, Collection] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._last_reason = ""
        self.depth = 0

    @property
    def is_ready(self) -> bool:
        """Whether any version answers."""
        return bool(self._model.available)

    @contextmanager
    def lease(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> Iterator[CollectionServable]:
        """Finds the version that answers a request, and keeps it until the request is done.

        Args:
            name: Name of the collection.
            version: Number of the version. None for the latest.
            label: Label of the version. A collection has no labels, so it must be None.

        Yields:
            The version.

        Raises:
            RequestError: There is no such collection or version, or a label is given.
        """
        if label is not None:
            self.labelled(name, label)
        if name not in self.models:
            raise not_found(f"Servable not found for request: Latest({name})")
        servable = cast(CollectionServable, self._model.find(version))
        with servable.lease():
            yield servable

    def states(self, name: str) -> list[Version]:
        """Returns all known versions, lowest number first."""
        versions = self.models[name].versions if name in self.models else {}
        return [versions[number] for number in sorted(versions)]

    def labelled(self, name: str, label: str) -> int:
        """Refuses labels, because a collection has none.

        Args:
            name: Name of the collection.
            label: The label.

        Raises:
            RequestError: Always, with INVALID_ARGUMENT.
        """
        raise invalid_argument(f"Unrecognized servable version label: {label}")

    async def apply(self, configs: Sequence[ModelConfig]) -> None:
        """Refuses a new configuration, because a collection is configured by its file.

        Args:
            configs: The new configuration.

        Raises:
            RequestError: Always, with FAILED_PRECONDITION.
        """
        raise RequestError(
            Code.FAILED_PRECONDITION, "A collection is configured by its file, which is watched."
        )

    async def refresh(self) -> None:
        """Checks the file and all servers once, and changes the version that answers if necessary."""
        await asyncio.gather(*(replica.ask_state() for replica in self._replicas()))
        try:
            collection = await asyncio.to_thread(read_collection, self._options.file)
            self._check_addresses(collection)
        except InputError as error:
            self._tell(str(error))
        else:
            self._collections[collection.version] = collection
            await self._move_to(collection)
        # Until a version has answered, callers are asked to try again.
        self._model.was_tried = self._model.was_tried or self.is_ready
        answering = self._model.available[-1].number if self._model.available else None
        if answering is not None:
            await self._prove_all(self._collections[answering])
        for partition in self._partitions:
            able = sum(replica.may_answer(answering or 0) for replica in partition.replicas)
            self._of_partitions.set_replicas(partition.number, able)

    async def poll(self, seconds: float) -> None:
        """Refreshes repeatedly until it is cancelled.

        Args:
            seconds: Time in seconds between two refreshes.
        """
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except Exception as error:
                self._log.event("refresh_failed", error=f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        """Waits for requests in progress, removes all versions and closes all connections."""
        for version in self._model.available:
            await self._leave(version)
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await asyncio.gather(*(replica.close() for replica in self._replicas()))

    def _replicas(self) -> Iterator[Replica]:
        for partition in self._partitions:
            yield from partition.replicas

    def _check_addresses(self, collection: Collection) -> None:
        expected, given = len(collection.partitions), len(self._partitions)
        if expected != given:
            raise InputError(
                f"Version {collection.version} of the collection has {expected} partitions; give the servers "
                f"of each with --partition. Received: those of {given}."
            )

    async def _move_to(self, collection: Collection) -> None:
        """Lets a version answer if all partitions have it."""
        number = collection.version
        if [version.number for version in self._model.available] == [number]:
            return
        version = self._model.versions.get(number)
        if version is None or version.state == State.END:
            version = Version(number, self._options.file, State.LOADING)
        started = time.perf_counter()
        await self._prove_all(collection)
        if reason := self._why_not(number):
            # A server that is still loading reports that. One that failed has reported the reason.
            version.state = State.LOADING
            version.error = RequestError(Code.UNAVAILABLE, reason)
            self._model.versions[number] = version
            self._tell(f"Version {number} of the collection cannot answer yet: {reason}")
            self._on_change()
            return
        try:
            replicas = (
                next(replica for replica in partition.replicas if replica.may_answer(number))
                for partition in self._partitions
            )
            told = await asyncio.gather(*(each.signature_defs(number, _CALL_SECONDS) for each in replicas))
            definitions = same_signatures(told)
            session = CollectionSession(definitions, self._options.partial)
        except RequestError as error:
            version.state, version.error = State.END, error
            self._model.versions[number] = version
            self._tell(f"Version {number} of the collection is refused: {error.message}")
            return
        version.servable = CollectionServable(  # type: ignore[assignment]
            *(self._options.name, number, session),
            CollectionSearch(self._partitions, number, definitions, self._pool.run, self._of_partitions),
            self._options.timeout_seconds,
        )
        version.state, version.error = State.AVAILABLE, None
        before = self._model.available
        self._model.versions[number] = version
        self._metrics.observe_load(self._options.name, True, time.perf_counter() - started)
        self._changed(version)
        self._last_reason = ""
        for old in before:
            if old.number != number:
                task = asyncio.create_task(self._leave(old))
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    def _why_not(self, number: int) -> str:
        """Returns why a version cannot answer yet, or "" if it can."""
        reasons = []
        for partition in self._partitions:
            if any(replica.may_answer(number) for replica in partition.replicas):
                continue
            told = [self._reason(replica, number) for replica in partition.replicas]
            reasons.append(f"partition {partition.number}: {'; '.join(told)}")
        return ". ".join(reasons)

    @staticmethod
    def _reason(replica: Replica, number: int) -> str:
        if not replica.versions:
            return f"{replica.address} does not answer"
        if number in replica.refused:
            return f"{replica.address} {replica.refused[number]}"
        known = replica.versions.get(number)
        if known is None:
            return f"{replica.address} has versions {sorted(replica.versions)}"
        return f"{replica.address} is loading it{': ' + known.error if known.error else ''}"

    async def _prove_all(self, collection: Collection) -> None:
        await asyncio.gather(
            *(
                self._prove(replica, partition.number, collection)
                for partition in self._partitions
                for replica in partition.replicas
            )
        )

    async def _prove(self, replica: Replica, partition: int, collection: Collection) -> None:
        """Asks a server for its fingerprints, until it has proved to have the version."""
        number = collection.version
        known = replica.versions.get(number)
        if known is None or not known.is_available or number in replica.proved:
            return
        entry = collection.partitions[partition]
        expected = dict(
            zip(_IDENTITY, (collection.encoder, collection.quantizer, entry.fingerprint), strict=True)
        )
        try:
            told = await replica.predict("look_up", _NOTHING, _IDENTITY, number, _CALL_SECONDS)
        except RequestError as error:
            replica.refused[number] = f"does not say what it holds ({error.message})"
            return
        for name, fingerprint in expected.items():
            received = told[name][0].decode(errors="replace")
            if received != fingerprint:
                replica.refused[number] = (
                    f"holds another {name} than the collection's (fingerprint {received[:12]!r} instead of "
                    f"{fingerprint[:12]!r})"
                )
                return
        replica.refused.pop(number, None)
        replica.proved.add(number)

    async def _leave(self, version: Version) -> None:
        servable, version.servable = version.servable, None
        version.state = State.UNLOADING
        self._changed(version)
        if servable is not None and (left := await servable.drain(self._drain_seconds)):
            self._log.event("cancelled", model=self._options.name, version=version.number, requests=left)
        version.state = State.END
        self._collections.pop(version.number, None)
        self._changed(version)

    def _changed(self, version: Version) -> None:
        name = self._options.name
        self._metrics.set_state(name, version.number, version.state.name)
        self._metrics.set_newest(name, [other.number for other in self._model.available])
        self._log.event("version", model=name, version=version.number, state=version.state.name)
        self._on_change()

    def _tell(self, reason: str) -> None:
        """Logs why nothing changes, once per reason."""
        if reason != self._last_reason:
            self._last_reason = reason
            self._log.event("collection", error=reason)
