"""MaxSim: the best similarity of each query token in each document, and the k-th best of all tokens.

Both scores of this package are sums of these maxima. All similarities, `[Q·n, D·m]`, would fill the memory,
so they are computed for one block of documents at a time and discarded. The forward pass keeps the maxima
and their positions, which is all that the gradient needs. Knows nothing about losses.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import tensorflow as tf

# Similarities in memory at a time. On a CPU 4 MiB: few enough to stay near its cache, and enough that finding
# the largest of a block costs more than merging them with those of other blocks. An accelerator needs large
# products and few sequential steps: 512 MiB, of the 16 GB of the smallest one in use (TPU v5e), for the
# block, its masked copy and the results of top-k.
_BLOCK_ELEMENTS = {"cpu": 2**20, "accelerator": 2**27}


class MaxSimilarities(NamedTuple):
    """The maxima and thresholds of query tokens.

    Attributes:
        values: Largest similarity among a document's tokens, `[Q, n, D]`. `-inf` if the document has no token
            or is not a candidate of the query.
        threshold: The k-th largest similarity over all candidates' tokens, `[Q, n]`. `-inf` if there are
            fewer than k.
    """

    values: tf.Tensor
    threshold: tf.Tensor


def max_similarities(
    queries: tf.Tensor,
    documents: tf.Tensor,
    document_mask: tf.Tensor,
    candidates: tf.Tensor,
    k: int = 0,
    recall: float = 1.0,
    block: int | None = None,
    query_mask: tf.Tensor | None = None,
) -> MaxSimilarities:
    """Computes MaxSim per query token: the maximum of `queries @ documents` over each document's tokens.

    The gradient flows to the token with the maximum (the first one if there are several). No gradient flows
    through `threshold`.

    Args:
        queries: `[Q, n, dim]`.
        documents: `[D, m, dim]`.
        document_mask: `[D, m]`, true for real tokens.
        candidates: `[Q, D]`, false where a document must be invisible to a query.
        k: Rank of the threshold. 0 leaves it at `-inf`.
        recall: Below 1, `tf.math.approx_max_k` finds the k largest of a block with this recall, which suits a
            TPU. At 1 the result is exact.
        block: Documents at a time. Defaults to as many as keep the similarities of a block small.
        query_mask: `[Q, n]`, true for real tokens. If given, padding costs nothing, and its maxima and
            thresholds are `-inf`. The number of real tokens depends on the data, so XLA cannot compile it.

    Returns:
        The maxima `[Q, n, D]`, and the k-th largest similarity of each query token.
    """
    if query_mask is not None:
        tokens, positions = _pack(queries, query_mask)
        packed = max_similarities(
            tokens, documents, document_mask, tf.gather(candidates, positions[:, 0]), k, recall, block
        )
        return MaxSimilarities(*(_unpack(part, positions, tf.shape(query_mask)) for part in packed))
    queries, documents = tf.convert_to_tensor(queries), tf.convert_to_tensor(documents)
    layout = _Layout.of(queries, documents, block)
    mask_blocks = tf.reshape(
        _pad_documents(document_mask, layout), [layout.blocks, layout.block, layout.document_length]
    )
    candidate_blocks = tf.reshape(
        _pad_documents(tf.transpose(candidates), layout), [layout.blocks, layout.block, layout.queries]
    )

    @tf.custom_gradient
    def maxima(queries: tf.Tensor, documents: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], Any]:
        rows = tf.reshape(queries, [layout.rows, layout.dim])
        document_blocks = tf.reshape(
            _pad_documents(documents, layout),
            [layout.blocks, layout.block * layout.document_length, layout.dim],
        )
        values, winners, threshold = _forward(
            layout, rows, document_blocks, mask_blocks, candidate_blocks, k, recall
        )

        def gradient(d_values: tf.Tensor, d_threshold: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            del d_threshold  # The selection is a constant of the gradient.
            d_rows, d_documents = _backward(layout, rows, document_blocks, winners, d_values)
            return tf.reshape(d_rows, tf.shape(queries)), d_documents

        return (values, threshold), gradient

    return MaxSimilarities(*maxima(queries, documents))


class _Layout(NamedTuple):
    """The division of documents into blocks: integers if shapes are static, for XLA, otherwise tensors."""

    queries: Any
    query_length: Any
    dim: Any
    documents: Any
    document_length: Any
    block: Any
    blocks: Any

    @property
    def rows(self) -> Any:
        return self.queries * self.query_length

    @classmethod
    def of(cls, queries: tf.Tensor, documents: tf.Tensor, block: int | None) -> _Layout:
        query_count, query_length, dim = _shape(queries)
        document_count, document_length, _ = _shape(documents)
        size: Any = block
        if size is None:
            elements = query_count * query_length * document_length
            static = isinstance(elements, int) and isinstance(document_count, int)
            least, most = (min, max) if static else (tf.minimum, tf.maximum)
            at_once = _BLOCK_ELEMENTS[_device_kind()]
            size = least(most(1, at_once // most(1, elements)), document_count)
        return cls(
            query_count, query_length, dim, document_count, document_length, size, -(-document_count // size)
        )


def _device_kind() -> Literal["cpu", "accelerator"]:
    is_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
    return "accelerator" if is_tpu or tf.config.list_physical_devices("GPU") else "cpu"


def _shape(tensor: tf.Tensor) -> list[Any]:
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]


def _pad_documents(tensor: tf.Tensor, layout: _Layout) -> tf.Tensor:
    missing = layout.blocks * layout.block - layout.documents
    if isinstance(missing, int) and missing == 0:
        return tensor
    return tf.pad(tensor, [[0, missing]] + [[0, 0]] * (len(tensor.shape) - 1))


def _forward(
    layout: _Layout,
    rows: tf.Tensor,
    document_blocks: tf.Tensor,
    mask_blocks: tf.Tensor,
    candidate_blocks: tf.Tensor,
    k: int,
    recall: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns maxima `[Q, n, D]`, the winning tokens `[blocks, rows, block]`, and thresholds `[Q, n]`."""

    def visit(
        i: tf.Tensor, best: tf.Tensor, values: tf.TensorArray, winners: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray, tf.TensorArray]:
        similarities = tf.reshape(
            tf.matmul(rows, document_blocks[i], transpose_b=True),
            [layout.queries, layout.query_length, layout.block, layout.document_length],
        )
        visible = tf.transpose(candidate_blocks[i])[:, None, :, None] & mask_blocks[i]
        similarities = tf.reshape(
            tf.where(visible, similarities, -float("inf")),
            [layout.rows, layout.block, layout.document_length],
        )
        values = values.write(i, tf.reduce_max(similarities, axis=-1))
        winners = winners.write(i, tf.argmax(similarities, axis=-1, output_type=tf.int32))
        if k:
            best = _merge_largest(best, tf.reshape(similarities, [layout.rows, -1]), k, recall)
        return i + 1, best, values, winners

    _, best, values, winners = tf.while_loop(
        lambda i, *_: i < layout.blocks,
        visit,
        (
            0,
            tf.fill([layout.rows, max(k, 1)], -float("inf")),
            tf.TensorArray(tf.float32, layout.blocks),
            tf.TensorArray(tf.int32, layout.blocks),
        ),
        parallel_iterations=1,
    )
    maxima = tf.reshape(
        tf.transpose(values.stack(), [1, 0, 2]),
        [layout.queries, layout.query_length, layout.blocks * layout.block],
    )
    threshold = tf.reshape(tf.reduce_min(best, axis=-1), [layout.queries, layout.query_length])
    return maxima[..., : layout.documents], winners.stack(), threshold


