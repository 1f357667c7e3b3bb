"""The parameters of a request: their names, their ranges, and how a signature takes them.

Every parameter is a list with one value per query, or one value for all queries. So servers can join the
requests of several callers along the first dimension, and split the answers again. This is the only place
that lists them: `SearchRequest.specs` has their names and dtypes, and a signature gets them from
`with_parameters`. The searcher checks `k_prime` and `leaves`, and scoring checks `imputation`. The others are
checked here, inside the graph. Knows nothing about the index.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from xtr_tf.config.retrieval import FUSIONS, MAX_TOP_K, TOKEN_WEIGHTS, SearchDefaults

#: The first input of most signatures.
QUERY = tf.TensorSpec([None], tf.string, name="query")


class SearchRequest(NamedTuple):
    """The parameters of a search: `[queries]` each, or `[1]` for all queries.

    Attributes:
        k_prime: int32, document tokens that each query token retrieves.
        top_k: int32, documents to return.
        leaves: int32, leaves of the index to probe; 0 for the default of the index.
        imputation: string, one of `xtr_tf.config.retrieval.IMPUTATIONS`.
        constant: float32, m_i under `constant`.
        languages: string, only documents in one of these languages, separated by commas, are searched; all if
            it is empty. None stands for all languages in all queries.
        rescore: int32, number of candidates that are ranked again by exact f_ColBERT over the stored vectors;
            0 for none.
        token_weights: string, one of `xtr_tf.config.retrieval.TOKEN_WEIGHTS`.
        filter: string, conditions on the fields of documents (`filters.py`). Only documents that meet them
            are searched; all if it is empty. None stands for no filter in any query.
        min_score: float32, documents with a lower score are not returned.
        alpha: float32, weight of BM25 in the score, from 0 to 1.
        fusion: string, one of `xtr_tf.config.retrieval.FUSIONS`.
    """

    k_prime: tf.Tensor
    top_k: tf.Tensor
    leaves: tf.Tensor
    imputation: tf.Tensor
    constant: tf.Tensor
    languages: tf.Tensor | None
    rescore: tf.Tensor
    token_weights: tf.Tensor
    filter: tf.Tensor | None
    min_score: tf.Tensor
    alpha: tf.Tensor
    fusion: tf.Tensor

    @classmethod
    def specs(cls) -> dict[str, tf.TensorSpec]:
        """Returns the dtypes and shapes of all parameters, by name."""
        dtypes = cls(
            *(tf.int32, tf.int32, tf.int32, tf.string, tf.float32, tf.string, tf.int32),
            *(tf.string, tf.string, tf.float32, tf.float32, tf.string),
        )
        return {name: tf.TensorSpec([None], dtype, name=name) for name, dtype in dtypes._asdict().items()}

    @classmethod
    def default(cls, defaults: SearchDefaults) -> SearchRequest:
        """Creates a request with default values for all queries, and no filter.

        Args:
            defaults: The default values.

        Returns:
            The request, `[1]` each.
        """
        values = cls(
            defaults.k_prime,
            defaults.top_k,
            defaults.leaves,
            defaults.imputation,
            defaults.constant,
            "",
            defaults.rescore,
            defaults.token_weights,
            "",
            defaults.min_score,
            defaults.alpha,
            defaults.fusion,
        )
        return cls(*(tf.constant([value]) for value in values))

    def checked(self, queries: tf.Tensor) -> SearchRequest:
        """Returns the same request with checks of its values and their number, which run with the graph.

        Args:
            queries: Scalar int32, number of queries.

        Returns:
            The request.

        Raises:
            tf.errors.InvalidArgumentError: If a value is out of range, or if a parameter has too few or too
                many values. Inside a graph, it is raised when the graph runs.
        """
        lengths = tf.stack([tf.size(value) for value in self])
        counted = require(
            tf.reduce_all((lengths == 1) | (lengths == queries) & (lengths > 0)),
            "Every parameter must have one value for each query, or one for all of them. Received: lengths",
            lengths,
        )
        with tf.control_dependencies([counted]):
            top_k = tf.identity(self.top_k)
        checks = [
            require(
                tf.reduce_all((top_k >= 1) & (top_k <= MAX_TOP_K)),
                f"`top_k` must be between 1 and {MAX_TOP_K}. Received:",
                top_k,
            ),
            *(
                require(
                    tf.reduce_all(tf.math.is_finite(getattr(self, name))),
                    f"`{name}` must be a finite number. Received:",
                    getattr(self, name),
                )
                for name in ("constant", "min_score")
            ),
            require(
                tf.reduce_all((self.rescore == 0) | (self.rescore >= top_k) & (self.rescore <= MAX_TOP_K)),
                f"`rescore` must be 0 (none) or between `top_k` and {MAX_TOP_K}. Received:",
                self.rescore,
            ),
            require(
                tf.reduce_all((self.token_weights == "none") | (self.token_weights == "idf")),
                f"`token_weights` must be one of {', '.join(TOKEN_WEIGHTS)}. Received:",
                self.token_weights,
            ),
            require(
                tf.reduce_all((self.alpha >= 0) & (self.alpha <= 1)),
                "`alpha` must be between 0 (XTR) and 1 (BM25). Received:",
                self.alpha,
            ),
            require(
                tf.reduce_all((self.fusion == "weighted") | (self.fusion == "rrf")),
                f"`fusion` must be one of {', '.join(FUSIONS)}. Received:",
                self.fusion,
            ),
        ]
        with tf.control_dependencies(checks):
            return SearchRequest(*(tf.identity(value) for value in self))


def with_parameters(
    function: Callable[..., dict[str, tf.Tensor]],
    inputs: Sequence[tf.TensorSpec],
    defaults: SearchDefaults,
    names: Sequence[str] = SearchRequest._fields,
    optional: Sequence[tuple[tf.TensorSpec, tf.Tensor]] = (),
) -> Any:
    """Creates a signature from `function(*inputs, *optional, request)`, with the parameters as named inputs.

    The inputs of a signature are the parameters of the Python function that is traced, with its default
    values. To avoid writing the same parameters in every signature, the traced function accepts any arguments
    and declares its parameters through `__signature__`, which `tf.function` reads with `inspect.signature`.
    Parameters that are not in `names` have the values of `defaults`.

    Args:
        function: Called with one tensor per input and a `SearchRequest`. The trace gets its name.
        inputs: Named specs of the inputs before the parameters.
        defaults: Default values of parameters.
        names: Parameters of the signature.
        optional: Further inputs with their defaults.

    Returns:
        A `tf.function`.
    """
    default, specs = SearchRequest.default(defaults), SearchRequest.specs()
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    before = [*inputs, *(spec for spec, _ in optional)]
    signature = inspect.Signature(
        [
            *(inspect.Parameter(spec.name, kind) for spec in inputs),
            *(inspect.Parameter(spec.name, kind, default=value) for spec, value in optional),
            *(inspect.Parameter(name, kind, default=getattr(default, name)) for name in names),
        ]
    )

    def traced(*args: tf.Tensor, **kwargs: tf.Tensor) -> dict[str, tf.Tensor]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = bound.arguments
        request = default._replace(**{name: values[name] for name in names})
        return function(*(values[spec.name] for spec in before), request)

    traced.__name__ = function.__name__
    traced.__signature__ = signature  # type: ignore[attr-defined]
    return tf.function(traced, input_signature=[*before, *(specs[name] for name in names)], autograph=False)


def alike(values: tf.Tensor) -> bool:
    """Returns whether a parameter is known to be the same for all queries when the graph is built.

    Args:
        values: The values of the parameter.

    Returns:
        True if its static shape is `[1]`.
    """
    return bool(values.shape == [1])


def require(condition: tf.Tensor, message: str, received: tf.Tensor) -> tf.Operation:
    """Returns an op that fails with a message if a condition is false. Dependent ops must wait for it.

    Args:
        condition: Scalar bool.
        message: What must hold, ending in `Received:`.
        received: Values to show after it.

    Returns:
        The op.
    """
    if tf.executing_eagerly():
        return tf.debugging.Assert(condition, [message, received], summarize=8)
    # In a graph, `tf.debugging.Assert` adds a condition with two functions around the same op.
    return tf.raw_ops.Assert(condition=condition, data=[message, received], summarize=8)


def has_no_text(ids: tf.RaggedTensor) -> tf.Tensor:
    """Returns which rows have only the end-of-sequence token.

    Args:
        ids: `[batch, (tokens)]`.

    Returns:
        `[batch]` bool.
    """
    return ids.row_lengths() <= 1


def require_text(ids: tf.RaggedTensor, what: str) -> tf.RaggedTensor:
    """Returns the same ids with a check, which fails when it runs if a row has no text.

    Args:
        ids: `[batch, (tokens)]`.
        what: What a row is, for the message, such as `query`.

    Returns:
        `ids`.

    Raises:
        tf.errors.InvalidArgumentError: If a row has no text. Inside a graph, it is raised when the graph
            runs.
    """
    without = has_no_text(ids)
    check = require(
        ~tf.reduce_any(without),
        f"Every {what} must contain text. Received: blank at position",
        tf.where(without)[:, 0],
    )
    with tf.control_dependencies([check]):
        return tf.identity(ids)
