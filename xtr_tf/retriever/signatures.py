"""The functions of an exported retriever. Their names, dtypes and shapes are public interface.

`B` queries, `K` documents (`top_k`), `L` tokens of the longest query, `D` vector width, `?` any number.

| signature | inputs | outputs |
|---|---|---|
| `serving_default` | `query` string[B] | `document_ids` string[B, K], `scores` float[B, K] |
| `search` | `query` string[B], *parameters* | `document_ids`, `titles`, `languages` string[B, K], \
`scores` float[B, K] |
| `search_vectors` | `encodings` float[B, L, D], `mask` bool[B, L], *parameters* | as `search` |
| `search_tokens` | `query` string[B], `k_prime` int32[], `leaves` int32[] | per query token (row, R in all) \
and hit (C): `query_of_row` int32[R], `token_ids` int32[R, C], `scores` float[R, C], `cutoffs` float[R], \
`documents` int32[R, C], which counts in `document_ids`, `titles`, `languages` string[?] |
| `explain` | as `search`, without `rescore` | as `search`, and `texts` string[B, K], `query_pieces` \
string[B, L], `retrieved` bool[B, K, L], `token_scores` float[B, K, L], `document_pieces` string[B, K, L], \
`starts`, `limits` int32[B, K, L] |
| `encode_query` | `query` string[B] | `encodings` float[B, L, D], `mask` bool[B, L] |
| `encode_document` | `document` string[B] | as `encode_query` |
| `score` | `query` string[B], `documents` string[B, ?] | `scores` float[B, ?], exact f_ColBERT |

*Parameters*, each with the model's default where the server knows defaults of inputs:

| input | | range |
|---|---|---|
| `k_prime` | int32[] | tokens a query token retrieves: 1 or more; more than there are means all |
| `top_k` | int32[] | documents returned: 1 to 10,000 |
| `leaves` | int32[] | cells of the index looked into: 0 (the index's own rule) or more |
| `imputation` | string[] | `top_k_prime`, `zero`, `constant` or `none` |
| `constant` | float[] | any finite number; counts with `constant` alone |
| `languages` | string[?] | documents in one of these alone; empty, or "" alone, for all |
| `rescore` | int32[] | candidates ranked anew by exact f_ColBERT: 0 (none), or `top_k` to 10,000 where the \
index keeps vectors |

Results are in descending order of score. Where fewer than K documents are found, the rest is "" and -inf.
A query longer than the tokenizer's limit is cut to it; bytes that are not UTF-8 count as U+FFFD. A blank
query is refused, save by `serving_default`, which finds nothing for it: servers join requests of several
callers to one batch, and one caller's mistake must not fail the others. Where `retrieved` is false,
`token_scores` holds what was imputed and the piece is "" with the span -1 to -1; spans count characters
of `"{title} {text}"`. In `search_tokens`, a hit that is padding has the document -1 and the score -inf.
"""

from __future__ import annotations

from typing import Any

from xtr_tf.retriever.explain_signature import explain_signature
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.search_signatures import search_signatures
from xtr_tf.retriever.text_signatures import text_signatures


def build_signatures(retriever: Retriever) -> dict[str, Any]:
    """Returns a `tf.function` for every signature, by name."""
    return {**search_signatures(retriever), **text_signatures(retriever), **explain_signature(retriever)}
