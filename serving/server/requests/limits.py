"""What one request may ask for, and how many may be in progress; more is refused at once.

The limits know the public names of a retriever's inputs (`k_prime`, `top_k`,
`encodings`, `document`). Another model is bound only by those on text and rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from serving.server.status import Code, RequestError, invalid_argument
from xtr_tf.errors import InputError

# Inputs of `encode_document` and `score`.
_DOCUMENTS = ("document", "documents")
# Texts of one input, such as documents to score, for each row that a request may have.
_TEXTS_OF_A_ROW = 4
# A query that comes encoded counts as one for each this many of its vectors.
_VECTORS_OF_A_QUERY = 64


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on a request.

    Attributes:
        max_message_bytes: A gRPC message or an HTTP body.
        max_text_bytes: One string, such as a query.
        max_document_bytes: One string of the inputs `document` and `documents`.
        max_rows: First dimension of an input: queries in one request.
        max_k_prime: Tokens to retrieve for one query token, times the queries of the request:
            the memory that scoring needs grows with this product.
        max_top_k: Documents to return for a query.
        max_concurrent: Requests in progress at once, waiting ones included.
        max_total_bytes: Their messages, all together.
    """

    max_message_bytes: int = 8 << 20
    max_text_bytes: int = 8192
    max_document_bytes: int = 65_536
    max_rows: int = 256
    max_k_prime: int = 200_000
    max_top_k: int = 10_000
    max_concurrent: int = 256
    max_total_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value < 1:
                raise InputError(f"The limit `{field.name}` must be at least 1. Received: {value}.")

    @property
    def max_texts(self) -> int:
        """Texts of one input."""
        return _TEXTS_OF_A_ROW * self.max_rows

    def check(self, inputs: Mapping[str, np.ndarray]) -> int:
        """Checks a request's inputs and returns its number of rows (1 if every input is a scalar)."""
        rows = max((len(array) for array in inputs.values() if array.ndim), default=1)
        _at_most("A request may have {} rows", self.max_rows, rows)
        for name, array in inputs.items():
            if array.dtype.kind == "O" and array.size:
                _at_most("An input may have {} texts", self.max_texts, array.size)
                longest = max(map(len, array.flat))
                if name in _DOCUMENTS:
                    _at_most("A document may have {} bytes", self.max_document_bytes, longest)
                else:
                    _at_most("A text may have {} bytes", self.max_text_bytes, longest)
        k_prime = _largest(inputs, "k_prime")
        _at_most("`k_prime` times the queries may be {}", self.max_k_prime, k_prime * max(rows, 1))
        if (encodings := inputs.get("encodings")) is not None:
            self._check_vectors(math.prod(encodings.shape[:-1]), k_prime)
        _at_most("`top_k` may be {}", self.max_top_k, _largest(inputs, "top_k"))
        return rows

    def _check_vectors(self, vectors: int, k_prime: int) -> None:
        _at_most("A request may have {} query vectors", _VECTORS_OF_A_QUERY * self.max_rows, vectors)
        most = _VECTORS_OF_A_QUERY * self.max_k_prime
        _at_most("`k_prime` times the query vectors may be {}", most, k_prime * vectors)


class Admission:
    """Counts the requests in progress, and their bytes, and refuses what is too much.

    Used only from the event loop, so it needs no lock.

    Args:
        max_concurrent: Requests at once.
        max_bytes: What they may have sent, all together.
    """

    def __init__(self, max_concurrent: int, max_bytes: int) -> None:
        self._max = max_concurrent
        self._max_bytes = max_bytes
        self.in_progress = 0
        self.bytes_held = 0

    @contextmanager
    def admit(self) -> Iterator[Place]:
        """Holds one place for a request.

        Raises:
            RequestError: RESOURCE_EXHAUSTED, at once, when every place is taken.
        """
        if self.in_progress >= self._max:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"The server is busy with {self.in_progress} requests; try again later.",
            )
        self.in_progress += 1
        place = Place(self)
        try:
            yield place
        finally:
            self.in_progress -= 1
            self.bytes_held -= place.size

    def _take(self, size: int) -> None:
        if self.bytes_held and self.bytes_held + size > self._max_bytes:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                f"The server is busy with {self.bytes_held} bytes of requests; try again later.",
            )
        self.bytes_held += size


class Place:
    """What a request that was admitted has of the server."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.size = 0

    def hold(self, size: int) -> None:
        """Counts the bytes of the request's message; raises RESOURCE_EXHAUSTED if all have too many."""
        self._admission._take(size)
        self.size += size


def _largest(inputs: Mapping[str, np.ndarray], name: str) -> int:
    """The largest value of a parameter, 0 if the request does not have it: what every row is padded to."""
    array = inputs.get(name)
    return int(array.max()) if array is not None and array.size and array.dtype.kind in "iu" else 0


def _at_most(sentence: str, limit: int, received: int) -> None:
    if received > limit:
        raise invalid_argument(f"{sentence.format(f'at most {limit}')} on this server. Received: {received}.")