def _backward(
    layout: _Layout, rows: tf.Tensor, document_blocks: tf.Tensor, winners: tf.Tensor, d_values: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients of the rows `[rows, dim]` and of the documents `[D, m, dim]`."""
    missing = layout.blocks * layout.block - layout.documents
    weights = tf.pad(tf.reshape(d_values, [layout.rows, layout.documents]), [[0, 0], [0, missing]])
    weight_blocks = tf.transpose(tf.reshape(weights, [layout.rows, layout.blocks, layout.block]), [1, 0, 2])
    starts = tf.range(layout.block) * layout.document_length

    def visit(
        i: tf.Tensor, d_rows: tf.Tensor, d_documents: tf.TensorArray
    ) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
        tokens = winners[i] + starts
        weight = weight_blocks[i]
        vectors = tf.gather(document_blocks[i], tokens)
        d_rows += tf.squeeze(tf.matmul(weight[:, None, :], vectors), axis=1)
        pulls = weight[:, :, None] * rows[:, None, :]
        d_block = tf.math.unsorted_segment_sum(pulls, tokens, layout.block * layout.document_length)
        return i + 1, d_rows, d_documents.write(i, d_block)

    _, d_rows, d_documents = tf.while_loop(
        lambda i, *_: i < layout.blocks,
        visit,
        (0, tf.zeros_like(rows), tf.TensorArray(tf.float32, layout.blocks)),
        parallel_iterations=1,
    )
    d_documents = tf.reshape(
        d_documents.stack(), [layout.blocks * layout.block, layout.document_length, layout.dim]
    )
    return d_rows, d_documents[: layout.documents]


def _merge_largest(best: tf.Tensor, similarities: tf.Tensor, k: int, recall: float) -> tf.Tensor:
    """Returns the k largest of `best` `[rows, k]` and `similarities` `[rows, columns]`, in any order.

    The values of `best` come first. TensorFlow's CPU kernel scans a row with a heap of size k. They fill the
    heap, and most other values are then rejected by one comparison.
    """
    columns = similarities.shape[-1]
    if recall < 1 and columns is not None and columns > k:
        similarities, _ = tf.math.approx_max_k(similarities, k, recall_target=recall)
    return tf.math.top_k(tf.concat([best, similarities], axis=1), k, sorted=False).values


def _pack(queries: tf.Tensor, query_mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns real query tokens as queries of one token `[rows, 1, dim]`, and their positions `[rows, 2]`."""
    positions = tf.cast(tf.where(query_mask), tf.int32)
    return tf.gather_nd(queries, positions)[:, None, :], positions


def _unpack(values: tf.Tensor, positions: tf.Tensor, shape: tf.Tensor) -> tf.Tensor:
    """Converts `[rows, 1, ...]` back to `[Q, n, ...]`, with `-inf` for padding."""
    # Rows are numbered from 1, and 0 is a row of `-inf`.
    numbers = tf.scatter_nd(positions, tf.range(tf.shape(positions)[0]) + 1, shape)
    padding = tf.fill(tf.concat([[1], tf.shape(values)[2:]], axis=0), -float("inf"))
    return tf.gather(tf.concat([padding, values[:, 0]], axis=0), numbers)
