"""The names of the ways to impute, for those who check settings without TensorFlow."""

from __future__ import annotations

#: How a query token counts for a document of which it retrieved nothing: with its cut-off score m_i,
#: with zero, with a constant, or (`none`) not at all: the mean is then over what was retrieved.
IMPUTATIONS = ("top_k_prime", "zero", "constant", "none")
