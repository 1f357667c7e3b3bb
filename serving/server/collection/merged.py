"""The answers of all partitions to one request, merged into its outputs. Knows nothing about servers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from serving.server.collection.request import SearchRequest
from xtr_tf.scoring.merging import MergedHits, partition_hits

Arrays = dict[str, np.ndarray]
#: Outputs that the partitions of the best documents look up: of documents, and of their matching tokens.
OF_DOCUMENTS = ("document_ids", "titles", "languages", "texts", "fields")
OF_TOKENS = ("document_pieces", "starts", "limits")
#: Output that models have instead of texts, if they were exported with `store_text: snippet`.
SNIPPETS = "snippets"


@dataclasses.dataclass(frozen=True)
class EncodedQueries:
    """Queries as vectors `[queries, length, …]`, and the numbers of those with text, `[found]`."""

    encodings: np.ndarray
    mask: np.ndarray
    pieces: np.ndarray
    idf: np.ndarray | None
    rows: np.ndarray


class MergedAnswer:
    """The rankings of a request, and its outputs, which are filled step by step.

    Args:
        request: Queries and parameters.
        encoded: The queries as vectors.
        found: Token hits by partition, in the order of partitions.
        aligned: Whether outputs need to know which tokens matched.

    Attributes:
        outputs: All outputs of a search by name.
    """

    def __init__(
        self, request: SearchRequest, encoded: EncodedQueries, found: Mapping[int, Arrays], aligned: bool
    ) -> None:
        self._request = request
        self._encoded = encoded
        self._found = found
        self._aligned = aligned
        queries, length = encoded.mask.shape
        shape = (queries, request.columns)
        self._owners = np.full(shape, -1, np.int32)
        self._ordinals = np.full(shape, -1, np.int32)
        self._tokens = np.full((*shape, length if aligned else 0), -1, np.int32)
        self.outputs: Arrays = {
            "scores": np.full(shape, -np.inf, np.float32),
            "xtr_scores": np.full(shape, -np.inf, np.float32),
            "lexical_scores": np.zeros(shape, np.float32),
            "query_pieces": encoded.pieces,
            "weights": self._weights(),
            **{name: np.full(shape, b"", object) for name in OF_DOCUMENTS},
        }
        self._token_scores = np.zeros(self._tokens.shape, np.float32)
        if aligned:
            self.outputs |= {
                "retrieved": np.zeros(self._tokens.shape, bool),
                "token_scores": self._token_scores,
                "document_pieces": np.full(self._tokens.shape, b"", object),
                **{name: np.full(self._tokens.shape, -1, np.int32) for name in ("starts", "limits")},
            }

    def rank(self) -> None:
        """Merges and ranks one query after the other."""
        for place, row in enumerate(self._encoded.rows.tolist()):
            self._rank_query(place, row)

    def wanted(self, snippets: bool) -> dict[int, Arrays]:
        """Returns the inputs of `look_up` for each partition with best documents.

        Args:
            snippets: Whether texts are cut to where tokens matched.
        """
        asked = {}
        for number in np.unique(self._owners[self._owners >= 0]).tolist():
            own = self._owners == number
            asked[number] = {
                "documents": np.where(own, self._ordinals, -1),
                "tokens": np.where(own[..., np.newaxis], self._tokens, -1),
                **({"scores": self._token_scores} if snippets else {}),
            }
        return asked

    def fill_in(self, number: int, answer: Mapping[str, np.ndarray]) -> None:
        """Copies the values that a partition looked up into the outputs. Snippets stand for texts."""
        own = self._owners == number
        for name, values in answer.items():
            self.outputs["texts" if name == SNIPPETS else name][own] = values[own]

    def _rank_query(self, place: int, row: int) -> None:
        mask, idf = self._encoded.mask[row], self._encoded.idf
        parts, ordinals = zip(
            *(partition_hits(answer, place, mask) for answer in self._found.values()), strict=True
        )
        scoring = self._request.scoring(row, None if idf is None else idf[row][mask])
        merged = MergedHits(parts, scoring.k_prime)
        ranked = merged.rank(scoring)
        count = len(ranked.positions)
        if not count:
            return
        self._owners[row, :count] = np.array(list(self._found))[merged.owners(ranked.positions)]
        self._ordinals[row, :count] = np.concatenate(ordinals)[ranked.positions]
        for name in ("scores", "xtr_scores", "lexical_scores"):
            self.outputs[name][row, :count] = getattr(ranked, name)
        if self._aligned:
            tokens, similarities, retrieved = merged.align(ranked.positions, scoring)
            at = np.flatnonzero(mask)
            self._tokens[row, :count, at] = tokens.T
            self._token_scores[row, :count, at] = similarities.T
            self.outputs["retrieved"][row, :count, at] = retrieved.T

    def _weights(self) -> np.ndarray:
        encoded = self._encoded
        by_idf = (self._request.parameters["token_weights"] == b"idf")[:, np.newaxis]
        weights = np.ones(encoded.mask.shape) if encoded.idf is None else np.where(by_idf, encoded.idf, 1)
        return np.where(encoded.mask, weights, 0).astype(np.float32)
