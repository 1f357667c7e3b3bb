"""The server as a whole: its options, and how its parts are connected, started and stopped."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from serving.server.collection.manager import CollectionManager, CollectionOptions
from serving.server.models.config import ModelConfig, read_model_configs
from serving.server.models.manager import ModelManager
from serving.server.predictor import Predictor
from serving.server.requests.batching import BatchingOptions
from serving.server.requests.limits import Admission, Limits
from serving.server.requests.metrics import Metrics
from serving.server.requests.observer import RequestLog, RequestObserver
from serving.server.requests.worker_pool import WorkerPool
from serving.server.status import RequestError
from serving.server.wire.credentials import Access, BearerTokens, Certificates, TlsFiles, Watched
from serving.server.wire.grpc_server import GrpcServer
from serving.server.wire.grpc_services import ModelService, PredictionService
from serving.server.wire.http_server import HttpServer
from serving.server.wire.playground import Playground
from serving.server.wire.rest_api import RestApi, render_error
from serving.server.wire.search_api import SearchApi
from xtr_tf.errors import InputError
from xtr_tf.runtime import SessionOptions

_CREDENTIAL_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Options of a server.

    Attributes:
        models: Models to serve.
        model_config_file: File that `models` was read from, to watch for changes. None watches nothing.
        host: Address to bind. The default accepts only local clients.
        port: gRPC port. 0 chooses a free one.
        rest_port: REST port. 0 chooses a free one, None turns REST off.
        require_marker: Whether to ignore versions without the file `_SUCCESS`, which is written last.
        poll_seconds: Seconds between checks for new versions. 0 checks only once.
        workers: Concurrent model calls. 0 runs one per core.
        batching: Limits of batches.
        session: How TensorFlow runs the models.
        limits: Limits of requests.
        rest_timeout_seconds: Timeout of REST requests, which have no deadline of their own.
        drain_seconds: Time to finish requests after SIGTERM, or before a version is unloaded.
        log_sampling: Fraction of requests to log.
        tls: Certificates, or None for plain text.
        token_file: File with the bearer tokens of callers, or None to accept all callers.
        admin_token_file: File with the bearer tokens that may change the configuration. Without it, all
            callers may if the server accepts only local clients, and otherwise none.
        strict_json: Whether REST answers have `null` for numbers that are not finite.
        prefer_tensor_content: Whether to return numbers as raw bytes.
        playground: Whether to serve a page for trying queries.
        collection: A collection to serve instead of models.

    Raises:
        InputError: A value is out of range, or the playground is on while REST is off.
    """

    models: tuple[ModelConfig, ...]
    model_config_file: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8500
    rest_port: int | None = 8501
    require_marker: bool = False
    poll_seconds: float = 1.0
    workers: int = 0
    batching: BatchingOptions = dataclasses.field(default_factory=BatchingOptions)
    session: SessionOptions = dataclasses.field(default_factory=lambda: SessionOptions(spinning=False))
    limits: Limits = dataclasses.field(default_factory=Limits)
    rest_timeout_seconds: float = 30.0
    drain_seconds: float = 30.0
    log_sampling: float = 0.01
    tls: TlsFiles | None = None
    token_file: Path | None = None
    admin_token_file: Path | None = None
    strict_json: bool = False
    prefer_tensor_content: bool = False
    playground: bool = False
    collection: CollectionOptions | None = None

    def __post_init__(self) -> None:
        for name in ("port", "rest_port"):
            port = getattr(self, name)
            if port is not None and not 0 <= port <= 65535:
                raise InputError(f"`{name}` must be between 0 and 65535. Received: {port}.")
        for name in ("poll_seconds", "workers", "drain_seconds"):
            if getattr(self, name) < 0:
                raise InputError(f"`{name}` must not be negative. Received: {getattr(self, name)}.")
        if self.rest_timeout_seconds <= 0:
            raise InputError(
                f"`rest_timeout_seconds` must be positive. Received: {self.rest_timeout_seconds}."
            )
        if self.playground and self.rest_port is None:
            raise InputError("The playground is served over REST; give a REST port. Received: -1.")


