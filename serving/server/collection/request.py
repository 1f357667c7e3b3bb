"""The parameters of a search over partitions: their defaults, their ranges, and those of each signature.

Names, ranges and messages are the same as in a retriever's own signatures (`xtr_tf/retriever/request.py`).
Partitions check `k_prime`, `leaves`, `languages` and `filter` themselves. Knows nothing about servers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from serving.server.protos import types_pb2
from serving.server.status import Code, RequestError, invalid_argument
from serving.server.tensor_protos import fill_proto, to_array
from xtr_tf.config.retrieval import FUSIONS, IMPUTATIONS, MAX_TOP_K, TOKEN_WEIGHTS
from xtr_tf.scoring.merging import PartitionTerms, Scoring

SIGNATURES = ("serving_default", "search", "explain")
#: Signatures that need no documents, so that the model of any partition can answer them.
OF_ANY = ("encode_query", "encode_document", "score")
#: Values of the request parameter `partial` and of the server option `--partial`.
PARTIAL = ("refuse", "allow")
#: Parameters that are passed to partitions.
OF_PARTITIONS = ("k_prime", "leaves", "languages", "filter")
_PARAMETERS = (
    *(*OF_PARTITIONS, "top_k", "imputation", "constant", "token_weights", "min_score"),
    *("alpha", "fusion"),
)
_OUTPUTS = (
    *("document_ids", "scores", "xtr_scores", "lexical_scores", "titles", "languages", "texts", "fields"),
    *("query_pieces", "retrieved", "token_scores", "document_pieces", "starts", "limits", "weights"),
)
_MISSING = "missing_partitions"
_FEW = 1 << 16


def collection_signatures(definitions: Mapping[str, Any], partial: str) -> dict[str, Any]:
    """Makes the `SignatureDef`s of a collection from those of its partitions' models.

    Args:
        definitions: `SignatureDef`s of the model of a partition, by name.
        partial: Default of the parameter `partial`: `refuse` or `allow`.

    Returns:
        The `SignatureDef`s of the collection, by name.

    Raises:
        RequestError: The models lack a signature, or have a default that cannot be merged.
    """
    needed = {*SIGNATURES, *OF_ANY, "search_vectors_tokens", "look_up"}
    if lacking := sorted(needed - definitions.keys()):
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f"The models of the collection have no signature `{lacking[0]}`; export them again.",
        )
    default = definitions["search"].defaults.get("rescore")
    if default is not None and to_array(default, _FEW).any():
        raise RequestError(
            Code.FAILED_PRECONDITION,
            "The default of `rescore` must be 0 in a collection: it cannot be merged; export the partitions "
            "with it.",
        )
    merged = {name: _of_collection(name, definitions[name], partial) for name in SIGNATURES}
    return {**merged, **{name: definitions[name] for name in OF_ANY}}


def same_signatures(definitions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the `SignatureDef`s of all partitions' models, which must have the same names.

    Args:
        definitions: `SignatureDef`s by name, of the model of every partition.

    Returns:
        Those of the first partition.

    Raises:
        RequestError: A partition lacks a signature that another one has, such as that of BM25.
    """
    names = {name for own in definitions for name in own}
    for number, own in enumerate(definitions):
        if lacking := sorted(names - own.keys()):
            raise RequestError(
                Code.FAILED_PRECONDITION,
                "All partitions need the same signatures; export them together from one index. "
                f"Received: partition {number} without `{lacking[0]}`.",
            )
    return definitions[0]


def _of_collection(name: str, definition: Any, partial: str) -> Any:
    copied = type(definition)()
    copied.CopyFrom(definition)
    for inputs in (copied.inputs, copied.defaults):
        for other in set(inputs) - {"query", *_PARAMETERS}:
            del inputs[other]
    for other in set(copied.outputs) - {*_OUTPUTS}:
        del copied.outputs[other]
    tensors = [copied.outputs[_MISSING]]
    if name != "serving_default":
        tensors.append(copied.inputs["partial"])
        fill_proto(copied.defaults["partial"], np.array([partial.encode()], object))
    for tensor in tensors:
        tensor.name, tensor.dtype = "collection:0", types_pb2.DT_STRING
        tensor.tensor_shape.dim.add(size=-1)
    return copied


