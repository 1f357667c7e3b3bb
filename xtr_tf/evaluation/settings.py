"""What an evaluation can be told."""

from __future__ import annotations

import dataclasses

from xtr_tf.config.schema import require

# Recall at 1,000 says nothing of a corpus of which a thousand documents are a large part.
_DEEP_FROM_DOCUMENTS = 20_000


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Settings of `xtr-tf evaluate`.

    Attributes:
        k_prime: Tokens that each query token retrieves.
        depth: Documents of each query that are ranked; 0 means 1,000 in a corpus of 20,000 documents
            or more, and 100 in a smaller one.
        max_queries: Queries of each dataset, chosen by `seed`; 0 means all.
        bm25: Whether to run the BM25 baselines.
        fusion: Whether to fuse the model with BM25 by reciprocal rank.
        analysis_queries: Queries of each dataset whose tokens are analysed; 0 for no analysis.
        exact_queries: Queries of each dataset that are also searched exactly if the model has an
            approximate index; 0 for none.
        examples: Worked examples of each dataset.
        seed: Of samples and resampling.
    """

    k_prime: int = 1_000
    depth: int = 0
    max_queries: int = 0
    bm25: bool = True
    fusion: bool = False
    analysis_queries: int = 100
    exact_queries: int = 100
    examples: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.k_prime >= 1, "`k_prime` must be at least 1.", self.k_prime)
        require(self.depth == 0 or self.depth >= 10, "`depth` must be at least 10, or 0.", self.depth)
        for name in ("max_queries", "analysis_queries", "exact_queries", "examples", "seed"):
            require(getattr(self, name) >= 0, f"`{name}` must not be negative.", getattr(self, name))
        require(self.bm25 or not self.fusion, "Fusion needs BM25; leave `bm25` on.", self.fusion)

    def depth_for(self, documents: int, by_answers: bool) -> int:
        """How deep to search a corpus of so many documents."""
        if self.depth:
            return self.depth
        return 1_000 if documents >= _DEEP_FROM_DOCUMENTS and not by_answers else 100