class ModelServer:
    """Serves models over gRPC and REST. Everything except model calls and file access runs on one event loop.

    Args:
        options: Options of the server.
        log: Stream for the log. Defaults to standard error.

    Example:
        >>> server = ModelServer(ServerOptions((ModelConfig("default", Path("models/atlas")),)))
        >>> asyncio.run(server.run(print))
    """

    def __init__(self, options: ServerOptions, log: TextIO | None = None) -> None:
        self.options = options
        self.port = 0
        self.rest_port: int | None = None
        self._access = Access(
            _read_tokens(options.token_file),
            _read_tokens(options.admin_token_file),
            open_reload=_is_loopback(options.host),
        )
        self._certificates = Certificates(options.tls) if options.tls else None
        self._log = RequestLog(options.log_sampling, log)
        self._metrics = Metrics()
        self._admission = Admission(options.limits.max_concurrent, options.limits.max_total_bytes)
        self._stopping = asyncio.Event()

    async def run(self, announce: Callable[[ModelServer], None] = lambda server: None) -> None:
        """Serves until SIGTERM or SIGINT.

        Args:
            announce: Called once, after the ports were opened and the server tried to load all models.
        """
        await self.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        try:
            await self._load_models()
            announce(self)
            polling = [asyncio.create_task(task) for task in (*self._polling(), self._poll_credentials())]
            await self._stopping.wait()
            for task in polling:
                task.cancel()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Builds the parts and opens the ports, but does not load models yet."""
        options = self.options
        self._pool = WorkerPool(options.workers)
        self._manager = self._make_manager()
        predictor = Predictor(self._manager, options.limits)
        observer = RequestObserver(self._admission, self._metrics, self._log, _Names(self._manager))
        self._grpc = GrpcServer(
            PredictionService(predictor, options.prefer_tensor_content),
            ModelService(predictor, self._manager.apply),
            *(observer, self._access, options.limits),
            self._certificates.grpc_credentials() if self._certificates else None,
        )
        self._watch_queues()
        self.port = await self._grpc.start(options.host, options.port)
        self._http: HttpServer | None = None
        if options.rest_port is not None:
            own: list[SearchApi | Playground] = [self._search_api(predictor)]
            own += [Playground(lambda: self._manager.models)] if options.playground else []
            api = RestApi(
                *(predictor, observer, self._access, self._metrics, options.rest_timeout_seconds),
                options.strict_json,
                {path: page for part in own for path, page in part.pages().items()},
                {path: route for part in own for path, route in part.routes().items()},
            )
            context = self._certificates.context if self._certificates else None
            self._http = HttpServer(api.handle, render_error, options.limits, context)
            self.rest_port = await self._http.start(options.host, options.rest_port)
        self._log.event("started", host=options.host, port=self.port, rest_port=self.rest_port)

    def _search_api(self, predictor: Predictor) -> SearchApi:
        asks_for_tokens = self.options.token_file is not None
        return SearchApi(predictor, lambda: self._manager.models, self.options.limits, asks_for_tokens)

    def _make_manager(self) -> ModelManager | CollectionManager:
        options = self.options
        if options.collection is not None:
            return CollectionManager(
                *(options.collection, self._pool, self._metrics, self._log),
                *(self._on_change, options.drain_seconds),
            )
        manager = ModelManager(
            *(self._pool, options.batching, options.session, self._metrics, self._log),
            *(self._on_change, options.drain_seconds, options.require_marker),
        )
        # Before the first request, so that a model that is still loading is unavailable, not unknown.
        manager.configure(options.models)
        return manager

    async def stop(self) -> None:
        """Refuses new requests, waits for those in progress and frees the models."""
        self._log.event("draining", requests=self._admission.in_progress)
        grace = self.options.drain_seconds
        stopping = asyncio.gather(
            self._grpc.stop(grace), self._http.stop(grace) if self._http else asyncio.sleep(0)
        )
        while self._admission.in_progress and not stopping.done():
            await asyncio.sleep(0.01)
        # Otherwise streams that watch the health would delay this for the whole grace period.
        await self._grpc.stop(0.1)
        await stopping
        await self._manager.close()
        self._pool.close()
        self._log.event("stopped")
        self._log.close()

    def describe_models(self) -> str:
        """Returns a readable list of the models and their available versions."""
        return ", ".join(
            f"{name} ({_versions([version.number for version in model.available])})"
            for name, model in self._manager.models.items()
        )

    async def _load_models(self) -> None:
        await self._manager.refresh()
        if not self._manager.is_ready:
            # Keep running: the status shows why, and a good version may still appear.
            self._log.event("not_available", models=self.describe_models())

    def _polling(self) -> list[Coroutine[Any, Any, None]]:
        if not self.options.poll_seconds:
            return []
        polls = [self._manager.poll(self.options.poll_seconds)]
        if self.options.model_config_file is not None:
            polls.append(self._poll_config())
        return polls

    async def _poll_config(self) -> None:
        """Applies the model config file when its content changes, and retries while it is refused."""
        file = self.options.model_config_file
        assert file is not None
        known: list[ModelConfig] | None = list(self.options.models)
        refusal = ""
        while True:
            await asyncio.sleep(self.options.poll_seconds)
            try:
                configs = await asyncio.to_thread(read_model_configs, file)
                if configs != known:
                    known = None
                    await self._manager.apply(configs)
                    known = configs
                    self._log.event("config_applied", file=str(file))
                refusal = ""
            except (InputError, OSError, RequestError) as error:
                if str(error) != refusal:
                    refusal = str(error)
                    self._log.event("config_refused", error=refusal)

    async def _poll_credentials(self) -> None:
        """Reloads tokens and certificates when their files change, and ignores invalid files."""
        options = self.options
        watched: list[tuple[Watched, Callable[[], None]]] = []
        for file, tokens in (
            (options.token_file, self._access.tokens),
            (options.admin_token_file, self._access.admin_tokens),
        ):
            if file is not None:
                watched.append((Watched([file]), partial(_replace_tokens, tokens, file)))
        if options.tls is not None and self._certificates is not None:
            watched.append((Watched(options.tls.paths), self._certificates.reload))
        while watched:
            await asyncio.sleep(_CREDENTIAL_SECONDS)
            for files, reload in watched:
                if await asyncio.to_thread(files.changed):
                    try:
                        await asyncio.to_thread(reload)
                        self._log.event("credentials_reloaded")
                    except (InputError, OSError) as error:
                        self._log.event("credentials_refused", error=str(error))

    def _on_change(self) -> None:
        ready = self._manager.is_ready and not self._stopping.is_set()
        asyncio.get_running_loop().create_task(self._grpc.set_health(ready))

    def _watch_queues(self) -> None:
        self._metrics.watch(
            "requests_in_flight", "Requests in progress.", lambda: self._admission.in_progress
        )
        self._metrics.watch("queue_jobs", "Model calls that wait for a thread.", lambda: self._pool.depth)
        self._metrics.watch("queue_rows", "Rows that wait for a batch.", lambda: self._manager.depth)


def _read_tokens(file: Path | None) -> BearerTokens:
    return BearerTokens.read(file) if file is not None else BearerTokens()


def _replace_tokens(tokens: BearerTokens, file: Path) -> None:
    tokens.replace(BearerTokens.read(file))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _versions(numbers: list[int]) -> str:
    if not numbers:
        return "no version yet"
    return f"version {numbers[0]}" if len(numbers) == 1 else f"versions {', '.join(map(str, numbers))}"


class _Names:
    """The names of the currently configured models."""

    def __init__(self, manager: ModelManager | CollectionManager) -> None:
        self._manager = manager

    def __contains__(self, name: object) -> bool:
        return name in self._manager.models
