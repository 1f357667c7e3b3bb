"""Keeps the configured models loaded: watches their directories, and loads, warms up and unloads versions.

Versions are loaded one at a time, and the version that one replaces is freed before the next is loaded. So
memory never holds more than the wanted versions and one more.
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
    """The models of a server. Use it only from the event loop; it reads files and loads on a thread.

    Args:
        pool: Threads that run the models.
        batching: Limits of batches.
        session_options: How TensorFlow runs the models.
        metrics: Metrics of loads and batches.
        log: Log for changes of state.
        on_change: Called after the state of a version has changed.
        drain_seconds: How long to wait for requests in progress before a version is unloaded.
        require_marker: Whether to ignore versions without a marker file, which is written last.
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
        # A single thread, so that versions are loaded one at a time.
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="loader")

    @property
    def is_ready(self) -> bool:
        """Whether every configured model has an available version."""
        return all(model.loaded for model in self.models.values())

    @property
    def _serves(self) -> bool:
        """Whether requests are being answered. False during start-up, even if a model is loaded already."""
        return self._has_started and any(model.loaded for model in (*self.models.values(), *self._leaving))

    @property
    def depth(self) -> int:
        """Rows of all models that wait for a batch."""
        versions = (version for model in self.models.values() for version in model.loaded)
        return sum(version.servable.depth for version in versions if version.servable is not None)

    @contextmanager
    def lease(self, name: str, version: int | None = None, label: str | None = None) -> Iterator[Servable]:
        """Finds the version that answers a request and keeps it loaded until the request ends.

        Args:
            name: Name of the model.
            version: Version of the model. Defaults to the latest.
            label: Label of the version, instead of its number.

        Yields:
            The loaded version.

        Raises:
            RequestError: No such model, version or label answers.
        """
        if label is not None:
            version = self.labelled(name, label)
        model = self.models.get(name)
        if model is None:
            what = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise not_found(f"Servable not found for request: {what}")
        with model.find(version).lease() as servable:
            yield servable

    def states(self, name: str) -> list[Version]:
        """Returns all known versions of a model, lowest first."""
        model = self.models.get(name)
        return [] if model is None else [model.versions[n] for n in sorted(model.versions)]

    def labelled(self, name: str, label: str) -> int:
        """Returns the version that has a label.

        Args:
            name: Name of the model.
            label: The label.

        Returns:
            The version.

        Raises:
            RequestError: INVALID_ARGUMENT, if the model has no such label.
        """
        number = self.models[name].config.labels.get(label) if name in self.models else None
        if number is None:
            raise invalid_argument(f"Unrecognized servable version label: {label}")
        return number

    async def apply(self, configs: Sequence[ModelConfig]) -> None:
        """Replaces the configuration and waits until it is applied, even if the caller leaves.

        Args:
            configs: One configuration per model.

        Raises:
            RequestError: A label would move to a version that is not available, in which case nothing
                changes, or a new model or base path has no version that can be loaded.
        """
        # The task of a call is cancelled at its deadline, which would leave a version half loaded.
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
        """Replaces the configuration. The next refresh applies it.

        Args:
            configs: One configuration per model.

        Returns:
            The names of models that are new or have another base path.
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
        """Checks the directories once, then loads and unloads versions accordingly."""
        async with self._refreshing:
            while self._leaving:
                for version in self._leaving.pop().loaded:
                    await self._unload(version)
            for model in list(self.models.values()):
                await self._refresh_model(model)
            self._has_started = True

    async def poll(self, seconds: float) -> None:
        """Refreshes every `seconds` until it is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except Exception as error:  # a file system may fail only for a while
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
        # If a version is refused, an older one may be wanted instead, so ask again after each load.
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
                lambda: load_session(path, self._session_options, while_serving=self._serves)
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
        # A call without a deadline must not block later versions, or a rollback.
        if left := await servable.drain(self._drain_seconds):
            self._log.event("cancelled", model=servable.name, version=version.number, requests=left)
        await self._on_loader(servable.close)
        version.state = State.END
        self._changed(servable.name, version)

    def _changed(self, name: str, version: Version) -> None:
        model = self.models.get(name)
        # If the old and the new base path both have this version, the metric is that of the new one.
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
