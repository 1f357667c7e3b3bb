"""The sizes of an index's parts, from the number of tokens. All of them can be overridden.

Measured on contextual token vectors (`make bench-search`): the number of leaves matters most. With many small
leaves a search can stop sooner, until scoring the centres costs as much as scoring the tokens. Both costs
grow at the same rate if the number of leaves grows with the square root of the number of tokens.
"""

from __future__ import annotations

import dataclasses
import math

from xtr_tf.config.retrieval import IndexConfig

#: Number of leaves, divided by the square root of the number of tokens: 4,000 leaves for a million tokens.
LEAVES_PER_ROOT = 4.0
#: Tokens sampled per leaf to train the centres.
SAMPLE_PER_LEAF = 64
#: Share of the leaves that a search probes, unless its k' needs more: 40 of 4,000.
SEARCHED_SHARE = 0.01
#: A search probes at least as many leaves as hold this many times k' tokens.
TOKENS_PER_K_PRIME = 4.0
#: The same two for `core`. It scores every token of all leaves that any query token selected, which is many
#: times more than the leaves that one query token selected.
CORE_SEARCHED_SHARE = 0.002
CORE_TOKENS_PER_K_PRIME = 2.0
#: With a filter, up to this many allowed tokens are scored one by one (`core`).
SCORED_DIRECTLY = 32_768
#: The same for `scann`: the limit is the square root of this times k' times the number of all tokens, which
#: is 57,000 of a million with k' 1,000. Measured per thousand tokens: scoring takes .55 ms, retrieving 1.8
#: ms.
SCANN_DIRECTLY = 3.3
#: With more allowed tokens, a search retrieves as many tokens as are expected to hold k' allowed ones, and
#: drops the others. By chance there may be fewer, so it adds this many standard deviations.
SPARE_DEVIATIONS = 3.0
#: Number of hits that are scored again by int8 vectors, as a multiple of k'.
REORDERED_PER_K_PRIME = 2

#: An index of kind `auto` with up to this many tokens is exact. A query of 16 tokens then takes about 20 ms
#: on one thread, and there is nothing to train.
EXACT_TOKENS = 200_000


def with_kind(config: IndexConfig, num_tokens: int) -> IndexConfig:
    """Returns the configuration with the kind `auto` resolved.

    Args:
        config: The configuration.
        num_tokens: Number of tokens to index.

    Returns:
        The same configuration, with kind `exact` or `scann` if it was `auto`.
    """
    if config.kind != "auto":
        return config
    return dataclasses.replace(config, kind="exact" if num_tokens <= EXACT_TOKENS else "scann")


def number_of_leaves(num_tokens: int) -> int:
    """Returns the number of k-means leaves: `4 sqrt(tokens)`, but at most one per 16 tokens.

    Args:
        num_tokens: Number of tokens to index.

    Returns:
        The number of leaves, at least 1.
    """
    return max(1, min(round(LEAVES_PER_ROOT * math.sqrt(num_tokens)), num_tokens // 16))


def sample_size(num_tokens: int, num_leaves: int) -> int:
    """Returns the number of tokens that centres and codebooks are trained on.

    Args:
        num_tokens: Number of tokens to index.
        num_leaves: Number of leaves to train.

    Returns:
        At least 16,384, or all tokens if there are fewer.
    """
    return min(num_tokens, max(SAMPLE_PER_LEAF * num_leaves, 16_384))
