"""A query as an evaluation searches with it."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class EncodedQuery:
    """The tokens of one query.

    Attributes:
        vectors: `[tokens, dim]` float32; none for a query without text.
        pieces: `[tokens]` int32 ids of the vocabulary, or None where the encoder does not tell.
        words: The pieces as strings, empty where the encoder does not tell.
    """

    vectors: np.ndarray
    pieces: np.ndarray | None = None
    words: tuple[str, ...] = ()
