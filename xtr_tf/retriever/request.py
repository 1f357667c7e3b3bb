"""The parameters of one request as tensors, and their ranges, enforced inside the graph.

`k_prime` and `leaves` are checked by the searcher, `imputation` by the scoring; what is left is here.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from xtr_tf.config.retrieval import MAX_TOP_K, SearchDefaults


class SearchRequest(NamedTuple):
    """How to search, scalars unless said otherwise.

    Attributes:
        k_prime: int32, tokens that each query token retrieves.
        top_k: int32, documents returned.
        leaves: int32, cells of the index to look into, 0 for the index's own rule.
        imputation: string, one of `xtr_tf.scoring.IMPUTATIONS`.
        constant: float32, the score of what was not retrieved under `constant`.
        languages: `[any]` strings; only documents in one of them are returned; all if it is empty or None.
        rescore: int32, candidates that are ranked anew by exact f_ColBERT over the kept vectors, 0 for none.
    """

    k_prime: tf.Tensor
    top_k: tf.Tensor
    leaves: tf.Tensor
    imputation: tf.Tensor
    constant: tf.Tensor
    languages: tf.Tensor | None
    rescore: tf.Tensor

    @classmethod
    def specs(cls) -> dict[str, tf.TensorSpec]:
        """Dtypes and shapes, by name."""
        dtypes = cls(tf.int32, tf.int32, tf.int32, tf.string, tf.float32, tf.string, tf.int32)
        return {
            name: tf.TensorSpec([None] if name == "languages" else [], dtype, name=name)
            for name, dtype in dtypes._asdict().items()
        }

    @classmethod
    def default(cls, defaults: SearchDefaults) -> SearchRequest:
        """What `defaults` says, with no language filter."""
        return cls(
            tf.constant(defaults.k_prime),
            tf.constant(defaults.top_k),
            tf.constant(defaults.leaves),
            tf.constant(defaults.imputation),
            tf.constant(defaults.constant),
            tf.constant([], tf.string),
            tf.constant(defaults.rescore),
        )

    def checked(self) -> SearchRequest:
        """The same request, which fails when run if a value is out of range."""
        checks = [
            require(
                (self.top_k >= 1) & (self.top_k <= MAX_TOP_K),
                f"`top_k` must be between 1 and {MAX_TOP_K}. Received:",
                self.top_k,
            ),
            require(
                tf.math.is_finite(self.constant),
                "`constant` must be a finite number. Received:",
                self.constant,
            ),
            require(
                (self.rescore == 0) | (self.rescore >= self.top_k) & (self.rescore <= MAX_TOP_K),
                f"`rescore` must be 0 (none) or between `top_k` and {MAX_TOP_K}. Received:",
                self.rescore,
            ),
        ]
        with tf.control_dependencies(checks):
            return SearchRequest(*(tf.identity(value) for value in self))


def require(condition: tf.Tensor, message: str, received: tf.Tensor) -> tf.Operation:
    """An op that fails with `message` and the value received; make what depends on it wait for it."""
    return tf.debugging.Assert(condition, [message, received])


def is_blank(ids: tf.RaggedTensor) -> tf.Tensor:
    """Which rows of `[batch, (tokens)]` ids hold the end-of-sequence token alone, `[batch]` bool."""
    return ids.row_lengths() <= 1


def require_text(ids: tf.RaggedTensor, what: str) -> tf.RaggedTensor:
    """The same ids, which fail when run if a row is blank."""
    blank = is_blank(ids)
    check = require(
        ~tf.reduce_any(blank),
        f"Every {what} must contain text. Received: blank at position",
        tf.where(blank)[:, 0],
    )
    with tf.control_dependencies([check]):
        return tf.identity(ids)
