"""From an index directory to its searcher.

This is the only place that knows both the arrays of a directory and the arguments of searchers.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np

from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.searchers.base import TokenSearcher


def searcher_from_index(index: TokenIndex, tokens: slice | None = None) -> TokenSearcher:
    """Loads an index into the variables of a new searcher.

    ScaNN is imported only for an index of kind `scann`.

    Args:
        index: An opened index.
        tokens: Consecutive tokens to load, as a partition of the index; all tokens if None. A partition
            probes the leaves that the whole index would probe.

    Returns:
        The searcher. It has several shards if the configuration of the index says so.
    """
    shards = index.config.num_shards
    first, end, _ = (tokens or slice(None)).indices(index.num_tokens)
    in_all = index.num_tokens if tokens is not None else None
    if shards == 1:
        return _searcher(index, slice(first, end), in_all)
    from xtr_tf.index.searchers.sharded import ShardedSearcher

    bounds = first + np.arange(shards + 1) * (end - first) // shards
    parts = [slice(start, limit) for start, limit in itertools.pairwise(bounds.tolist()) if limit > start]
    return ShardedSearcher([_searcher(index, part, in_all) for part in parts])


def _searcher(index: TokenIndex, part: slice, in_all: int | None) -> TokenSearcher:
    return {"exact": _exact, "scann": _scann, "core": _core}[index.config.kind](index, part, in_all)


def _exact(index: TokenIndex, part: slice, in_all: int | None) -> TokenSearcher:
    from xtr_tf.index.searchers.exact import ExactSearcher

    dtype = index.config.dtype or "float16"
    return ExactSearcher(_vectors(index.array("vectors")[part], dtype), dtype)


def _scann(index: TokenIndex, part: slice, in_all: int | None) -> TokenSearcher:
    from xtr_tf.index.searchers.scann import ScannSearcher

    config = index.config
    return ScannSearcher(
        centres=index.array("centres"),
        codebook=index.array("codebook"),
        leaf_of_token=index.array("cells")[part],
        codes=index.array("codes")[part],
        int8_vectors=index.array("int8")[part] if config.reordering else None,
        multipliers=index.array("multipliers") if config.reordering else None,
        leaves_to_search=config.num_leaves_to_search,
        parallel_searches=config.parallel_searches,
        tokens_in_all=in_all,
    )


def _core(index: TokenIndex, part: slice, in_all: int | None) -> TokenSearcher:
    from xtr_tf.index.searchers.core import CoreSearcher

    centres = index.array("centres")
    postings, leaf_offsets = index.array("tokens"), index.array("cell_offsets")
    vectors = index.array("vectors")
    first, end, _ = part.indices(index.num_tokens)
    if end - first < index.num_tokens:
        kept = np.flatnonzero((postings >= first) & (postings < end))
        leaf_offsets = np.searchsorted(kept, leaf_offsets)
        postings, vectors = postings[kept] - first, vectors[kept]
    return CoreSearcher(
        centres=centres,
        leaf_offsets=leaf_offsets,
        postings=postings,
        vectors=_vectors(vectors, index.config.dtype or "int8"),
        multipliers=index.array("int4_multipliers" if index.config.dtype == "int4" else "multipliers"),
        leaves_to_search=index.config.num_leaves_to_search,
        tokens_in_all=in_all,
    )


def _vectors(stored: np.ndarray, dtype: str) -> np.ndarray:
    return stored.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else stored
