"""What `Client` and `AsyncClient` share: options, messages, and when to retry a call.

Messages are TensorFlow Serving's, sent over gRPC. This folder does not know how a server finds documents,
and knows a model only by its signatures.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc

from .messages import MESSAGES, Value, fill_tensor
from .results import ClientError

PREDICT = "/tensorflow.serving.PredictionService/Predict"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Use all addresses behind a name. By default, gRPC uses only the first that answers.
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.dns_min_time_between_resolutions_ms", 10_000),
)
_OUTPUTS = ("document_ids", "scores", "titles", "languages")
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 2.0


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Search parameters for all queries of a call. The model's default applies where a value is None.

    Attributes:
        k_prime: Document tokens that each query token retrieves.
        top_k: Documents to return per query.
        leaves: Leaves of the index to search. 0 lets the index choose.
        imputation: How missing similarities are filled in: `top_k_prime`, `zero`, `constant` or `none`.
        constant: Similarity to impute if `imputation` is `constant`.
        languages: Return only documents in these languages.
        rescore: Candidates to rank again by exact f_ColBERT, 0 for none. Needs an index that keeps vectors.
        token_weights: Weights of query tokens: `none` (all equal) or `idf` (rare tokens count more).
        filter: Conditions on document fields, such as `year>=2020;source=wiki|faq`.
        min_score: Lowest score of a document to return.
        alpha: Weight of BM25 in the score, from 0 (only XTR) to 1. Needs an index with BM25.
        fusion: How to combine the two scores: `weighted` or `rrf`.

    Example:
        >>> SearchOptions(top_k=3, languages=["en", "de"], filter="year>=2020")
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
        """Returns the parameters that are set as inputs of a signature.

        Args:
            queries: Number of queries in the call. Every value is repeated for each of them, because servers
                that batch the requests of several callers need one value per query.

        Returns:
            A list of `queries` equal values for each parameter.
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
        ca: Certificate authorities to trust (PEM). Defaults to the system's.
        key: Private key of the client (PEM), for servers that require client certificates.
        certificate: Certificate of the client (PEM).

    Returns:
        Credentials to pass to a client as `credentials`.

    Example:
        >>> client = Client("search.example:443", credentials=tls_credentials(Path("ca.pem").read_bytes()))
    """
    return grpc.ssl_channel_credentials(ca, key, certificate)


class BaseClient:
    """Base class of the clients. They differ only in how they wait.

    Args:
        target: `host:port` of the server.
        model: Name of the model.
        version: Version of the model. Defaults to the latest.
        label: Label of the version, instead of its number.
        timeout: Seconds that a call may take, including retries.
        attempts: How many times to try a call while the server is UNAVAILABLE. Other errors are not retried.
        credentials: TLS credentials (see `tls_credentials`). None sends plain text.
        token: Bearer token.
        batch_size: Largest number of queries per message.

    Raises:
        ValueError: Both `version` and `label` are given.
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
            raise ValueError(
                f"Choose a version or a label, not both. Received: version {version}, label {label!r}."
            )
        self.target = target
        self._model = (model, version, label)
        self._timeout = timeout
        self._attempts = attempts
        self._credentials = credentials
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._batch_size = batch_size

    def _open_channel(self, library: Any) -> None:
        """Opens the channel with `library`, which is `grpc` or `grpc.aio`."""
        if self._credentials is None:
            self._channel = library.insecure_channel(self.target, _CHANNEL_OPTIONS)
        else:
            self._channel = library.secure_channel(self.target, self._credentials, _CHANNEL_OPTIONS)
        self._calls = {method: self._channel.unary_unary(method) for method in (PREDICT, STATUS)}

    def predict_request(
        self, signature: str, inputs: Mapping[str, Value], outputs: Sequence[str] = ()
    ) -> bytes:
        """Returns the message that runs a signature.

        Args:
            signature: Name of the signature.
            inputs: Values by input name.
            outputs: Names of the outputs to return. Empty returns all of them.

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
        """Returns the serialised message that asks for the state of each version."""
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
        """Yields the messages of a search, with up to `batch_size` queries each.

        Args:
            queries: Texts to search for.
            options: Search parameters. Defaults to those of the model.
            signature: As for `Client.search_batch`.
            contents: As for `Client.search_batch`.

        Yields:
            The queries of a message, and the serialised message.
        """
        options = options or SearchOptions()
        signature = signature or ("search" if options.inputs() else "serving_default")
        for start in range(0, len(queries), self._batch_size):
            part = queries[start : start + self._batch_size]
            inputs = {"query": list(part), **options.inputs(len(part))}
            # The server neither looks up nor sends other outputs.
            outputs = (*_OUTPUTS, *contents) if signature == "search" else ()
            yield part, self.predict_request(signature, inputs, outputs)

    def _begin(self, method: str, data: bytes, deadline: float) -> Any:
        """Sends a message within the time left until `deadline`. Returns the answer or an awaitable of it."""
        timeout = max(0.0, deadline - time.monotonic())
        return self._calls[method](data, timeout=timeout, metadata=self._metadata)

    def delay(self, error: grpc.RpcError, attempt: int, deadline: float) -> float:
        """Returns how long to wait before the next attempt.

        Args:
            error: Error of the last attempt.
            attempt: Number of earlier attempts.
            deadline: Time by which the call must be over, on the clock of `time.monotonic`.

        Returns:
            Seconds: exponential back-off with jitter.

        Raises:
            ClientError: There is no next attempt, because the error is not UNAVAILABLE or because no time
                or attempts are left.
        """
        delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2**attempt) * random.uniform(0.5, 1.0)  # noqa: S311
        may_pass = error.code() is grpc.StatusCode.UNAVAILABLE and attempt + 1 < self._attempts
        if not may_pass or time.monotonic() + delay >= deadline:
            raise ClientError(error.code(), error.details() or "the server gave no reason") from None
        return delay
