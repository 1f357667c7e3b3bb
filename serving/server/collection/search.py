"""From queries to the merged answer of all partitions.

Any one partition encodes a query, once. All partitions are then searched with its vectors, and return token
hits as numbers. Finally, the partitions of the best documents return their ids and texts, and the details of
an explanation. Knows nothing about transport or the states of versions.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from serving.server.collection.metrics import PartitionMetrics
from serving.server.collection.partition import Partition
from serving.server.collection.request import SearchRequest
from serving.server.status import Code, RequestError, invalid_argument
from xtr_tf.scoring.merging import MergedHits, PartitionHits

Arrays = dict[str, np.ndarray]
#: Runs a function on a thread.
OnThread = Callable[[Callable[[], Any]], Awaitable[Any]]

_OF_DOCUMENTS = ("document_ids", "titles", "languages", "texts", "fields")
_OF_TOKENS = ("document_pieces", "starts", "limits")
_EXPLAINED = ("retrieved", "token_scores", *_OF_TOKENS)
_EMPTY = {"starts": -1, "limits": -1}
# Shares of the remaining time that encoding and searching may take. Some time must be left for an answer
# without a partition that does not respond.
_SHARE_OF_ENCODING, _SHARE_OF_SEARCHING = 0.5, 0.8


@dataclasses.dataclass(frozen=True)
class _Encoded:
    """Queries as vectors `[queries, length, …]`, and the numbers of those with text, `[found]`."""

    encodings: np.ndarray
    mask: np.ndarray
    pieces: np.ndarray
    idf: np.ndarray | None
    rows: np.ndarray


class CollectionSearch:
    """Answers requests with one version of all partitions.

    Args:
        partitions: All partitions, in the order of their documents.
        version: Version that every call names.
        has_idf: Whether the models know how rare pieces are.
        on_thread: Runs the merging on a thread.
        metrics: Metrics that count answers without a partition.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        version: int,
        has_idf: bool,
        on_thread: OnThread,
        metrics: PartitionMetrics,
    ) -> None:
        self._partitions = tuple(partitions)
        self._version = version
        self._has_idf = has_idf
        self._on_thread = on_thread
        self._metrics = metrics

    async def run(self, request: SearchRequest, outputs: Sequence[str], deadline: float) -> Arrays:
        """Answers a request.

        Args:
            request: Queries and parameters.
            outputs: Names of the outputs to return.
            deadline: Time by which the answer is needed, on the clock of `time.monotonic`.

        Returns:
            The outputs by name.

        Raises:
            RequestError: A partition refused the request, one did not answer and the request does not allow a
                partial answer, or none answered.
        """
        encoded = await self._encode(request, deadline)
        explained = not _is_disjoint(outputs, _EXPLAINED)
        found, missing = await self._find(request, encoded, explained, deadline)
        while True:
            merged = _Merged(request, encoded, found, outputs, explained)
            await self._on_thread(merged.rank)
            lost = await self._name(merged, outputs, deadline, request.may_be_partial)
            if not lost:
                break
            # Documents whose partition is lost are replaced by those of other partitions.
            missing |= lost
            found = {number: hits for number, hits in found.items() if number not in lost}
            self._check_some(found, encoded)
        for number in missing:
            self._metrics.missed(number)
        told = ",".join(map(str, sorted(missing))).encode()
        answer = {**merged.outputs, "missing_partitions": _filled(request.queries.shape, told, object)}
        return {name: answer[name] for name in outputs}

    async def _encode(self, request: SearchRequest, deadline: float) -> _Encoded:
        """Encodes with the least busy partition, or another if it fails. All have the same encoder."""
        names = ["encodings", "mask", "pieces", *(["idf"] if self._has_idf else [])]
        if not self._has_idf and (request.parameters["token_weights"] != b"none").any():
            raise invalid_argument(
                "`token_weights` needs an index that has counted the pieces of its documents. Received: idf."
            )
        failure: RequestError | None = None
        for partition in sorted(self._partitions, key=lambda partition: partition.outstanding):
            seconds = _SHARE_OF_ENCODING * (deadline - time.monotonic())
            try:
                answer = await partition.ask(
                    "encode_query", {"query": request.queries}, names, self._version, seconds
                )
            except RequestError as error:
                if error.code not in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED):
                    raise
                failure = error
                continue
            # A query without text has only the end-of-sequence token.
            blank = answer["mask"].sum(axis=1) <= 1
            if blank.any() and not request.takes_blank:
                positions = np.flatnonzero(blank).tolist()
                raise invalid_argument(
                    f"Every query must contain text. Received: blank at position {positions}."
                )
            rows = np.flatnonzero(~blank)
            encodings, mask, pieces = (answer[name] for name in names[:3])
            return _Encoded(encodings, mask, pieces, answer.get("idf"), rows)
        assert failure is not None
        raise failure

    async def _find(
        self, request: SearchRequest, encoded: _Encoded, explained: bool, deadline: float
    ) -> tuple[dict[int, Arrays], set[int]]:
        """Returns the token hits by partition, and the partitions that did not answer."""
        if not len(encoded.rows):
            return {}, set()
        inputs = {
            "encodings": encoded.encodings[encoded.rows],
            "mask": encoded.mask[encoded.rows],
            **request.of_partitions(encoded.rows),
        }
        names = ["scores", "documents", "ordinals", *(["token_ids"] if explained else [])]
        share = _SHARE_OF_SEARCHING if request.may_be_partial else 1.0
        found, missing = await self._ask_all(
            {partition.number: inputs for partition in self._partitions},
            *("search_vectors_tokens", names, share * (deadline - time.monotonic()), request.may_be_partial),
        )
        self._check_some(found, encoded)
        return found, missing

    async def _name(
        self, merged: _Merged, outputs: Sequence[str], deadline: float, may_be_partial: bool
    ) -> set[int]:
        """Looks up the best documents in their partitions. Returns the partitions that did not answer."""
        names = [name for name in (*_OF_DOCUMENTS, *_OF_TOKENS) if name in outputs]
        answers, lost = await self._ask_all(
            *(merged.wanted(), "look_up", names, deadline - time.monotonic(), may_be_partial)
        )
        for number, answer in answers.items():
            merged.fill_in(number, answer)
        return lost

    async def _ask_all(
        self,
        inputs: Mapping[int, Arrays],
        signature: str,
        outputs: Sequence[str],
        seconds: float,
        may_be_partial: bool,
    ) -> tuple[dict[int, Arrays], set[int]]:
        """Calls some partitions at the same time. If allowed, leaves out those that do not answer."""
        tasks = {
            number: asyncio.create_task(
                self._partitions[number].ask(signature, asked, outputs, self._version, seconds)
            )
            for number, asked in inputs.items()
        }
        answers: dict[int, Arrays] = {}
        missing = set()
        try:
            for number, task in tasks.items():
                try:
                    answers[number] = await task
                except RequestError as error:
                    if not may_be_partial or error.code not in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED):
                        raise
                    missing.add(number)
        finally:
            for task in tasks.values():
                task.cancel()
        return answers, missing

    def _check_some(self, found: Mapping[int, Arrays], encoded: _Encoded) -> None:
        if not found and len(encoded.rows):
            raise RequestError(Code.UNAVAILABLE, "No partition of the collection answered; try again later.")


