"""Scores of queries against a batch of documents, and the objectives of training.

Shared by all modules here: `Q` queries of `n` tokens against `D` documents of `m` tokens. Vectors are
L2-normalised by the encoder, `[Q, n, dim]` and `[D, m, dim]`, with boolean masks `[Q, n]` and `[D, m]` that
are true for real tokens. In a batch of `B` queries with `H` hard negatives each, documents are laid out as
the `B` positives, then the `H` negatives of query 0, the `H` negatives of query 1, and so on.
"""
