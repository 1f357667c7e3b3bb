"""What ScaNN reads an index from, made from plain arrays: its configuration and its two models.

Importing this file imports ScaNN's protocol buffers, not its ops.
"""

from __future__ import annotations

import numpy as np
from google.protobuf import text_format
from scann.data_format import features_pb2
from scann.partitioning import partitioner_pb2
from scann.proto import centers_pb2, scann_pb2
from scann.scann_ops.py.scann_builder import ReorderType, ScannBuilder


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
