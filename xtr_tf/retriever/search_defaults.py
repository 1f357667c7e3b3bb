"""What a request that names no parameters is answered with."""

from __future__ import annotations

import dataclasses
import math

from xtr_tf.config.schema import require
from xtr_tf.imputations import IMPUTATIONS

#: A request may ask for no more documents than this: results are padded to `top_k`, and a
#: larger one would let a single request fill the server's memory.
MAX_TOP_K = 10_000


@dataclasses.dataclass(frozen=True)
class SearchDefaults:
    """Parameters of `serving_default`, and of `search` for inputs that a request leaves out.

    Attributes:
        k_prime: Tokens that each query token retrieves (k' of the paper).
        top_k: Documents returned, at most `MAX_TOP_K`.
        leaves: Cells of the index to look into; 0 leaves it to the index.
        imputation: How a query token counts for a document of which it retrieved nothing,
            one of `xtr_tf.imputations.IMPUTATIONS`.
        constant: What it counts with under the imputation `constant`.
        rescore: Candidates that are ranked anew by exact f_ColBERT, 0 for none; needs an index that
            keeps vectors (`exact`, `core`, or `scann` with reordering).
    """

    k_prime: int = 1_000
    top_k: int = 10
    leaves: int = 0
    imputation: str = "top_k_prime"
    constant: float = 0.0
    rescore: int = 0

    def __post_init__(self) -> None:
        require(self.k_prime >= 1, "`k_prime` must be at least 1.", self.k_prime)
        require(1 <= self.top_k <= MAX_TOP_K, f"`top_k` must be between 1 and {MAX_TOP_K}.", self.top_k)
        require(self.leaves >= 0, "`leaves` must be 0 (automatic) or more.", self.leaves)
        require(
            self.imputation in IMPUTATIONS,
            f"`imputation` must be one of {', '.join(IMPUTATIONS)}.",
            self.imputation,
        )
        require(math.isfinite(self.constant), "`constant` must be a finite number.", self.constant)
        require(
            self.rescore == 0 or self.top_k <= self.rescore <= MAX_TOP_K,
            f"`rescore` must be 0 (none) or between `top_k` and {MAX_TOP_K}.",
            self.rescore,
        )
