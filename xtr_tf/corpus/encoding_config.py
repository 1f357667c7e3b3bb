"""How documents become token vectors: splitting, storage, pruning. Knows no model and no files."""

from __future__ import annotations

import dataclasses
from typing import Any

from xtr_tf.config.schema import require
from xtr_tf.corpus.shard_arrays import VECTOR_DTYPES


@dataclasses.dataclass(frozen=True)
class EncodingConfig:
    """Settings of `xtr-tf encode`. Pruning is off unless asked for.

    Attributes:
        passage_length: Tokens of a passage, its end-of-sequence included; 0 means the
            `document_length` of the model's tokenizer.
        overlap: Tokens that two neighbouring passages of a long document share; None means an
            eighth of the passage.
        dtype: What vectors are stored as, `float16` or `bfloat16`.
        keep_text: Whether to keep texts beside the vectors, for display with the results.
        batch_tokens: Tokens encoded at once, padding included.
        skip_punctuation: Leaves out pieces of nothing but punctuation.
        skip_pieces: Leaves out these pieces, written as in the vocabulary (`▁the`).
        min_norm: Leaves out tokens whose projection, before it is normalised, is shorter.
        max_tokens: Keeps only the first so many tokens of a document; 0 keeps all.
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

    def __post_init__(self) -> None:
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
        """What, beside the encoder, decides which vectors a document gets and how they are stored."""
        settings = dataclasses.asdict(self)
        del settings["keep_text"], settings["batch_tokens"]
        settings["skip_pieces"] = sorted(set(self.skip_pieces))
        return settings
