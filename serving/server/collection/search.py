"""From queries to the merged answer of all partitions.

Any one partition encodes a query, once. All partitions are then searched with its vectors, and return token
hits and BM25 as numbers. Finally, the partitions of the best documents return their ids and texts, and the
details of an explanation. Knows nothing about transport or the states of versions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from serving.server.collection.merged import OF_DOCUMENTS, OF_TOKENS, Arrays, EncodedQueries, MergedAnswer
from serving.server.collection.metrics import PartitionMetrics
from serving.server.collection.partition import Partition
from serving.server.collection.request import SearchRequest
from serving.server.status import Code, RequestError, invalid_argument
from xtr_tf.scoring.merging import OF_HITS, OF_TERMS

#: Runs a function on a thread.
OnThread = Callable[[Callable[[], Any]], Awaitable[Any]]

_EXPLAINED = ("retrieved", "token_scores", *OF_TOKENS)
# Shares of the remaining time that encoding and searching may take. Some time must be left for an answer
# without a partition that does not respond.
_SHARE_OF_ENCODING, _SHARE_OF_SEARCHING = 0.5, 0.8


class CollectionSearch:
    """Answers requests with one version of all partitions.

    Args:
        partitions: All partitions, in the order of their documents.
        version: Version that every call names.
        has_idf: Whether the models know how rare pieces are.
        has_terms: Whether the models have BM25.
        on_thread: Runs the merging on a thread.
        metrics: Metrics that count answers without a partition.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        version: int,
        has_idf: bool,
        has_terms: bool,
        on_thread: OnThread,
        metrics: PartitionMetrics,
    ) -> None:
        self._partitions = tuple(partitions)
        self._version = version
        self._has_idf = has_idf
        self._has_terms = has_terms
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
        self._check_parts(request)
        encoded = await self._encode(request, deadline)
        explained = not _is_disjoint(outputs, _EXPLAINED)
        found, missing = await self._find(request, encoded, explained, deadline)
        while True:
            merged = MergedAnswer(request, encoded, found, explained)
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
        answer = {**merged.outputs, "missing_partitions": np.full(request.queries.shape, told, object)}
        return {name: answer[name] for name in outputs}

    def _check_parts(self, request: SearchRequest) -> None:
        """Refuses a request that needs something that the models do not have."""
        if not self._has_idf and (request.parameters["token_weights"] != b"none").any():
            raise invalid_argument(
                "`token_weights` needs an index that has counted the pieces of its documents. Received: idf."
            )
        if not self._has_terms and request.is_hybrid:
            raise invalid_argument(
                "`alpha` needs an index with BM25: built with `lexical` words or ngrams. "
                f"Received: {request.parameters['alpha'].max():g}."
            )

    async def _encode(self, request: SearchRequest, deadline: float) -> EncodedQueries:
        """Encodes with the least busy partition, or another if it fails. All have the same encoder."""
        names = ["encodings", "mask", "pieces", *(["idf"] if self._has_idf else [])]
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
            return EncodedQueries(encodings, mask, pieces, answer.get("idf"), rows)
        assert failure is not None
        raise failure

    async def _find(
        self, request: SearchRequest, encoded: EncodedQueries, explained: bool, deadline: float
    ) -> tuple[dict[int, Arrays], set[int]]:
        """Returns the token hits by partition, and the partitions that did not answer."""
        if not len(encoded.rows):
            return {}, set()
        inputs = {
            "encodings": encoded.encodings[encoded.rows],
            "mask": encoded.mask[encoded.rows],
            **request.of_partitions(encoded.rows),
        }
        names = [*OF_HITS, *(["token_ids"] if explained else [])]
        signature = "search_vectors_tokens"
        if request.is_hybrid:
            signature = "search_hybrid_tokens"
            inputs |= request.of_terms(encoded.rows)
            names += OF_TERMS
        share = _SHARE_OF_SEARCHING if request.may_be_partial else 1.0
        found, missing = await self._ask_all(
            {partition.number: inputs for partition in self._partitions},
            *(signature, names, share * (deadline - time.monotonic()), request.may_be_partial),
        )
        self._check_some(found, encoded)
        return found, missing

    async def _name(
        self, merged: MergedAnswer, outputs: Sequence[str], deadline: float, may_be_partial: bool
    ) -> set[int]:
        """Looks up the best documents in their partitions. Returns the partitions that did not answer."""
        names = [name for name in (*OF_DOCUMENTS, *OF_TOKENS) if name in outputs]
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

    def _check_some(self, found: Mapping[int, Arrays], encoded: EncodedQueries) -> None:
        if not found and len(encoded.rows):
            raise RequestError(Code.UNAVAILABLE, "No partition of the collection answered; try again later.")


def _is_disjoint(names: Sequence[str], others: Sequence[str]) -> bool:
    return set(names).isdisjoint(others)