@dataclasses.dataclass(frozen=True)
class SearchRequest:
    """Some queries with their parameters.

    Attributes:
        queries: `[queries]` bytes.
        parameters: Values by name, `[queries]` each.
        signature: Name of the signature.
    """

    queries: np.ndarray
    parameters: Mapping[str, np.ndarray]
    signature: str

    @classmethod
    def read(
        cls, signature: str, inputs: Mapping[str, np.ndarray], defaults: Mapping[str, np.ndarray]
    ) -> SearchRequest:
        """Makes a request from a call, and checks its parameters.

        Args:
            signature: Name of the signature.
            inputs: Inputs by name, with correct types and shapes.
            defaults: Values of parameters that are not given, by name.

        Returns:
            The request.

        Raises:
            RequestError: INVALID_ARGUMENT, if a parameter has the wrong length or is out of range.
        """
        queries = inputs["query"]
        given = {**defaults, **{name: array for name, array in inputs.items() if name != "query"}}
        lengths = [len(values) for values in given.values()]
        if not all(length == 1 or (length == len(queries) and length > 0) for length in lengths):
            raise invalid_argument(
                "Every parameter must have one value for each query, or one for all of them. "
                f"Received: lengths {lengths}."
            )
        _check_ranges(given)
        parameters = {name: np.broadcast_to(values, queries.shape) for name, values in given.items()}
        return cls(queries, parameters, signature)

    @property
    def takes_blank(self) -> bool:
        """Whether a query without text finds nothing instead of being refused."""
        return self.signature == "serving_default"

    @property
    def cuts_texts(self) -> bool:
        """Whether texts are cut to snippets, if the models were exported for that."""
        return self.signature == "search"

    @property
    def may_be_partial(self) -> bool:
        """Whether the caller accepts an answer without some partitions."""
        return bool((self.parameters["partial"] == b"allow").all())

    @property
    def columns(self) -> int:
        """Largest number of documents that a query asks for."""
        return int(self.parameters["top_k"].max(initial=0))

    def of_partitions(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the parameters that are passed to partitions, for some of the queries.

        Args:
            rows: `[rows]` numbers of queries.

        Returns:
            Values by name, `[rows]` each.
        """
        return {name: self.parameters[name][rows] for name in OF_PARTITIONS}

    @property
    def is_hybrid(self) -> bool:
        """Whether a query needs BM25."""
        return bool((self.parameters["alpha"] > 0).any())

    def of_terms(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Returns what partitions need for BM25, for some of the queries.

        Args:
            rows: `[rows]` numbers of queries.

        Returns:
            Inputs by name, `[rows]` each.
        """
        asked = zip(self.parameters["top_k"][rows], self.parameters["fusion"][rows], strict=True)
        depths = [PartitionTerms.depth(int(top_k), fusion.decode()) for top_k, fusion in asked]
        return {"query": self.queries[rows], "top_k": np.array(depths, np.int32)}

    def scoring(self, row: int, idf: np.ndarray | None) -> Scoring:
        """Returns how a query is scored.

        Args:
            row: Number of the query.
            idf: `[tokens]` weights of its tokens by their rarity, used if the query asks for `idf`.

        Returns:
            The parameters of scoring.
        """
        values = {name: array[row] for name, array in self.parameters.items()}
        return Scoring(
            int(values["k_prime"]),
            int(values["top_k"]),
            values["imputation"].decode(),
            float(values["constant"]),
            float(values["min_score"]),
            idf if values["token_weights"] == b"idf" else None,
            float(values["alpha"]),
            values["fusion"].decode(),
        )


def default_values(definition: Any, partial: str) -> dict[str, np.ndarray]:
    """Returns the default values of a collection's signature.

    Args:
        definition: `SignatureDef` of the signature.
        partial: Default of the parameter `partial`.

    Returns:
        Values by parameter name.
    """
    values = {
        name: to_array(tensor, _FEW) for name, tensor in definition.defaults.items() if name in _PARAMETERS
    }
    return {**values, "partial": np.array([partial.encode()], object)}


def _check_ranges(given: Mapping[str, np.ndarray]) -> None:
    top_k = given["top_k"]
    if not ((top_k >= 1) & (top_k <= MAX_TOP_K)).all():
        raise invalid_argument(f"`top_k` must be between 1 and {MAX_TOP_K}. Received: {top_k.tolist()}.")
    for name in ("constant", "min_score"):
        if not np.isfinite(given[name]).all():
            raise invalid_argument(f"`{name}` must be a finite number. Received: {given[name].tolist()}.")
    alpha = given["alpha"]
    if not ((alpha >= 0) & (alpha <= 1)).all():
        raise invalid_argument(f"`alpha` must be between 0 (XTR) and 1 (BM25). Received: {alpha.tolist()}.")
    for name, allowed in (
        ("imputation", IMPUTATIONS),
        ("token_weights", TOKEN_WEIGHTS),
        ("partial", PARTIAL),
        ("fusion", FUSIONS),
    ):
        unknown = set(given[name].tolist()) - {choice.encode() for choice in allowed}
        if unknown:
            received = sorted(unknown)[0].decode(errors="replace")
            raise invalid_argument(f"`{name}` must be one of {', '.join(allowed)}. Received: {received!r}.")
