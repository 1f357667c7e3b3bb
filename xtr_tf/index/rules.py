"""How large the parts of an index are, from the number of tokens. All of it can be overridden.

Measured on contextual token vectors (`make bench-search`): the number of leaves is the strongest
lever there is. Many small leaves let a search stop sooner, until scoring the centres themselves
costs as much as scoring the tokens; both grow alike when leaves grow with the square root.
"""

from __future__ import annotations

import dataclasses
import math

from xtr_tf.config.retrieval import IndexConfig

#: Leaves are this times the square root of the number of tokens: 4,000 for a million.
LEAVES_PER_ROOT = 4.0
#: Tokens sampled for each leaf when centres are trained.
SAMPLE_PER_LEAF = 64
#: Share of the leaves that a search looks into unless its k' needs more: 40 of 4,000.
SEARCHED_SHARE = 0.01
#: A search looks into at least as many leaves as hold this many times k' tokens.
TOKENS_PER_K_PRIME = 4.0
#: The same two for `core`, which scores every token of all leaves that any token of a query chose,
#: and so sees many times more than the leaves that one query token chose.
CORE_SEARCHED_SHARE = 0.002
CORE_TOKENS_PER_K_PRIME = 2.0
#: Under a filter, up to this many allowed tokens are scored one by one (`core`).
SCORED_DIRECTLY = 32_768
#: The same of `scann`: the root of this times k' times all tokens, 47,000 of a million at k' 1,000. Measured:
#: scoring takes .65 ms per thousand tokens, retrieving 1.2 ms per thousand.
SCANN_DIRECTLY = 2.2
#: Of more, a search retrieves as many as hold k' allowed ones and drops the others; and, because chance may
#: leave fewer, as many as hold this many standard deviations more.
SPARE_DEVIATIONS = 3.0
#: Hits that are scored again by int8 vectors, as a multiple of k'.
REORDERED_PER_K_PRIME = 2

#: Tokens up to which an index of kind `auto` is exact: some 20 ms of one thread for a query of 16 tokens, and
#: nothing to train.
EXACT_TOKENS = 200_000


def with_kind(config: IndexConfig, num_tokens: int) -> IndexConfig:
    """The configuration with its kind decided, where it leaves that open.

    Args:
        config: The configuration.
        num_tokens: Tokens to index.

    Returns:
        The same, or one of kind `exact` or `scann` if it was `auto`.
    """
    if config.kind != "auto":
        return config
    return dataclasses.replace(config, kind="exact" if num_tokens <= EXACT_TOKENS else "scann")


def number_of_leaves(num_tokens: int) -> int:
    """Returns the number of k-means leaves: `4 sqrt(tokens)`, and no leaf for fewer than 16 tokens."""
    return max(1, min(round(LEAVES_PER_ROOT * math.sqrt(num_tokens)), num_tokens // 16))


def sample_size(num_tokens: int, num_leaves: int) -> int:
    """Returns how many tokens the centres and codebooks are trained on.

    Args:
        num_tokens: Tokens to index.
        num_leaves: Leaves to train.

    Returns:
        At least 16,384 tokens where there are as many.
    """
    return min(num_tokens, max(SAMPLE_PER_LEAF * num_leaves, 16_384))
