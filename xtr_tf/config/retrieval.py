"""How documents are encoded, indexed and queries answered: settings of everything after training.

Knows no model, no files and no TensorFlow, so that a configuration is checked before either is touched.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from xtr_tf.collections.fields import check_fields
from xtr_tf.errors import require

#: How a query token counts for a document of which it retrieved nothing: with its cut-off score m_i,
#: with zero, with a constant, or (`none`) not at all: the mean is then over what was retrieved.
IMPUTATIONS = ("top_k_prime", "zero", "constant", "none")


#: What a query token counts for: all the same (the paper's), or by how rare its piece is (`idf`).
TOKEN_WEIGHTS = ("none", "idf")


#: How f_XTR' and BM25 become one score: by a weighted mean on one scale, or by reciprocal ranks.
FUSIONS = ("weighted", "rrf")


#: What BM25 of a hybrid index counts; there is none without.
LEXICAL = ("none", "words", "ngrams")


#: What token vectors can be stored as.
VECTOR_DTYPES = ("float16", "bfloat16")


@dataclasses.dataclass(frozen=True)
class EncodingConfig:
    """Settings of `xtr-tf encode`. Pruning is off unless asked for.

    Attributes:
        passage_length: Tokens of a passage, its end-of-sequence included; 0 means the
            `document_length` of the model's tokenizer.
        overlap: Tokens that two neighbouring passages of a long document share; None means an
            eighth of the passage.
        dtype: What vectors are stored as, `float16` or `bfloat16`.
        keep_text: Whether to keep texts next to the vectors, for display with the results.
        batch_tokens: Tokens encoded at once, padding included.
        skip_punctuation: Leaves out pieces that are only punctuation.
        skip_pieces: Leaves out these pieces, written as in the vocabulary (`▁the`).
        min_norm: Leaves out tokens whose projection, before it is normalised, is shorter.
        max_tokens: Keeps only the first N tokens of a document; 0 keeps all.
        fields: Names and types (`keyword`, `keywords`, `int`, `float`, `bool`) of what documents have besides
            title, text and language; kept with the vectors, for filters and answers.
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
            "A passage has 2 tokens at least (one and its end), or 0 for the model's own length.",
            self.passage_length,
        )
        require(self.overlap is None or self.overlap >= 0, "`overlap` must not be negative.", self.overlap)
        require(self.batch_tokens >= 1, "`batch_tokens` must be positive.", self.batch_tokens)
        require(self.min_norm >= 0, "`min_norm` must not be negative.", self.min_norm)
        require(self.max_tokens >= 0, "`max_tokens` must not be negative.", self.max_tokens)

    def resolved(self, document_length: int) -> EncodingConfig:
        """This configuration with every default that depends on the model filled in.

        Args:
            document_length: Of the model's tokenizer.
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
        """What, besides the encoder, decides which vectors a document gets and how they are stored."""
        settings = dataclasses.asdict(self)
        del settings["keep_text"], settings["batch_tokens"], settings["fields"]
        settings["skip_pieces"] = sorted(set(self.skip_pieces))
        return settings


@dataclasses.dataclass(frozen=True)
class IndexConfig:
    """How token vectors are kept and searched.

    Attributes:
        kind: `scann` (fastest, smallest; needs ScaNN's ops), `core` (stock TensorFlow ops), `exact` (brute
            force, stock ops), or `auto`: `exact` while that is quick, `scann` beyond. The tokenizer of an
            exported model needs tf.text's SentencePiece op whatever the index.
        num_leaves: k-means leaves of `scann` and `core`; 0 takes 4 times the root of the tokens.
        num_leaves_to_search: Leaves that a search looks into; 0 lets it follow from their number and k'.
        sample_size: Tokens that leaves and codebooks are trained on; 0 takes 64 per leaf.
        kmeans_iterations: How often k-means assigns the sample and moves the centres.
        seed: Of the sample and of k-means.
        dims_per_block: Dimensions that share one 4-bit code (`scann`).
        anisotropic_threshold: Similarity from which precision matters when codes are chosen
            (`scann`); 0 makes a plain product quantiser.
        reordering: Whether hits are scored again by int8 vectors (`scann`); costs `dim` bytes per token.
        dtype: What `core` (`int8`, `bfloat16`) and `exact` (`float32`, `float16`, `bfloat16`) keep
            vectors as; empty takes `int8` and `float16`.
        num_shards: Searchers that the tokens are divided over in one model, merged exactly.
        parallel_searches: Parts of a large batch that one `scann` index searches at the same time.
        lexical: Whether BM25 comes with the index, for hybrid search: `none`, over `words`, or over character
            `ngrams`, which also suit scripts without spaces; needs texts to be kept with the vectors.
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
    dtype: Literal["", "int8", "bfloat16", "float16", "float32"] = ""
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
            "core": ("", "int8", "bfloat16"),
            "exact": ("", "float32", "float16", "bfloat16"),
        }
        require(
            self.dtype in allowed[self.kind],
            f"`index.dtype` of a {self.kind} index must be one of {allowed[self.kind]}.",
            self.dtype,
        )


#: What of its documents' texts a model returns: nothing, where a query matched, or all.
STORE_TEXT = ("none", "snippet", "full")
StoreText = Literal["none", "snippet", "full"]


#: A request may ask for no more documents than this: results are padded to `top_k`, and a
#: larger one would let a single request fill the server's memory.
MAX_TOP_K = 10_000


#: Lower than any score, and a number that JSON can write.
NO_MIN_SCORE = -1e30


@dataclasses.dataclass(frozen=True)
class SearchDefaults:
    """Parameters of `serving_default`, and of `search` for inputs that a request leaves out.

    Attributes:
        k_prime: Tokens that each query token retrieves (k' of the paper).
        top_k: Documents returned, at most `MAX_TOP_K`.
        leaves: Leaves of the index to search; 0 for the index's own rule.
        imputation: How a query token counts for a document of which it retrieved nothing,
            one of `xtr_tf.config.retrieval.IMPUTATIONS`.
        constant: What it counts with under the imputation `constant`.
        rescore: Candidates that are ranked again by exact f_ColBERT, 0 for none; needs an index that
            keeps vectors (`exact`, `core`, or `scann` with reordering).
        token_weights: What a query token counts for, one of `TOKEN_WEIGHTS`; `idf` needs an index that was
            built with the pieces of its tokens, as `xtr-tf index` does.
        min_score: Documents with a lower score are not returned.
        alpha: What BM25 counts for in the score, from 0 (nothing) to 1 (everything); beyond 0 needs an index
            with `lexical`.
        fusion: How the two scores are made one, a name of `FUSIONS`.
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
