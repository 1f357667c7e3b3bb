"""Product quantisation with an anisotropic loss: from token vectors to 4-bit codes.

A plain quantiser minimises the distance between a vector and its code. For inner products with
queries near the vector, an error along the vector is worse than one across it. Hence the loss

    |e|^2 + (eta - 1) (e . x/|x|)^2,   e = residual - codewords,

is minimised block by block (coordinate descent), starting from the nearest codewords. The residual is the
difference between the vector and the centre of its leaf. Knows nothing about how leaves are found, about
files or about TensorFlow.

Citation: [Guo et al., 2020](https://arxiv.org/abs/1908.10396), "Accelerating Large-Scale Inference
with Anisotropic Vector Quantization".
"""

from __future__ import annotations

import numba
import numpy as np

#: Codewords per block. 4 bits fit into the in-register lookup tables of ScaNN.
CODEWORDS = 16
# By then, descent has nearly always converged. More rounds change fewer than one code in a hundred.
_MAX_ROUNDS = 4


def parallel_weight(threshold: float, dim: int) -> float:
    """Returns eta for vectors of unit length, where inner products above `threshold` matter.

    Args:
        threshold: Inner product above which errors matter, from 0 to below 1.
        dim: Width of a vector.

    Returns:
        Weight of an error along a vector, compared with one across it: eta of Guo et al. (2020).

    Example:
        >>> round(parallel_weight(0.2, 128), 2)
        5.29
    """
    return (dim - 1) * threshold**2 / (1 - threshold**2)


def encode(
    vectors: np.ndarray,
    centres: np.ndarray,
    leaf_of_token: np.ndarray,
    codebook: np.ndarray,
    threshold: float,
) -> np.ndarray:
    """Quantises the residuals of a block of vectors.

    Args:
        vectors: `[tokens, dim]` floats.
        centres: `[leaves, dim]` float32.
        leaf_of_token: `[tokens]` integers.
        codebook: `[blocks, 16, dim / blocks]` float32.
        threshold: Similarity above which precision matters, in [0, 1). 0.2 suits unit vectors, 0 is the plain
            quantiser.

    Returns:
        `[tokens, blocks]` uint8 codes below 16.
    """
    weight = max(parallel_weight(threshold, vectors.shape[1]) - 1.0, 0.0)
    codes = np.empty((len(vectors), len(codebook)), np.uint8)
    by_dimension = np.ascontiguousarray(codebook.transpose(0, 2, 1), np.float32)
    floats = vectors.astype(np.float32, copy=False)
    _encode(floats, centres, leaf_of_token, by_dimension, np.float32(weight), codes)
    return codes


def decode(
    codes: np.ndarray, centres: np.ndarray, leaf_of_token: np.ndarray, codebook: np.ndarray
) -> np.ndarray:
    """Returns the vectors that codes stand for.

    Args:
        codes: `[tokens, blocks]` uint8.
        centres: `[leaves, dim]` float32.
        leaf_of_token: `[tokens]` int32.
        codebook: `[blocks, 16, dims_per_block]` float32.

    Returns:
        `[tokens, dim]` float32.
    """
    blocks = np.arange(len(codebook))
    return centres[leaf_of_token] + codebook[blocks, codes].reshape(len(codes), -1)


def pack(codes: np.ndarray) -> np.ndarray:
    """Packs two 4-bit codes into each byte, the earlier block in the low half.

    Args:
        codes: `[tokens, blocks]` uint8 below 16.

    Returns:
        `[tokens, ceil(blocks / 2)]` uint8.
    """
    if codes.shape[1] % 2:
        codes = np.pad(codes, ((0, 0), (0, 1)))
    return codes[:, 0::2] | (codes[:, 1::2] << 4)


@numba.njit(parallel=True, fastmath=True, cache=True)
def _encode(
    vectors: np.ndarray,
    centres: np.ndarray,
    leaf_of_token: np.ndarray,
    codebook: np.ndarray,
    weight: np.float32,
    codes: np.ndarray,
) -> None:
    blocks, width, words = codebook.shape
    for token in numba.prange(len(vectors)):
        vector = vectors[token]
        norm = np.float32(1e-30)
        for value in vector:
            norm += value * value
        scale = np.float32(1.0) / np.sqrt(norm)
        centre = centres[leaf_of_token[token]]
        across = np.empty((blocks, words), np.float32)  # |e_b|^2 for each codeword
        along = np.empty((blocks, words), np.float32)  # e_b . x/|x|
        chosen = np.empty(blocks, np.int64)
        total = np.float32(0.0)
        for block in range(blocks):
            across[block] = 0.0
            along[block] = 0.0
            for offset in range(width):
                dimension = block * width + offset
                residual = vector[dimension] - centre[dimension]
                direction = vector[dimension] * scale
                for word in range(words):
                    error = residual - codebook[block, offset, word]
                    across[block, word] += error * error
                    along[block, word] += error * direction
            chosen[block] = np.argmin(across[block])
            total += along[block, chosen[block]]
        for _ in range(_MAX_ROUNDS if weight > 0 else 0):
            changed = False
            for block in range(blocks):
                others = total - along[block, chosen[block]]
                best, best_loss = chosen[block], np.float32(np.inf)
                for word in range(words):
                    parallel = others + along[block, word]
                    loss = across[block, word] + weight * parallel * parallel
                    if loss < best_loss:
                        best, best_loss = word, loss
                if best != chosen[block]:
                    changed = True
                    chosen[block] = best
                    total = others + along[block, best]
            if not changed:
                break
        for block in range(blocks):
            codes[token, block] = chosen[block]
