"""Limits of a request, and of the requests in progress. Requests beyond them are refused immediately.

The limits know the input names of a retriever (`k_prime`, `top_k`, `encodings`, `document`). For other models
only the limits on text and rows apply.
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
# Texts per input, such as documents to score, for each row that a request may have.
_TEXTS_OF_A_ROW = 4
# An encoded query counts as one query for every this many vectors.
_VECTORS_OF_A_QUERY = 64


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of requests.

    Attributes:
        max_message_bytes: Size of a gRPC message or an HTTP body.
        max_text_bytes: Size of a string, such as a query.
        max_document_bytes: Size of a string in the inputs `document` and `documents`.
        max_rows: Number of rows, such as queries, in a request.
        max_k_prime: k' times the number of queries in a request. The memory for scoring grows with it.
        max_top_k: Documents to return per query.
        max_concurrent: Requests in progress, including those that wait.
        max_total_bytes: Total size of the messages in progress.

    Raises:
        InputError: A limit is less than 1.
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
        """Largest number of texts per input."""
        return _TEXTS_OF_A_ROW * self.max_rows

    def check(self, inputs: Mapping[str, np.ndarray]) -> int:
        """Checks the inputs of a request.

        Args:
            inputs: Arrays by input name.

        Returns:
            The number of rows, 1 if all inputs are scalars.

        Raises:
            RequestError: INVALID_ARGUMENT, if a limit is exceeded.
        """
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
    """Counts the requests in progress and their bytes, and refuses requests beyond the limits.

    Use it only from the event loop; it has no lock.

    Args:
        max_concurrent: Largest number of requests in progress.
        max_bytes: Largest total size of their messages.
    """

    def __init__(self, max_concurrent: int, max_bytes: int) -> None:
        self._max = max_concurrent
        self._max_bytes = max_bytes
        self.in_progress = 0
        self.bytes_held = 0

    @contextmanager
    def admit(self) -> Iterator[Place]:
        """Holds a place for a request.

        Yields:
            The place.

        Raises:
            RequestError: RESOURCE_EXHAUSTED, if all places are taken.
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
    """The place of an admitted request, with the bytes that it holds."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.size = 0

    def hold(self, size: int) -> None:
        """Adds the bytes of the request's message.

        Args:
            size: The number of bytes.

        Raises:
            RequestError: RESOURCE_EXHAUSTED, if all requests together have too many bytes.
        """
        self._admission._take(size)
        self.size += size


def _largest(inputs: Mapping[str, np.ndarray], name: str) -> int:
    """Returns the largest value of a parameter, to which all rows are padded, or 0 if it is not set."""
    array = inputs.get(name)
    return int(array.max()) if array is not None and array.size and array.dtype.kind in "iu" else 0


def _at_most(sentence: str, limit: int, received: int) -> None:
    if received > limit:
        raise invalid_argument(f"{sentence.format(f'at most {limit}')} on this server. Received: {received}.")
