"""The clients: `Client` for programs that wait, `AsyncClient` for programs on an event loop.

They send TensorFlow Serving's messages over gRPC, and know neither how a server finds documents nor what
a model looks like beyond its signatures.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc

from .messages import MESSAGES, Value, fill_tensor
from .results import ClientError, Prediction, SearchResult, read_prediction, read_results, read_status

PREDICT = "/tensorflow.serving.PredictionService/Predict"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Behind a name with several addresses, all of them answer; gRPC's own choice is the first that does.
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.dns_min_time_between_resolutions_ms", 10_000),
)
_OUTPUTS = ("document_ids", "scores", "titles", "languages")
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 2.0


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """How to search, for all queries of a call; what is None is left to the model.

    Attributes:
        k_prime: Tokens that each query token retrieves.
        top_k: Documents to return.
        leaves: Leaves of the index to search, 0 for the index's own rule.
        imputation: `top_k_prime`, `zero`, `constant` or `none`.
        constant: The similarity imputed under `constant`.
        languages: Only documents in one of these.
        rescore: Candidates to rank again by exact f_ColBERT, 0 for none; for an index that keeps vectors.
        token_weights: What query tokens count for: `none` (all the same) or `idf` (by how rare they are).
        filter: Conditions on fields that documents must meet, such as `year>=2020;source=wiki|faq`.
        min_score: Documents with a lower score are not returned.
        alpha: What BM25 counts for in the score, from 0 (XTR) to 1; for an index with BM25.
        fusion: How the two scores are made one: `weighted` or `rrf`.
    """

    k_prime: int | None = None
    top_k: int | None = None
    leaves: int | None = None
    imputation: str | None = None
    constant: float | None = None
    languages: Sequence[str] | None = None
    rescore: int | None = None
    token_weights: str | None = None
    filter: str | None = None
    min_score: float | None = None
    alpha: float | None = None
    fusion: str | None = None

    def inputs(self, queries: int = 1) -> dict[str, Value]:
        """Returns what is set, as a signature's inputs: the same value for each of this many queries.

        Servers that join the requests of several callers want it written out.
        """
        given = {name: value for name, value in vars(self).items() if value is not None}
        for name in ("constant", "min_score", "alpha"):
            if name in given:
                given[name] = float(given[name])
        if "languages" in given:
            given["languages"] = ",".join(given["languages"])
        return {name: [value] * queries for name, value in given.items()}


def tls_credentials(
    ca: bytes | None = None, key: bytes | None = None, certificate: bytes | None = None
) -> grpc.ChannelCredentials:
    """Returns credentials for TLS.

    Args:
        ca: Authorities to trust, PEM; the system's if None.
        key: The client's own key, for servers that ask for a certificate.
        certificate: The client's certificate.
    """
    return grpc.ssl_channel_credentials(ca, key, certificate)


class BaseClient:
    """What the clients share, which is all but waiting: settings, messages, and when a call is tried again.

    Args:
        target: `host:port`.
        model: The model's name.
        version: A version of it, the latest if None.
        label: A version by its label instead.
        timeout: Seconds that a call may take, all attempts together.
        attempts: How often a call is tried while the server is UNAVAILABLE; nothing else is retried.
        credentials: TLS (see `tls_credentials`); None for plain text.
        token: Bearer token.
        batch_size: Queries sent in one message.
    """

    def __init__(
        self,
        target: str,
        model: str = "default",
        *,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 10.0,
        attempts: int = 5,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | None = None,
        batch_size: int = 64,
    ) -> None:
        if version is not None and label is not None:
            raise ValueError("A client asks for a version or a label, not both.")
        self.target = target
        self._model = (model, version, label)
        self._timeout = timeout
        self._attempts = attempts
        self._credentials = credentials
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._batch_size = batch_size

    def _open_channel(self, library: Any) -> None:
        """Makes the calls, with gRPC's own or its asyncio functions."""
        if self._credentials is None:
            self._channel = library.insecure_channel(self.target, _CHANNEL_OPTIONS)
        else:
            self._channel = library.secure_channel(self.target, self._credentials, _CHANNEL_OPTIONS)
        self._calls = {method: self._channel.unary_unary(method) for method in (PREDICT, STATUS)}

    def predict_request(
        self, signature: str, inputs: Mapping[str, Value], outputs: Sequence[str] = ()
    ) -> bytes:
        """Returns the message that runs a signature, for some of its outputs or for all.

        Args:
            signature: Its name.
            inputs: Values by input name.
            outputs: Names of the outputs to return; all if empty.

        Returns:
            A serialised `PredictRequest`.
        """
        request = MESSAGES["PredictRequest"](output_filter=outputs)
        self._fill(request.model_spec)
        request.model_spec.signature_name = signature
        for name, value in inputs.items():
            fill_tensor(request.inputs[name], value)
        serialized: bytes = request.SerializeToString()
        return serialized

    def status_request(self) -> bytes:
        """Returns the message that asks for the states of the versions."""
        request = MESSAGES["GetModelStatusRequest"]()
        self._fill(request.model_spec)
        serialized: bytes = request.SerializeToString()
        return serialized

    def _fill(self, spec: Any) -> None:
        spec.name, version, label = self._model
        if version is not None:
            spec.version.value = version
        if label is not None:
            spec.version_label = label

    def searches(
        self,
        queries: Sequence[str],
        options: SearchOptions | None,
        signature: str | None,
        contents: Sequence[str] = (),
    ) -> Iterator[tuple[Sequence[str], bytes]]:
        """Yields the messages for some queries, `batch_size` queries per message.

        Args:
            queries: What to search for.
            options: Parameters of the search; the model's defaults if None.
            signature: As for `Client.search_batch`.
            contents: As for `Client.search_batch`.

        Yields:
            The queries of a message, and the message.
        """
        options = options or SearchOptions()
        signature = signature or ("search" if options.inputs() else "serving_default")
        for start in range(0, len(queries), self._batch_size):
            part = queries[start : start + self._batch_size]
            inputs = {"query": list(part), **options.inputs(len(part))}
            # What is not asked for is not looked up, nor sent.
            outputs = (*_OUTPUTS, *contents) if signature == "search" else ()
            yield part, self.predict_request(signature, inputs, outputs)

    def _begin(self, method: str, data: bytes, deadline: float) -> Any:
        """Sends a message, with what is left of the call's time; returns the answer, or what awaits it."""
        timeout = max(0.0, deadline - time.monotonic())
        return self._calls[method](data, timeout=timeout, metadata=self._metadata)

    def delay(self, error: grpc.RpcError, attempt: int, deadline: float) -> float:
        """Returns how long to wait before the next attempt.

        Args:
            error: What the call ended with.
            attempt: How many attempts there were before this one.
            deadline: When the call must be over, by `time.monotonic`.

        Returns:
            Seconds, longer with every attempt and partly random.

        Raises:
            ClientError: There is no next attempt: it is not UNAVAILABLE, or no time or attempts are left.
        """
        delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2**attempt) * random.uniform(0.5, 1.0)  # noqa: S311
        may_pass = error.code() is grpc.StatusCode.UNAVAILABLE and attempt + 1 < self._attempts
        if not may_pass or time.monotonic() + delay >= deadline:
            raise ClientError(error.code(), error.details() or "no reason was given") from None
        return delay


