"""ScaNN (tree + 4-bit asymmetric hashing) over an index that was built without it.

From top to bottom: the searcher, the resource that holds ScaNN's own structure, and ScaNN's protocol buffers.
Importing this file loads ScaNN's op library. No other file in xtr_tf may import it at start-up.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from scann.data_format import features_pb2
from scann.partitioning import partitioner_pb2
from scann.proto import centers_pb2, scann_pb2
from scann.scann_ops.py import scann_ops
from scann.scann_ops.py.scann_builder import ReorderType, ScannBuilder
from tensorflow.python.framework import auto_control_deps_utils

from xtr_tf.index.rules import REORDERED_PER_K_PRIME, SCANN_DIRECTLY, SEARCHED_SHARE, TOKENS_PER_K_PRIME
from xtr_tf.index.searchers.base import LeafRule, TokenSearcher
from xtr_tf.index.vector_source import require_tokens
from xtr_tf.scoring.token_hits import TokenHits, hits_from_padded


def _register_search_as_read_only() -> None:
    """Lets TensorFlow run two searches of one function at the same time.

    `tf.function` adds control dependencies between ops that share a resource, unless they are known to only
    read it. ScaNN does not declare its search op as read-only, and TensorFlow has no public way to do it for
    the op of another package. The private registry is the one that TensorFlow's own read-only ops use.
    Without this, `parallel_searches` would run one after the other, with the same results.
    """
    auto_control_deps_utils.register_read_only_resource_op("Scann>ScannSearchBatched")


_register_search_as_read_only()

# Every search scores all centres again, which takes 0.4 to 0.8 ms per million tokens. With fewer tokens to
# score than this (about 5 ms on one thread), a second search at the same time costs more than it saves.
_SPLIT_FROM = 400_000


class ScannSearcher(TokenSearcher):
    """Searches leaves of 4-bit codes, and optionally scores the hits again with int8 vectors.

    The index is stored in variables as 4-bit codes. ScaNN's own structure is built from them once, when the
    model is loaded. Every signature finds it by a name that is unique to this searcher.

    Args:
        centres: `[leaves, dim]` float32.
        codebook: `[blocks, 16, dim / blocks]` float32.
        leaf_of_token: `[tokens]` integers.
        codes: `[tokens, ceil(blocks / 2)]` uint8, two 4-bit codes per byte.
        int8_vectors: `[tokens, dim]` int8 for reordering, or None.
        multipliers: `[dim]` float32, the scales of `int8_vectors`.
        leaves_to_search: Number of leaves to probe, unless a request has its own; 0 for the rule.
        parallel_searches: Number of parts of a large batch that are searched at the same time.
        tokens_in_all: Number of tokens in the whole index if this is a partition, which then follows its
            rule; None otherwise.

    Raises:
        InputError: If there are no tokens.

    Example:
        Two tokens in two leaves. A code is the position of a codeword, which is added to the centre:

        >>> steps = np.linspace(-0.8, 0.7, 16, dtype=np.float32)
        >>> searcher = ScannSearcher(
        ...     centres=np.float32([[1, 0], [0, 1]]),
        ...     codebook=np.stack([steps, -steps], axis=1)[None],
        ...     leaf_of_token=np.array([0, 1], np.int32),
        ...     codes=np.uint8([[6], [11]]),
        ... )
        >>> hits = searcher.search(tf.constant([[1.0, 0.0]]), tf.constant(2), tf.constant(2))
        >>> hits.token_ids.numpy().tolist()
        [[0, 1]]
        >>> print(searcher.approximate_vectors(tf.constant([0, 1])).numpy().round(1))
        [[0.8 0.2]
         [0.3 0.7]]
    """

    def __init__(
        self,
        centres: np.ndarray,
        codebook: np.ndarray,
        leaf_of_token: np.ndarray,
        codes: np.ndarray,
        int8_vectors: np.ndarray | None = None,
        multipliers: np.ndarray | None = None,
        leaves_to_search: int = 0,
        parallel_searches: int = 2,
        tokens_in_all: int | None = None,
    ) -> None:
        super().__init__(name="scann_searcher")
        self.num_tokens, self.dim = len(leaf_of_token), centres.shape[1]
        require_tokens(self.num_tokens)
        if len(centres) == 1:
            # With only one leaf, ScaNN numbers every hit 0. A second, empty leaf prevents this.
            centres = np.repeat(centres, 2, axis=0)
        self._rule = LeafRule(
            *(len(centres), tokens_in_all or self.num_tokens, leaves_to_search),
            *(SEARCHED_SHARE, TOKENS_PER_K_PRIME),
        )
        self._parallel_searches = parallel_searches
        config = scann_config(
            self.num_tokens, self.dim, len(centres), codebook.shape[2], int8_vectors is not None
        )
        self.config = _variable([config], "config")
        self.partitioner = _variable([serialized_partitioner(centres)], "partitioner")
        self.codebook = _variable([serialized_codebook(codebook)], "codebook")
        self.leaf_of_token = _variable(leaf_of_token, "leaf_of_token")
        self.codes = _variable(codes, "codes")
        self.int8: tuple[tf.Variable, ...] = ()
        if int8_vectors is not None:
            self.int8 = (_variable(int8_vectors, "int8_vectors"), _variable(multipliers, "multipliers"))
        # The same as in ScaNN's own messages, for tokens that are scored one by one.
        self.centres = _variable(centres.astype(np.float32), "centres")
        self.codewords = _variable(codewords_of_bytes(codebook.astype(np.float32)), "codewords")
        self.resource = _ScannResource(self, len(codebook))

    def vectors_of(self, tokens: tf.Tensor) -> tf.Tensor | None:
        """Returns the int8 vectors of tokens as floats.

        Args:
            tokens: `[any]` integers, token ordinals.

        Returns:
            `[any, dim]` float32, or None without reordering.
        """
        if not self.int8:
            return None
        vectors, multipliers = self.int8
        return tf.cast(tf.gather(vectors, tokens), tf.float32) / multipliers

    def approximate_vectors(self, tokens: tf.Tensor) -> tf.Tensor:
        """Returns the int8 vectors of tokens, or the vectors that their codes stand for if there are none.

        Args:
            tokens: `[any]` integers, token ordinals.

        Returns:
            `[any, dim]` float32.
        """
        vectors = self.vectors_of(tokens)
        if vectors is not None:
            return vectors
        codes = tf.cast(tf.gather(self.codes, tokens), tf.int32)
        columns, values, width = self.codewords.shape
        places = codes + tf.range(columns) * values
        residuals = tf.gather(tf.reshape(self.codewords, [columns * values, width]), places)
        centres = tf.gather(self.centres, tf.cast(tf.gather(self.leaf_of_token, tokens), tf.int32))
        return centres + tf.reshape(residuals, [-1, columns * width])[:, : self.dim]

    def _most_directly(self, k_prime: tf.Tensor) -> tf.Tensor:
        """Returns how many allowed tokens cost as much to score as retrieving k' of them among all tokens.

        The first cost grows with the number of allowed tokens, the second with the inverse of their share.
        """
        both = SCANN_DIRECTLY * tf.cast(k_prime, tf.float32) * float(self.num_tokens)
        return tf.cast(tf.sqrt(both), tf.int32)

    def _search(
        self, query_vectors: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, row_lengths: tf.Tensor
    ) -> TokenHits:
        handle = self.resource.searcher_handle()
        leaves = self._rule.leaves_to_search(leaves, k_prime)
        before_reordering = tf.minimum(k_prime * (REORDERED_PER_K_PRIME if self.int8 else 1), self.num_tokens)
        rows = tf.shape(query_vectors)[0]
        scored = tf.cast(rows * leaves, tf.float32) * (self.num_tokens / self._rule.num_leaves)

        def search(queries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            found = scann_ops.scann_search_batched(handle, queries, k_prime, before_reordering, leaves, False)
            ids, scores = (tf.ensure_shape(part, [None, None]) for part in (found.indices, found.distances))
            return ids, scores

        # With fewer rows than parts, a part would have none.
        ids, scores = tf.cond(
            (scored < _SPLIT_FROM) | (rows < self._parallel_searches),
            lambda: search(query_vectors),
            lambda: _in_parts(search, query_vectors, self._parallel_searches),
        )
        return hits_from_padded(ids, scores, tf.math.is_finite(scores))


def _in_parts(
    search: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]], query_vectors: tf.Tensor, parts: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Searches parts of the rows at the same time. Returns token ids and scores, padded with NaN."""
    bounds = tf.range(parts + 1) * tf.shape(query_vectors)[0] // parts
    hits = [search(query_vectors[bounds[part] : bounds[part + 1]]) for part in range(parts)]
    columns = tf.reduce_max([tf.shape(ids)[1] for ids, _ in hits])

    def widen(values: tf.Tensor, fill: float) -> tf.Tensor:
        return tf.pad(values, [[0, 0], [0, columns - tf.shape(values)[1]]], constant_values=fill)

    ids = tf.concat([widen(part, 0) for part, _ in hits], axis=0)
    scores = tf.concat([widen(part, np.nan) for _, part in hits], axis=0)
    return ids, scores


