"""Keeps the configured models loaded: watches their directories, loads, warms up, swaps, unloads.

One version is loaded at a time, and what it replaces is freed before the next one is begun: at no
moment is more in memory than the wanted versions and one more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from serving.server.models.config import ModelConfig
from serving.server.models.directory import find_versions, fingerprint
from serving.server.models.loading import as_request_error, load_session
from serving.server.models.servable import Servable
from serving.server.models.versions import ModelVersions, Version
from serving.server.requests.batching import BatchingOptions
from serving.server.requests.metrics import Metrics
from serving.server.requests.observer import RequestLog
from serving.server.requests.worker_pool import WorkerPool
from serving.server.status import Code, RequestError, State, invalid_argument, not_found
from xtr_tf.runtime import SessionOptions

_T = TypeVar("_T")


class ModelManager:
    """The models of a server. Used only from the event loop; files and loading are on a thread.

    Args:
        pool: Threads that run the models.
        batching: Bounds of batches.
        session_options: How TensorFlow runs the models.
        metrics: Where loads and batches are counted.
        log: Where changes of state are written.
        on_change: Called after a version's state has changed.
        drain_seconds: How long requests in progress may hold a version that is to go.
        require_marker: Whether versions without a marker, which is written last, are ignored.
    """

    def __init__(
        self,
        pool: WorkerPool,
        batching: BatchingOptions,
        session_options: SessionOptions,
        metrics: Metrics,
        log: RequestLog,
        on_change: Callable[[], None] = lambda: None,
        drain_seconds: float = 30.0,
        require_marker: bool = False,
    ) -> None:
        self.models: dict[str, ModelVersions] = {}
        self._pool = pool
        self._batching = batching
        self._session_options = session_options
        self._metrics = metrics
        self._log = log
        self._on_change = on_change
        self._drain_seconds = drain_seconds
        self._require_marker = require_marker
        self._leaving: list[ModelVersions] = []
        self._applying: set[asyncio.Task[None]] = set()
        self._refreshing = asyncio.Lock()
        self._has_started = False
        # One thread: no two versions are ever loaded at the same time.
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="loader")

    @property
    def is_ready(self) -> bool:
        """Whether every configured model has a version that answers."""
        return all(model.loaded for model in self.models.values())

    @property
    def _serves(self) -> bool:
        """Whether requests are being answered: not while the server starts, though a model may be there."""
        return self._has_started and any(model.loaded for model in (*self.models.values(), *self._leaving))

    @property
    def depth(self) -> int:
        """Rows that wait for a batch, of all models."""
        versions = (version for model in self.models.values() for version in model.loaded)
        return sum(version.servable.depth for version in versions if version.servable is not None)

    @contextmanager
    def lease(self, name: str, version: int | None = None, label: str | None = None) -> Iterator[Servable]:
        """Finds the version that is to answer and keeps it loaded for the length of a request."""
        if label is not None:
            version = self.labelled(name, label)
        model = self.models.get(name)
        if model is None:
            what = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise not_found(f"Servable not found for request: {what}")
        with model.find(version).lease() as servable:
            yield servable

    def states(self, name: str) -> list[Version]:
        """Returns all versions of a model that are known, lowest first."""
        model = self.models.get(name)
        return [] if model is None else [model.versions[n] for n in sorted(model.versions)]

    def labelled(self, name: str, label: str) -> int:
        """Returns the version that a label stands for."""
        number = self.models[name].config.labels.get(label) if name in self.models else None
        if number is None:
            raise invalid_argument(f"Unrecognized servable version label: {label}")
        return number

    async def apply(self, configs: Sequence[ModelConfig]) -> None:
        """Replaces the configuration and waits until it is carried out, as it is even if the caller leaves.

        Raises:
            RequestError: A label would move to a version that does not answer (nothing is changed
                then), or a new model or base path has no version that can be loaded.
        """
        # A call's task ends with its deadline: what it had begun to load would stay half loaded.
        task = asyncio.create_task(self._apply(configs))
        self._applying.add(task)
        task.add_done_callback(self._applying.discard)
        await asyncio.shield(task)

    async def _apply(self, configs: Sequence[ModelConfig]) -> None:
        for config in configs:
            if config.name in self.models:
                self.models[config.name].check_labels(config)
        added = self.configure(configs)
        await self.refresh()
        absent = [name for name in added if name in self.models and not self.models[name].available]
        if absent:
            raise RequestError(
                Code.UNKNOWN, f"Some models did not become available: {{{', '.join(sorted(absent))}}}"
            )

    def configure(self, configs: Sequence[ModelConfig]) -> list[str]:
        """Replaces the configuration, to be carried out by the next refresh.

        Returns:
            The models that are new, or come from another base path.
        """
        configured: dict[str, ModelVersions] = {}
        added = []
        for config in configs:
            model = self.models.get(config.name)
            if model is None or model.config.base_path != config.base_path:
                model = ModelVersions(config, before=model)
                added.append(config.name)
            model.config = config
            configured[config.name] = model
        self._leaving.extend(model for name, model in self.models.items() if name not in configured)
        self.models = configured
        return added

    async def refresh(self) -> None:
        """Looks at the disk once and does what follows from it."""
        async with self._refreshing:
            while self._leaving:
                for version in self._leaving.pop().loaded:
                    await self._unload(version)
            for model in list(self.models.values()):
                await self._refresh_model(model)
            self._has_started = True

    async def poll(self, seconds: float) -> None:
        """Refreshes until it is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except Exception as error:  # a disk that fails today may answer tomorrow
                self._log.event("refresh_failed", error=f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        """Drains and frees every version."""
        await asyncio.gather(*self._applying, return_exceptions=True)
        async with self._refreshing:
            for model in (*self.models.values(), *self._leaving):
                for version in model.loaded:
                    await self._unload(version)
        self._loader.shutdown()

    async def _refresh_model(self, model: ModelVersions) -> None:
        found = await self._on_loader(lambda: find_versions(model.config.base_path, self._require_marker))
        for number in model.forget(found):
            self._metrics.forget_version(model.config.name, number)
        await self._retry_broken(model, found)
        # Refusing a version may bring up an older one, so the list is made again after each load.
        while numbers := model.to_load(found):
            await self._load(model, numbers[-1], found[numbers[-1]])
            for version in model.to_unload(found):
                await self._unload(version)
        for version in model.to_unload(found):
            await self._unload(version)
        model.was_tried = True

    async def _retry_broken(self, model: ModelVersions, found: dict[int, Path]) -> None:
        for number in model.worth_retrying(found):
            version = model.versions[number]
            files = await self._on_loader(lambda version=version: fingerprint(version.path))  # type: ignore[misc]
            if version.may_retry(files):
                await self._load(model, number, version.path)

    async def _load(self, model: ModelVersions, number: int, path: Path) -> None:
        name = model.config.name
        version = model.versions[number] = Version(number, path, State.LOADING)
        self._changed(name, version)
        started = time.perf_counter()
        files = await self._on_loader(lambda: fingerprint(path))
        try:
            session, warmed = await self._on_loader(
                lambda: load_session(path, self._session_options, beside_others=self._serves)
            )
        except Exception as error:
            version.refuse(as_request_error(error), files)
        else:
            version.servable = Servable(
                *(name, number, session, self._pool, self._batching), self._metrics.batch_observer(name)
            )
            version.state = State.AVAILABLE
            self._log.event("warm_up", model=name, version=number, requests=warmed)
        self._metrics.observe_load(name, version.error is None, time.perf_counter() - started)
        self._changed(name, version)

    async def _unload(self, version: Version) -> None:
        servable, version.servable = version.servable, None
        assert servable is not None
        version.state = State.UNLOADING
        self._changed(servable.name, version)
        # A call without a deadline must not hold up every later version, and a rollback with them.
        if left := await servable.drain(self._drain_seconds):
            self._log.event("cancelled", model=servable.name, version=version.number, requests=left)
        await self._on_loader(servable.close)
        version.state = State.END
        self._changed(servable.name, version)

    def _changed(self, name: str, version: Version) -> None:
        model = self.models.get(name)
        # Of two versions with one number, from the old base path and the new, the metric is the new one's.
        if model is None or model.versions.get(version.number, version) is version:
            self._metrics.set_state(name, version.number, version.state.name)
        self._metrics.set_newest(name, [other.number for other in model.loaded] if model else [])
        fields = {"model": name, "version": version.number, "state": version.state.name}
        if version.error is not None:
            fields |= {"code": version.error.code.name, "error": version.error.message}
        self._log.event("version", **fields)
        self._on_change()

    async def _on_loader(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._loader, call)
