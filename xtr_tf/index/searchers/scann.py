"""ScaNN (tree + 4-bit asymmetric hashing) over an index that was assembled outside of it.

Importing this file loads ScaNN's op library; nothing else in xtr_tf may import it at start-up.
"""

from __future__ import annotations

import uuid

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from scann.data_format import features_pb2
from scann.partitioning import partitioner_pb2
from scann.proto import centers_pb2, scann_pb2
from scann.scann_ops.py import scann_ops
from scann.scann_ops.py.scann_builder import ReorderType, ScannBuilder
from tensorflow.python.framework import auto_control_deps_utils

from xtr_tf.errors import InputError
from xtr_tf.index.rules import LEAVES_SHARE, REORDERED_PER_K_PRIME, TOKENS_PER_K_PRIME
from xtr_tf.index.searchers import scann as scann_protos
from xtr_tf.index.searchers.base import TokenSearcher, number_of_leaves
from xtr_tf.scoring.token_hits import TokenHits, hits_from_padded

# A search only reads the index. Without this, TensorFlow would order the searches of one function
# one after another because they share a resource.
auto_control_deps_utils.register_read_only_resource_op("Scann>ScannSearchBatched")

# Every search scores all centres anew, 0.4 to 0.8 ms a million tokens: below this many tokens to score (about
# 5 ms of one thread) a second search at the same time costs more than it gains.
_SPLIT_FROM = 400_000


