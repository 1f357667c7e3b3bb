"""How to search, as a caller says it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .messages import Value


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """How to search; what is None is left to the model.

    Attributes:
        k_prime: Tokens that each query token retrieves.
        top_k: Documents to return.
        leaves: Leaves of the index to search, 0 for the index's own rule.
        imputation: `top_k_prime`, `zero`, `constant` or `none`.
        constant: The similarity imputed under `constant`.
        languages: Only documents in one of these.
        rescore: Candidates to rank again by exact f_ColBERT, 0 for none; for an index that keeps vectors.
    """

    k_prime: int | None = None
    top_k: int | None = None
    leaves: int | None = None
    imputation: str | None = None
    constant: float | None = None
    languages: Sequence[str] | None = None
    rescore: int | None = None

    def inputs(self) -> dict[str, Value]:
        """Returns what is set, as a signature's inputs."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if "constant" in given:
            given["constant"] = float(given["constant"])
        return given
