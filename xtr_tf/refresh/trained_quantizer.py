"""What was trained for an index of any kind, to index more tokens in the same way."""

from __future__ import annotations

import numpy as np

from xtr_tf.index.anisotropic import CODEWORDS
from xtr_tf.index.token_index import TokenIndex
from xtr_tf.index.token_quantizer import TokenQuantizer, quantizer_of


def trained_quantizer(index: TokenIndex) -> TokenQuantizer | None:
    """The cells and codebooks of an index; None of an exact one, which has none."""
    if index.config.kind == "exact":
        return None
    if index.config.kind == "scann":
        return quantizer_of(index)
    return TokenQuantizer(
        centres=np.array(index.array("centres")),
        codebook=np.empty(
            (0, CODEWORDS, index.config.dims_per_block), np.float32
        ),  # vectors are kept instead
        multipliers=np.array(index.array("multipliers")),
        threshold=index.config.anisotropic_threshold,
    )