class ScannSearcher(TokenSearcher):
    """Searches cells of 4-bit codes, and optionally scores the hits again with int8 vectors.

    The index lies in variables as 4-bit codes. ScaNN's own structure is built from them once, when
    the model is loaded, and every signature finds it by a name that is unique to this searcher.

    Args:
        centres: `[cells, dim]` float32.
        codebook: `[blocks, 16, dim / blocks]` float32.
        cells: `[tokens]` integers.
        codes: `[tokens, ceil(blocks / 2)]` uint8, two 4-bit codes a byte.
        int8_vectors: `[tokens, dim]` int8 for reordering, or None.
        multipliers: `[dim]` float32, the scales of `int8_vectors`.
        leaves: Cells to look into unless a request says otherwise; 0 for the rule.
        parallel_searches: Parts of a large batch searched at the same time.
    """

    def __init__(
        self,
        centres: np.ndarray,
        codebook: np.ndarray,
        cells: np.ndarray,
        codes: np.ndarray,
        int8_vectors: np.ndarray | None = None,
        multipliers: np.ndarray | None = None,
        leaves: int = 0,
        parallel_searches: int = 2,
    ) -> None:
        super().__init__(name="scann_searcher")
        self.num_tokens, self.dim = len(cells), centres.shape[1]
        if not self.num_tokens:
            raise InputError(
                "An index needs at least one token; encode a corpus with text first. Received: 0 tokens."
            )
        if len(centres) == 1:
            # ScaNN numbers every hit 0 where there is but one cell; a second, empty one mends it.
            centres = np.repeat(centres, 2, axis=0)
        self.num_cells = len(centres)
        self._leaves = leaves
        self._parallel_searches = parallel_searches
        config = scann_protos.scann_config(
            self.num_tokens, self.dim, self.num_cells, codebook.shape[2], int8_vectors is not None
        )
        self.config = _variable([config], "config")
        self.partitioner = _variable([scann_protos.serialized_partitioner(centres)], "partitioner")
        self.codebook = _variable([scann_protos.serialized_codebook(codebook)], "codebook")
        self.cells = _variable(cells, "cells")
        self.codes = _variable(codes, "codes")
        self.int8: tuple[tf.Variable, ...] = ()
        if int8_vectors is not None:
            self.int8 = (_variable(int8_vectors, "int8_vectors"), _variable(multipliers, "multipliers"))
        self.resource = _ScannResource(self, len(codebook))

    def vectors_of(self, tokens: tf.Tensor) -> tf.Tensor | None:
        """The int8 vectors of `[any]` token ordinals as `[any, dim]` float32; None without reordering."""
        if not self.int8:
            return None
        vectors, multipliers = self.int8
        return tf.cast(tf.gather(vectors, tokens), tf.float32) / multipliers

    def _search(
        self, query_vectors: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, row_lengths: tf.Tensor
    ) -> TokenHits:
        handle = self.resource.searcher_handle()
        leaves = self._number_of_leaves(k_prime, leaves)
        rows = tf.shape(query_vectors)[0]
        # ScaNN refuses a search without queries, so every part gets one.
        padded = tf.pad(query_vectors, [[0, tf.maximum(self._parallel_searches - rows, 0)], [0, 0]])
        scored = tf.cast(rows * leaves, tf.float32) * (self.num_tokens / self.num_cells)
        ids, scores = tf.cond(
            scored < _SPLIT_FROM,
            lambda: self._search_parts(handle, padded, k_prime, leaves, 1),
            lambda: self._search_parts(handle, padded, k_prime, leaves, self._parallel_searches),
        )
        ids, scores = ids[:rows], scores[:rows]
        return hits_from_padded(ids, scores, tf.math.is_finite(scores))

    def _search_parts(
        self, handle: tf.Tensor, query_vectors: tf.Tensor, k_prime: tf.Tensor, leaves: tf.Tensor, parts: int
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Searches `parts` of the rows at the same time; token ids and scores, padded with NaN."""
        before_reordering = tf.minimum(k_prime * (REORDERED_PER_K_PRIME if self.int8 else 1), self.num_tokens)
        bounds = tf.range(parts + 1) * tf.shape(query_vectors)[0] // parts
        found = [
            scann_ops.scann_search_batched(
                handle,
                query_vectors[bounds[part] : bounds[part + 1]],
                k_prime,
                before_reordering,
                leaves,
                False,
            )
            for part in range(parts)
        ]
        columns = tf.reduce_max([tf.shape(part.indices)[1] for part in found])
        ids = tf.concat([_widen(part.indices, columns, 0) for part in found], axis=0)
        scores = tf.concat([_widen(part.distances, columns, np.nan) for part in found], axis=0)
        return ids, scores

    def _number_of_leaves(self, k_prime: tf.Tensor, leaves: tf.Tensor) -> tf.Tensor:
        return number_of_leaves(
            leaves, k_prime, self._leaves, self.num_cells, self.num_tokens, LEAVES_SHARE, TOKENS_PER_K_PRIME
        )


def _widen(values: tf.Tensor, columns: tf.Tensor, fill: float) -> tf.Tensor:
    values = tf.reshape(values, [tf.shape(values)[0], -1])
    return tf.pad(values, [[0, 0], [0, columns - tf.shape(values)[1]]], constant_values=fill)


class _ScannResource(tf.saved_model.experimental.TrackableResource):
    """The one ScaNN searcher of an index, built from the index's variables when a model is loaded.

    ScaNN's `TensorsToScann` op both builds a searcher and, once one of its name exists, merely
    returns the handle. `_initialize`, which every loader runs before any signature, builds it;
    signatures ask with empty inputs and can never build a second one.
    """

    def __init__(self, index: ScannSearcher, blocks: int) -> None:
        super().__init__()
        self._shared_name = f"xtr_tf_scann_{uuid.uuid4().hex}"
        self._index = index
        self._blocks = blocks
        self._initialize()

    def searcher_handle(self) -> tf.Tensor:
        """Returns the handle of the searcher built by `_initialize`."""
        absent = tf.constant("")
        return self._tensors_to_scann(absent, absent, absent, tf.constant(0), tf.constant(0, tf.uint8))

    def _create_resource(self) -> tf.Tensor:
        # The searcher has no handle before it is built; this one only lets loaders find `_initialize`.
        return tf.raw_ops.MutexV2(shared_name=f"{self._shared_name}_load")

    def _initialize(self) -> None:
        index = self._index
        low, high = tf.bitwise.bitwise_and(index.codes, 15), tf.bitwise.right_shift(index.codes, 4)
        codes = tf.reshape(tf.stack([low, high], axis=-1), [tf.shape(low)[0], -1])[:, : self._blocks]
        self._tensors_to_scann(
            index.config,
            index.partitioner,
            index.codebook,
            tf.cast(index.cells, tf.int32),
            codes,
            *index.int8,
        )

    def _tensors_to_scann(
        self,
        config: tf.Tensor,
        partitioner: tf.Tensor,
        codebook: tf.Tensor,
        cells: tf.Tensor,
        codes: tf.Tensor,
        int8_vectors: tf.Tensor | None = None,
        multipliers: tf.Tensor | None = None,
    ) -> tf.Tensor:
        return scann_ops.tensors_to_scann(
            x=tf.constant(0.0),
            scann_config=config,
            serialized_partitioner=partitioner,
            datapoint_to_token=cells,
            ah_codebook=codebook,
            hashed_dataset=codes,
            int8_dataset=tf.constant(0, tf.int8) if int8_vectors is None else int8_vectors,
            int8_multipliers=tf.constant(0.0) if multipliers is None else multipliers,
            dp_norms=tf.constant(0.0),
            shared_name=self._shared_name,
        )


def _variable(value: object, name: str) -> tf.Variable:
    return tf.Variable(value, trainable=False, name=name)


def scann_config(num_tokens: int, dim: int, cells: int, dims_per_block: int, reordering: bool) -> bytes:
    """Returns the serialised configuration of a tree with 4-bit hashing of residuals.

    Neighbours and leaves in it are defaults only: every search gives its own.
    """
    builder = ScannBuilder(np.empty((0, dim), np.float32), min(10, num_tokens), "dot_product")
    builder.params["extra"] = {"mutable": False}
    builder.tree(num_leaves=cells, num_leaves_to_search=min(10, cells), min_partition_size=1)
    builder.score_ah(dims_per_block, residual_quantization=True)
    if reordering:
        builder.reorder(min(10, num_tokens), quantize=ReorderType.INT8)
    config = text_format.Parse(builder.create_config(), scann_pb2.ScannConfig())
    # Truncated tables, the default up to ScaNN 1.3, make every score too small.
    tables = config.hash.asymmetric_hash.fixed_point_lut_conversion_options
    tables.float_to_int_conversion_method = tables.ROUND
    return config.SerializeToString()


def serialized_partitioner(centres: np.ndarray) -> bytes:
    """Returns a one-level tree whose leaves are the cells.

    Args:
        centres: `[cells, dim]` float32.
    """
    partitioner = partitioner_pb2.SerializedPartitioner(n_tokens=len(centres))
    root = partitioner.kmeans.kmeans_tree.root
    root.leaf_id = -1
    root.learned_spilling_threshold = float("nan")
    for cell, centre in enumerate(centres):
        root.centers.add().dimension.extend(centre.tolist())
        root.children.add(leaf_id=cell, learned_spilling_threshold=float("nan"))
    return partitioner.SerializeToString()


def serialized_codebook(codebook: np.ndarray) -> bytes:
    """Returns the codewords of every block.

    Args:
        codebook: `[blocks, 16, dims_per_block]` float32.
    """
    message = centers_pb2.CentersForAllSubspaces()
    for block in codebook:
        centres = message.subspace_centers.add()
        for codeword in block:
            centres.center.add(
                feature_type=features_pb2.GenericFeatureVector.FLOAT, feature_value_float=codeword.tolist()
            )
    return message.SerializeToString()