class Client(BaseClient):
    """Asks a server, and waits for its answers. May be shared by threads; the connection is kept.

    Args:
        target: `host:port`.
        model: The model's name.
        options: Those of `BaseClient`: version or label, deadline, attempts, TLS, token, batch size.

    Example:
        >>> client = Client("127.0.0.1:8500", timeout=2.0)
        >>> client.search("highest mountain", SearchOptions(top_k=3)).documents[0].title
    """

    def __init__(self, target: str, model: str = "default", **options: Any) -> None:
        super().__init__(target, model, **options)
        self._open_channel(grpc)

    def search(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents for a query.

        Args:
            query: What to search for.
            options: Parameters of the search; the model's defaults if None.

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
            queries: What to search for.
            options: Parameters of the search, the same for all queries; the model's defaults if None.
            signature: `search` for titles and languages, `explain` for matches as well; by default
                `serving_default`, the fastest, or `search` if there are options.
            contents: What else `search` should return of what the model keeps: `texts`, `fields`.

        Returns:
            One result per query, in their order.

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
        """Finds documents, with their texts and which token answered which.

        Args:
            query: What to search for.
            options: Parameters of the search; the model's defaults if None.

        Returns:
            The documents, best first, each with its `matches`.

        Raises:
            ClientError: The server refused the call or did not answer in time.
        """
        return self.search_batch([query], options, "explain")[0]

    def predict(self, signature: str, inputs: Mapping[str, Value]) -> Prediction:
        """Runs any signature.

        Args:
            signature: Its name, such as `encode_query`.
            inputs: Values by the signature's input names.

        Returns:
            The outputs by name, and the version that answered.

        Raises:
            ClientError: The server refused the call or did not answer in time.

        Example:
            >>> client.predict("encode_query", {"query": ["highest mountain"]}).outputs["encodings"].shape
        """
        return read_prediction(self._call(PREDICT, self.predict_request(signature, inputs)))

    def status(self) -> dict[int, str]:
        """Returns the state of each version, such as `{3: "AVAILABLE"}`."""
        return read_status(self._call(STATUS, self.status_request()))

    def close(self) -> None:
        """Ends the connection."""
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


class AsyncClient(BaseClient):
    """`Client` for asyncio: the same methods, to be awaited. Belongs to the event loop it was made in."""

    def __init__(self, target: str, model: str = "default", **options: Any) -> None:
        super().__init__(target, model, **options)
        self._open_channel(grpc.aio)

    async def search(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents for a query.

        Args:
            query: What to search for.
            options: Parameters of the search; the model's defaults if None.

        Returns:
            The documents, best first.

        Raises:
            ClientError: The server refused the call or did not answer in time.

        Example:
            >>> result = await client.search("highest mountain", SearchOptions(top_k=3))
            >>> [hit.id for hit in result.documents]
        """
        return (await self.search_batch([query], options))[0]

    async def search_batch(
        self,
        queries: Sequence[str],
        options: SearchOptions | None = None,
        signature: str | None = None,
        contents: Sequence[str] = (),
    ) -> list[SearchResult]:
        """Finds documents for many queries.

        Args:
            queries: What to search for.
            options: Parameters of the search, the same for all queries; the model's defaults if None.
            signature: As for `Client.search_batch`.
            contents: As for `Client.search_batch`.

        Returns:
            One result per query, in their order.

        Raises:
            ClientError: The server refused a call or did not answer in time.
        """
        results: list[SearchResult] = []
        for part, data in self.searches(queries, options, signature, contents):
            results += read_results(part, read_prediction(await self._call(PREDICT, data)))
        return results

    async def explain(self, query: str, options: SearchOptions | None = None) -> SearchResult:
        """Finds documents, with their texts and which token answered which.

        Args:
            query: What to search for.
            options: Parameters of the search; the model's defaults if None.

        Returns:
            The documents, best first, each with its `matches`.

        Raises:
            ClientError: The server refused the call or did not answer in time.
        """
        return (await self.search_batch([query], options, "explain"))[0]

    async def predict(self, signature: str, inputs: Mapping[str, Value]) -> Prediction:
        """Runs any signature.

        Args:
            signature: Its name, such as `encode_query`.
            inputs: Values by the signature's input names.

        Returns:
            The outputs by name, and the version that answered.

        Raises:
            ClientError: The server refused the call or did not answer in time.

        Example:
            >>> answer = await client.predict("encode_query", {"query": ["highest mountain"]})
            >>> answer.outputs["encodings"].shape
        """
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
        deadline = time.monotonic() + self._timeout
        attempt = 0
        while True:
            try:
                answer: bytes = await self._begin(method, data, deadline)
                return answer
            except grpc.RpcError as error:
                await asyncio.sleep(self.delay(error, attempt, deadline))
            attempt += 1