class _ScannResource(tf.saved_model.experimental.TrackableResource):
    """The ScaNN searcher of an index, built from the variables of the index when a model is loaded.

    ScaNN's `TensorsToScann` op builds a searcher. If one with its name exists, it only returns the handle.
    `_initialize`, which every loader runs before any signature, builds it. Signatures call the op with empty
    inputs, and can never build a second one.
    """

    def __init__(self, index: ScannSearcher, blocks: int) -> None:
        super().__init__()
        self._shared_name = f"xtr_tf_scann_{uuid.uuid4().hex}"
        self._index = index
        self._blocks = blocks
        self._initialize()

    def searcher_handle(self) -> tf.Tensor:
        """Returns the handle of the searcher built by `_initialize`."""
        return self._tensors_to_scann({})

    def _create_resource(self) -> tf.Tensor:
        # The searcher has no handle before it is built. This handle only lets loaders find `_initialize`.
        return tf.raw_ops.MutexV2(shared_name=f"{self._shared_name}_load")

    def _initialize(self) -> None:
        index = self._index
        codes = unpacked(index.codes, self._blocks)
        self._tensors_to_scann(
            {
                "scann_config": index.config,
                "serialized_partitioner": index.partitioner,
                "datapoint_to_token": tf.cast(index.leaf_of_token, tf.int32),
                "ah_codebook": index.codebook,
                "hashed_dataset": codes,
                **dict(zip(("int8_dataset", "int8_multipliers"), index.int8, strict=False)),
            }
        )

    def _tensors_to_scann(self, tensors: dict[str, tf.Tensor]) -> tf.Tensor:
        """Runs the op. Inputs that are not in `tensors` are marked as absent, in ScaNN's way."""
        absent = {
            "x": tf.constant(0.0),
            "scann_config": tf.constant(""),
            "serialized_partitioner": tf.constant(""),
            "datapoint_to_token": tf.constant(0),
            "ah_codebook": tf.constant(""),
            "hashed_dataset": tf.constant(0, tf.uint8),
            "int8_dataset": tf.constant(0, tf.int8),
            "int8_multipliers": tf.constant(0.0),
            "dp_norms": tf.constant(0.0),
        }
        return scann_ops.tensors_to_scann(**(absent | tensors), shared_name=self._shared_name)


