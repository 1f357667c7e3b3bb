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

from serving.server.collection.merged import (
    OF_DOCUMENTS,
    OF_TOKENS,
    SNIPPETS,
    Arrays,
    EncodedQueries,
    MergedAnswer,
)
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
        definitions: `SignatureDef`s of the models of all partitions, by name.
        on_thread: Runs the merging on a thread.
        metrics: Metrics that count answers without a partition.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        version: int,
        definitions: Mapping[str, Any],
        on_thread: OnThread,
        metrics: PartitionMetrics,
    ) -> None:
        self._partitions = tuple(partitions)
        self._version = version
        self._has_idf = "idf" in definitions["encode_query"].outputs
        self._has_terms = "search_hybrid_tokens" in definitions
        self._has_snippets = SNIPPETS in definitions["look_up"].outputs
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
        snippets = self._has_snippets and request.cuts_texts and "texts" in outputs
        aligned = snippets or not set(_EXPLAINED).isdisjoint(outputs)
        looked_up = [name for name in (*OF_DOCUMENTS, *OF_TOKENS) if name in outputs]
        if snippets:
            looked_up[looked_up.index("texts")] = SNIPPETS
        found, missing = await self._find(request, encoded, aligned, deadline)
        while True:
            merged = MergedAnswer(request, encoded, found, aligned)
            await self._on_thread(merged.rank)
            # A call that names no output would return all of them.
            wanted = merged.wanted(snippets) if looked_up else {}
            answers, lost = await self._ask_all(
                *(wanted, "look_up", looked_up, deadline - time.monotonic(), request.may_be_partial)
            )
            for number, answer in answers.items():
                merged.fill_in(number, answer)
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

    async def ask_any(
        self,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        deadline: float,
        share: float = 1.0,
    ) -> Arrays:
        """Runs a signature on the least busy partition, or another if it fails. All have the same encoder.

        Args:
            signature: Name of a signature that needs no documents.
            inputs: Inputs by name.
            outputs: Names of the outputs to return.
            deadline: Time by which the answer is needed, on the clock of `time.monotonic`.
            share: Share of the remaining time that a partition may take.

        Returns:
            The outputs by name.

        Raises:
            RequestError: A partition refused the request, or none answered.
        """
        failure: RequestError | None = None
        for partition in sorted(self._partitions, key=lambda partition: partition.outstanding):
            seconds = share * (deadline - time.monotonic())
            try:
                return await partition.ask(signature, inputs, outputs, self._version, seconds)
            except RequestError as error:
                if error.code not in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED):
                    raise
                failure = error
        assert failure is not None
        raise failure

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
        names = ["encodings", "mask", "pieces", *(["idf"] if self._has_idf else [])]
        inputs = {"query": request.queries}
        answer = await self.ask_any("encode_query", inputs, names, deadline, _SHARE_OF_ENCODING)
        # A query without text has only the end-of-sequence token.
        blank = answer["mask"].sum(axis=1) <= 1
        if blank.any() and not request.takes_blank:
            positions = np.flatnonzero(blank).tolist()
            raise invalid_argument(f"Every query must contain text. Received: blank at position {positions}.")
        rows = np.flatnonzero(~blank)
        encodings, mask, pieces = (answer[name] for name in names[:3])
        return EncodedQueries(encodings, mask, pieces, answer.get("idf"), rows)

    async def _find(
        self, request: SearchRequest, encoded: EncodedQueries, aligned: bool, deadline: float
    ) -> tuple[dict[int, Arrays], set[int]]:
        """Returns the token hits by partition, and the partitions that did not answer."""
        if not len(encoded.rows):
            return {}, set()
        inputs = {
            "encodings": encoded.encodings[encoded.rows],
            "mask": encoded.mask[encoded.rows],
            **request.of_partitions(encoded.rows),
        }
        names = [*OF_HITS, *(["token_ids"] if aligned else [])]
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