class _Merged:
    """The rankings of a request, and its outputs, which are filled step by step."""

    def __init__(
        self,
        request: SearchRequest,
        encoded: _Encoded,
        found: Mapping[int, Arrays],
        outputs: Sequence[str],
        explained: bool,
    ) -> None:
        self._request = request
        self._encoded = encoded
        self._found = found
        self._explained = explained
        queries, length = encoded.mask.shape
        shape = (queries, request.columns)
        self._owners = np.full(shape, -1, np.int32)
        self._ordinals = np.full(shape, -1, np.int32)
        self._tokens = np.full((*shape, length if explained else 0), -1, np.int32)
        self.outputs: Arrays = {
            "scores": np.full(shape, -np.inf, np.float32),
            "query_pieces": encoded.pieces,
            "weights": self._weights(),
            **{name: _filled(shape, b"", object) for name in _OF_DOCUMENTS},
        }
        if explained:
            self.outputs |= {
                "retrieved": np.zeros(self._tokens.shape, bool),
                "token_scores": np.zeros(self._tokens.shape, np.float32),
                "document_pieces": _filled(self._tokens.shape, b"", object),
                **{name: np.full(self._tokens.shape, -1, np.int32) for name in ("starts", "limits")},
            }

    def rank(self) -> None:
        """Merges and ranks one query after the other."""
        for place, row in enumerate(self._encoded.rows.tolist()):
            self._rank_query(place, row)

    def wanted(self) -> dict[int, Arrays]:
        """Returns the documents and tokens that each partition with best documents must look up."""
        asked = {}
        for number in np.unique(self._owners[self._owners >= 0]).tolist():
            own = self._owners == number
            asked[number] = {
                "documents": np.where(own, self._ordinals, -1),
                "tokens": np.where(own[..., np.newaxis], self._tokens, -1),
            }
        return asked

    def fill_in(self, number: int, answer: Mapping[str, np.ndarray]) -> None:
        """Copies the values that a partition looked up into the outputs."""
        own = self._owners == number
        for name, values in answer.items():
            self.outputs[name][own] = values[own]

    def _rank_query(self, place: int, row: int) -> None:
        mask = self._encoded.mask[row]
        parts = [
            PartitionHits(
                hits["scores"][place][mask],
                hits["documents"][place][mask],
                hits["ordinals"].shape[1],
                hits["token_ids"][place][mask] if self._explained else None,
            )
            for hits in self._found.values()
        ]
        idf = self._encoded.idf
        scoring = self._request.scoring(row, None if idf is None else idf[row][mask])
        merged = MergedHits(parts, scoring.k_prime)
        [positions], [scores] = merged.rank(scoring)
        positions, scores = positions[positions >= 0], scores[positions >= 0]
        count = len(positions)
        owners = merged.owners(positions)
        numbers = np.array(list(self._found))
        self._owners[row, :count] = numbers[owners] if count else ()
        of_partition = positions - merged.starts[owners]
        for column, (number, position) in enumerate(
            zip(self._owners[row, :count].tolist(), of_partition.tolist(), strict=True)
        ):
            self._ordinals[row, column] = self._found[number]["ordinals"][place, position]
        self.outputs["scores"][row, :count] = scores
        if self._explained and count:
            tokens, similarities, retrieved = merged.align(positions, scoring)
            at = np.flatnonzero(mask)
            self._tokens[row, :count, at] = tokens.T
            self.outputs["token_scores"][row, :count, at] = similarities.T
            self.outputs["retrieved"][row, :count, at] = retrieved.T

    def _weights(self) -> np.ndarray:
        encoded = self._encoded
        by_idf = (self._request.parameters["token_weights"] == b"idf")[:, np.newaxis]
        weights = np.ones(encoded.mask.shape) if encoded.idf is None else np.where(by_idf, encoded.idf, 1)
        return np.where(encoded.mask, weights, 0).astype(np.float32)


def _filled(shape: tuple[int, ...], value: Any, dtype: Any) -> np.ndarray:
    array = np.empty(shape, dtype)
    array[...] = value
    return array


def _is_disjoint(names: Sequence[str], others: Sequence[str]) -> bool:
    return set(names).isdisjoint(others)