def unpacked(codes: tf.Tensor, blocks: int) -> tf.Tensor:
    """Unpacks codes of two per byte.

    Args:
        codes: `[tokens, ceil(blocks / 2)]` uint8.
        blocks: Codes per token.

    Returns:
        `[tokens, blocks]` uint8, from 0 to 15.
    """
    low, high = tf.bitwise.bitwise_and(codes, 15), tf.bitwise.right_shift(codes, 4)
    return tf.reshape(tf.stack([low, high], axis=-1), [tf.shape(low)[0], -1])[:, :blocks]


def codewords_of_bytes(codebook: np.ndarray) -> np.ndarray:
    """Returns the codewords of two blocks at once, so that stored bytes can be decoded without unpacking.

    Args:
        codebook: `[blocks, 16, width]`.

    Returns:
        `[ceil(blocks / 2), 256, 2 * width]`, by the byte that holds both codes; 0 for a missing block.
    """
    even = np.concatenate([codebook, np.zeros((len(codebook) % 2, *codebook.shape[1:]), codebook.dtype)])
    codes = np.arange(256)
    return np.concatenate([even[0::2][:, codes & 15], even[1::2][:, codes >> 4]], axis=2)


def _variable(value: object, name: str) -> tf.Variable:
    return tf.Variable(value, trainable=False, name=name)


