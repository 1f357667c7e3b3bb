"""How large the parts of an index are, from the number of tokens alone. All of it can be overridden.

Measured on contextual token vectors (`make bench-search`): the number of cells is the strongest
lever there is. Many small cells let a search stop sooner, until scoring the centres themselves
costs as much as scoring the tokens; both grow alike when cells grow with the square root.
"""

from __future__ import annotations

import math

#: Cells are this times the square root of the number of tokens: 4,000 for a million.
CELLS_PER_ROOT = 4.0
#: Tokens sampled for each cell when centres are trained.
SAMPLE_PER_CELL = 64
#: Share of the cells that a search looks into unless its k' needs more: 40 of 4,000.
LEAVES_SHARE = 0.01
#: A search looks into at least as many cells as hold this many times k' tokens.
TOKENS_PER_K_PRIME = 4.0
#: The same two for a searcher that scores every token of all probed cells for each query token
#: of a query, and so sees many times more than the cells that this one chose.
CORE_LEAVES_SHARE = 0.002
CORE_TOKENS_PER_K_PRIME = 2.0
#: Hits that are scored again by int8 vectors, as a multiple of k'.
REORDERED_PER_K_PRIME = 2


def number_of_cells(num_tokens: int) -> int:
    """Returns the number of k-means cells: `4 sqrt(tokens)`, and no cell for fewer than 16 tokens."""
    return max(1, min(round(CELLS_PER_ROOT * math.sqrt(num_tokens)), num_tokens // 16))


def sample_size(num_tokens: int, cells: int) -> int:
    """Returns how many tokens the centres and codebooks are trained on."""
    return min(num_tokens, max(SAMPLE_PER_CELL * cells, 16_384))
