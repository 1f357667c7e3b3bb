"""What scoring the candidates of a query costs, by the paper's formulas.

Both count n k' candidates, the most there can be; encoding and token search are not counted.

Citation: [Lee et al., 2023](https://arxiv.org/abs/2304.01982), "Inference Complexity".
"""

from __future__ import annotations


def colbert_flops(query_tokens: float, k_prime: float, document_tokens: float, dim: float) -> float:
    """Operations of f_ColBERT: n^2 k' (2 m d + m + 1), which compares every pair of tokens anew.

    Args:
        query_tokens: n.
        k_prime: k'.
        document_tokens: m, the mean length of a document.
        dim: d, the width of a token vector.
    """
    return query_tokens**2 * k_prime * (2 * document_tokens * dim + document_tokens + 1)


def xtr_flops(query_tokens: float, k_prime: float, retrieved_tokens: float) -> float:
    """Operations of f_XTR': n^2 k' (r + 1), which uses the similarities that the search found.

    Args:
        query_tokens: n.
        k_prime: k'.
        retrieved_tokens: r, the mean number of tokens retrieved of a candidate.
    """
    return query_tokens**2 * k_prime * (retrieved_tokens + 1)


def gathered_bytes(query_tokens: float, k_prime: float, document_tokens: float, dim: float) -> float:
    """Memory that f_ColBERT reads for a query, float32 vectors of n k' documents, and f_XTR' does not."""
    return 4 * query_tokens * k_prime * document_tokens * dim
