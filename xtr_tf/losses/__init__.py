"""Scores of queries against a batch of documents, and what training minimises with them.

Shared by all modules here: `Q` queries of `n` tokens against `D` documents of `m` tokens.
Vectors are L2-normalised by the encoder, `[Q, n, dim]` and `[D, m, dim]`, with boolean masks
`[Q, n]` and `[D, m]` that are true at real tokens. In a batch of `B` queries with `H` hard
negatives each, documents are laid out as the `B` positives, then `H` negatives of query 0,
`H` of query 1, and so on.
"""

from xtr_tf.losses.cross_entropy import in_batch_cross_entropy as in_batch_cross_entropy
from xtr_tf.losses.distillation import distillation_divergence as distillation_divergence
from xtr_tf.losses.false_negatives import false_negatives as false_negatives
from xtr_tf.losses.sum_of_max import sum_of_max_scores as sum_of_max_scores
from xtr_tf.losses.token_retrieval import token_retrieval_scores as token_retrieval_scores