def scann_config(num_tokens: int, dim: int, num_leaves: int, dims_per_block: int, reordering: bool) -> bytes:
    """Returns the serialised configuration of a tree with 4-bit hashing of residuals.

    The numbers of neighbours and leaves in it are only defaults, because every search passes its own.

    Args:
        num_tokens: Number of tokens in the index.
        dim: Width of a vector.
        num_leaves: Number of leaves in the tree.
        dims_per_block: Dimensions that share a code.
        reordering: Whether hits are scored again by int8 vectors.

    Returns:
        A serialised `ScannConfig`.
    """
    builder = ScannBuilder(np.empty((0, dim), np.float32), min(10, num_tokens), "dot_product")
    builder.params["extra"] = {"mutable": False}
    builder.tree(num_leaves, num_leaves_to_search=min(10, num_leaves), min_partition_size=1)
    builder.score_ah(dims_per_block, residual_quantization=True)
    if reordering:
        builder.reorder(min(10, num_tokens), quantize=ReorderType.INT8)
    config = text_format.Parse(builder.create_config(), scann_pb2.ScannConfig())
    # Truncated tables, the default up to ScaNN 1.3, make every score too small.
    tables = config.hash.asymmetric_hash.fixed_point_lut_conversion_options
    tables.float_to_int_conversion_method = tables.ROUND
    return config.SerializeToString()


def serialized_partitioner(centres: np.ndarray) -> bytes:
    """Returns a tree with one level.

    Args:
        centres: `[leaves, dim]` float32.

    Returns:
        A serialised `SerializedPartitioner`.
    """
    partitioner = partitioner_pb2.SerializedPartitioner(n_tokens=len(centres))
    root = partitioner.kmeans.kmeans_tree.root
    root.leaf_id = -1
    root.learned_spilling_threshold = float("nan")
    for leaf, centre in enumerate(centres):
        root.centers.add().dimension.extend(centre.tolist())
        root.children.add(leaf_id=leaf, learned_spilling_threshold=float("nan"))
    return partitioner.SerializeToString()


def serialized_codebook(codebook: np.ndarray) -> bytes:
    """Returns the codewords of every block.

    Args:
        codebook: `[blocks, 16, dims_per_block]` float32.

    Returns:
        A serialised `CentersForAllSubspaces`.
    """
    message = centers_pb2.CentersForAllSubspaces()
    for block in codebook:
        centres = message.subspace_centers.add()
        for codeword in block:
            centres.center.add(
                feature_type=features_pb2.GenericFeatureVector.FLOAT, feature_value_float=codeword.tolist()
            )
    return message.SerializeToString()
