"""Settings of encoding, indexing and searching: everything after training.

Knows no models, files or TensorFlow, so that a configuration is checked before any of them is loaded.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from xtr_tf.collections.fields import check_fields
from xtr_tf.config.model import Dtype
from xtr_tf.errors import require

#: Score of a query token for a document of which it retrieved nothing: its cut-off m_i, zero, or a constant.
#: With `none` the token does not count, and the mean is over the tokens that retrieved something.
IMPUTATIONS = ("top_k_prime", "zero", "constant", "none")


#: Weights of query tokens: all equal, as in the paper, or by how rare their pieces are (`idf`).
TOKEN_WEIGHTS = ("none", "idf")


#: How to combine f_XTR' and BM25: by a weighted mean on one scale, or by reciprocal ranks.
FUSIONS = ("weighted", "rrf")


#: Terms of BM25 in a hybrid index; `none` for an index without BM25.
LEXICAL = ("none", "words", "ngrams")


#: Types that token vectors can be stored as.
VECTOR_DTYPES = ("float16", "bfloat16")


@dataclasses.dataclass(frozen=True)
class EncodingConfig:
    """Settings of `xtr-tf encode`. Pruning is off by default.

    Attributes:
        passage_length: Tokens per passage, end-of-sequence included; 0 for the `document_length` of the
            model's tokenizer.
        overlap: Tokens that neighbouring passages of a long document share, so that tokens near an edge have
            context; None for an eighth of a passage. One vector of each shared token is kept.
        dtype: Type of the stored vectors, `float16` or `bfloat16`.
        keep_text: Whether to keep texts next to the vectors, to show them with results.
        batch_tokens: Tokens to encode at once, padding included.
        skip_punctuation: Whether to leave out pieces that are only punctuation.
        skip_pieces: Pieces to leave out, written as in the vocabulary (`▁the`).
        min_norm: Leave out tokens whose projection, before it is normalised, is shorter than this.
        max_tokens: Keep only this many tokens of each document; 0 keeps all.
        length_penalty: How much less the tokens of long documents count, which match more by chance: the
            vectors of a document with m tokens are multiplied by `(m / 128) ** -length_penalty`. With 0, as
            in the paper, not at all.
        repetition_bonus: How much more pieces count that a document repeats: the vectors of a piece that
            occurs n times are multiplied by `1 + repetition_bonus * ln(n)`. With 0, as in the paper, not at
            all.
        compute_dtype: The dtype policy to encode documents with, `float32` or `mixed_bfloat16`; empty for the
            encoder's own. On processors with bfloat16 instructions, `mixed_bfloat16` takes much less time and
            changes vectors by about a hundredth of their length; on others it takes more.
        fields: Names and types (`keyword`, `keywords`, `int`, `float`, `bool`) of additional document fields,
            which are kept with the vectors for filters and results.
    """

    passage_length: int = 0
    overlap: int | None = None
    dtype: str = "float16"
    keep_text: bool = True
    batch_tokens: int = 4096
    skip_punctuation: bool = False
    skip_pieces: tuple[str, ...] = ()
    min_norm: float = 0.0
    max_tokens: int = 0
    length_penalty: float = 0.0
    repetition_bonus: float = 0.0
    compute_dtype: Literal["", "float32", "mixed_bfloat16"] = ""
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_fields(self.fields)
        require(
            self.dtype in VECTOR_DTYPES,
            f"Token vectors are stored as {' or '.join(VECTOR_DTYPES)}.",
            self.dtype,
        )
        require(
            self.passage_length == 0 or self.passage_length >= 2,
            "A passage has at least 2 tokens (one and its end), or 0 for the model's own length.",
            self.passage_length,
        )
        require(self.overlap is None or self.overlap >= 0, "`overlap` must not be negative.", self.overlap)
        require(self.batch_tokens >= 1, "`batch_tokens` must be positive.", self.batch_tokens)
        require(self.min_norm >= 0, "`min_norm` must not be negative.", self.min_norm)
        require(self.max_tokens >= 0, "`max_tokens` must not be negative.", self.max_tokens)
        for name in ("length_penalty", "repetition_bonus"):
            value = getattr(self, name)
            require(0 <= value < 1, f"`{name}` must be at least 0 (none) and below 1.", value)
        require(
            self.compute_dtype in ("", *get_args(Dtype)),
            f"`compute_dtype` must be one of {', '.join(get_args(Dtype))}, or empty.",
            self.compute_dtype,
        )

    def resolved(self, document_length: int) -> EncodingConfig:
        """Fills in the defaults that depend on the model.

        Args:
            document_length: The document length of the model's tokenizer.

        Returns:
            The complete configuration.

        Raises:
            InputError: `overlap` leaves no room for new tokens.
        """
        length = self.passage_length or document_length
        overlap = length // 8 if self.overlap is None else self.overlap
        require(
            overlap < length - 1,
            f"`overlap` must leave room for new tokens in a passage of {length}, its end included.",
            overlap,
        )
        return dataclasses.replace(self, passage_length=length, overlap=overlap)

    def vector_settings(self) -> dict[str, Any]:
        """Settings that decide, with the encoder, which vectors a document gets and how they are stored."""
        settings = dataclasses.asdict(self)
        del settings["keep_text"], settings["batch_tokens"], settings["fields"]
        settings["skip_pieces"] = sorted(set(self.skip_pieces))
        # Folders without this have two vectors of each token in an overlap.
        settings["shared_tokens"] = "once"
        for name in ("length_penalty", "repetition_bonus", "compute_dtype"):
            if not settings[name]:  # as in folders of versions that did not have it, which can be reused
                del settings[name]
        return settings

    @classmethod
    def from_vector_settings(
        cls, settings: Mapping[str, Any], keep_text: bool, fields: Mapping[str, str]
    ) -> EncodingConfig:
        """Returns the configuration that encodes more documents as an earlier one did.

        Args:
            settings: What `vector_settings` returned.
            keep_text: Whether to keep texts next to the vectors.
            fields: Names and types of additional document fields.

        Returns:
            The configuration.

        Raises:
            InputError: The vectors come from a version that encoded long documents in another way.
        """
        known = dict(settings)
        require(
            known.pop("shared_tokens", "twice") == "once",
            "These vectors come from an earlier version, which kept two vectors of each token in an overlap; "
            "encode the corpus again.",
            dict(settings),
        )
        known["skip_pieces"] = tuple(known.get("skip_pieces", ()))
        return cls(**known, keep_text=keep_text, fields=fields)


@dataclasses.dataclass(frozen=True)
class IndexConfig:
    """Settings of an index of token vectors.

    Attributes:
        kind: `scann` (fastest, smallest; needs ScaNN's ops), `core` (stock TensorFlow ops), `exact` (brute
            force, stock ops), or `auto`: `exact` for a small corpus, `scann` for a larger one. With any
            index, the tokenizer of an exported model needs tf.text's SentencePiece op.
        num_leaves: k-means leaves of `scann` and `core`; 0 for 4 times the square root of the number of
            tokens.
        num_leaves_to_search: Leaves to search; 0 derives it from the number of leaves and k'.
        sample_size: Tokens to train leaves and codebooks on; 0 for 64 per leaf.
        kmeans_iterations: Number of k-means iterations.
        seed: Seed of the sample and of k-means.
        dims_per_block: Dimensions that share one 4-bit code (`scann`).
        anisotropic_threshold: Similarity above which the codes are most precise (`scann`); 0 for plain
            product quantisation.
        reordering: Whether to score hits again by int8 vectors (`scann`), for `dim` bytes per token.
        dtype: Type of the vectors in a `core` (`int8`, `int4`, `bfloat16`) or `exact` (`float32`,
            `float16`, `bfloat16`) index; empty for `int8` and `float16`. `int4` takes half the memory of
            `int8` and is less precise.
        num_shards: Searchers to divide the tokens over in one model; their results are merged exactly.
        parallel_searches: Parts of a large batch that one `scann` index searches at the same time.
        lexical: BM25 for hybrid search: `none`, over `words`, or over character `ngrams`, which also suit
            scripts without spaces. Needs texts that are kept with the vectors.
    """

    kind: Literal["auto", "scann", "core", "exact"] = "scann"
    num_leaves: int = 0
    num_leaves_to_search: int = 0
    sample_size: int = 0
    kmeans_iterations: int = 10
    seed: int = 0
    dims_per_block: int = 2
    anisotropic_threshold: float = 0.2
    reordering: bool = False
    dtype: Literal["", "int8", "int4", "bfloat16", "float16", "float32"] = ""
    num_shards: int = 1
    parallel_searches: int = 2
    lexical: Literal["none", "words", "ngrams"] = "none"

    RENAMED: ClassVar[Mapping[str, str]] = {
        "cells": "num_leaves",
        "leaves": "num_leaves_to_search",
        "training_rounds": "kmeans_iterations",
    }

    def __post_init__(self) -> None:
        for name in ("num_leaves", "num_leaves_to_search", "sample_size"):
            value = getattr(self, name)
            require(value >= 0, f"`index.{name}` must be 0 (automatic) or more.", value)
        for name in ("kmeans_iterations", "dims_per_block", "num_shards", "parallel_searches"):
            require(getattr(self, name) >= 1, f"`index.{name}` must be positive.", getattr(self, name))
        require(
            0 <= self.anisotropic_threshold < 1,
            "`index.anisotropic_threshold` must be in [0, 1).",
            self.anisotropic_threshold,
        )
        require(
            self.lexical in LEXICAL, f"`index.lexical` must be one of {', '.join(LEXICAL)}.", self.lexical
        )
        allowed = {
            "auto": ("",),
            "scann": ("",),
            "core": ("", "int8", "int4", "bfloat16"),
            "exact": ("", "float32", "float16", "bfloat16"),
        }
        require(
            self.dtype in allowed[self.kind],
            f"`index.dtype` of a {self.kind} index must be one of {allowed[self.kind]}.",
            self.dtype,
        )


#: Text that a model returns with a document: none, where the query matched, or all.
STORE_TEXT = ("none", "snippet", "full")
StoreText = Literal["none", "snippet", "full"]


#: The largest `top_k` of a request. Results are padded to `top_k`, so a larger one would let a
#: single request fill the memory of the server.
MAX_TOP_K = 10_000


#: Lower than any score, but a number that JSON can represent.
NO_MIN_SCORE = -1e30


@dataclasses.dataclass(frozen=True)
class SearchDefaults:
    """Parameters of `serving_default`, and defaults of the inputs of `search`.

    Attributes:
        k_prime: Document tokens that each query token retrieves (k' in the paper).
        top_k: Number of documents to return, at most `MAX_TOP_K`.
        leaves: Leaves of the index to search; with 0 the index decides.
        imputation: Score of a query token for a document of which it retrieved nothing, one of
            `xtr_tf.config.retrieval.IMPUTATIONS`.
        constant: The score that the imputation `constant` uses.
        rescore: Number of candidates to rank again by exact f_ColBERT; 0 for none. Needs an index that keeps
            vectors (`exact`, `core`, or `scann` with reordering).
        token_weights: Weights of query tokens, one of `TOKEN_WEIGHTS`. `idf` needs an index that was built
            with the pieces of its tokens, as by `xtr-tf index`.
        min_score: Do not return documents with a lower score.
        alpha: Weight of BM25 in the score, from 0 (XTR only) to 1 (BM25 only). Above 0 it needs an index
            with `lexical`.
        fusion: How to combine the two scores, one of `FUSIONS`.
    """

    k_prime: int = 1_000
    top_k: int = 10
    leaves: int = 0
    imputation: str = "top_k_prime"
    constant: float = 0.0
    rescore: int = 0
    token_weights: str = "none"
    min_score: float = NO_MIN_SCORE
    alpha: float = 0.0
    fusion: str = "weighted"

    def __post_init__(self) -> None:
        require(self.k_prime >= 1, "`k_prime` must be at least 1.", self.k_prime)
        require(1 <= self.top_k <= MAX_TOP_K, f"`top_k` must be between 1 and {MAX_TOP_K}.", self.top_k)
        require(self.leaves >= 0, "`leaves` must be 0 (automatic) or more.", self.leaves)
        require(
            self.imputation in IMPUTATIONS,
            f"`imputation` must be one of {', '.join(IMPUTATIONS)}.",
            self.imputation,
        )
        require(math.isfinite(self.constant), "`constant` must be a finite number.", self.constant)
        require(
            self.rescore == 0 or self.top_k <= self.rescore <= MAX_TOP_K,
            f"`rescore` must be 0 (none) or between `top_k` and {MAX_TOP_K}.",
            self.rescore,
        )
        require(
            self.token_weights in TOKEN_WEIGHTS,
            f"`token_weights` must be one of {', '.join(TOKEN_WEIGHTS)}.",
            self.token_weights,
        )
        require(math.isfinite(self.min_score), "`min_score` must be a finite number.", self.min_score)
        require(0 <= self.alpha <= 1, "`alpha` must be between 0 (XTR) and 1 (BM25).", self.alpha)
        require(self.fusion in FUSIONS, f"`fusion` must be one of {', '.join(FUSIONS)}.", self.fusion)
