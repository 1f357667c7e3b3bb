"""Anisotropic 4-bit codes, against a slow reference, FAISS' plain quantiser and ScaNN's own codes."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
from scann.partitioning import partitioner_pb2
from scann.proto import centers_pb2
from scann.scann_ops.py import scann_ops

from xtr_tf.index.anisotropic import decode, encode, pack, parallel_weight
from xtr_tf.index.quantizer import TokenQuantizer


def normalised(seed: int, count: int, dim: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def loss(vectors, decoded, threshold):
    errors = vectors - decoded
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    weight = max(parallel_weight(threshold, vectors.shape[1]), 1.0)
    return (errors**2).sum(1) + (weight - 1) * (errors * directions).sum(1) ** 2


@pytest.fixture(scope="module")
def trained():
    vectors = normalised(0, 3000, 16)
    centres = normalised(1, 8, 16) * 0.7
    cells = np.argmin(((vectors[:, None] - centres) ** 2).sum(-1), axis=1)
    residuals = np.ascontiguousarray(vectors - centres[cells])
    quantizer = faiss.ProductQuantizer(16, 8, 4)
    quantizer.train(residuals)
    codebook = faiss.vector_to_array(quantizer.centroids).reshape(8, 16, 2)
    return vectors, centres, cells, codebook, quantizer.compute_codes(residuals)


def test_without_a_threshold_codes_are_those_of_faiss(trained):
    vectors, centres, cells, codebook, faiss_codes = trained
    ours = pack(encode(vectors, centres, cells, codebook, 0.0))
    assert (ours == faiss_codes).mean() > 0.999  # the rest are ties to the last bit


@pytest.mark.parametrize("threshold", [0.2, 0.5])
def test_no_single_change_of_a_code_lowers_the_loss(trained, threshold):
    vectors, centres, cells, codebook, _ = (
        part[:60] if i in (0, 2) else part for i, part in enumerate(trained)
    )
    codes = encode(vectors, centres, cells, codebook, threshold)
    found = loss(vectors, decode(codes, centres, cells, codebook), threshold)
    for block in range(codes.shape[1]):
        for word in range(16):
            other = codes.copy()
            other[:, block] = word
            assert (loss(vectors, decode(other, centres, cells, codebook), threshold) >= found - 1e-5).all()


def test_the_threshold_trades_error_across_for_error_along(trained):
    vectors, centres, cells, codebook, _ = trained
    errors = [
        vectors - decode(encode(vectors, centres, cells, codebook, threshold), centres, cells, codebook)
        for threshold in (0.0, 0.5)
    ]
    along = [((error * vectors).sum(1) ** 2).mean() for error in errors]
    total = [(error**2).sum(1).mean() for error in errors]
    assert along[1] < along[0] / 4
    assert total[0] < total[1] < 2 * total[0]


def test_leaves_and_codes_agree_with_scanns():
    generator = np.random.default_rng(3)
    vectors = normalised(2, 50, 32)[generator.integers(0, 50, 5000)] + 0.15 * normalised(4, 5000, 32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    builder = scann_ops.builder(vectors, 10, "dot_product").tree(50, 5, training_sample_size=5000)
    tensors = scann_ops.scann_to_tensors(
        builder.score_ah(2, anisotropic_quantization_threshold=0.2).build().searcher_handle
    )
    partitioner = partitioner_pb2.SerializedPartitioner.FromString(tensors[1].numpy()[0])
    subspaces = centers_pb2.CentersForAllSubspaces.FromString(tensors[3].numpy()[0])
    quantizer = TokenQuantizer(
        centres=np.array([c.dimension for c in partitioner.kmeans.kmeans_tree.root.centers], np.float32),
        codebook=np.array(
            [[c.feature_value_float for c in s.center] for s in subspaces.subspace_centers], np.float32
        ),
        multipliers=np.ones(32, np.float32),
        threshold=0.2,
    )
    leaves, scanns = quantizer.assign(vectors), tensors[2].numpy()
    assert (leaves == scanns).mean() > 0.95
    # ScaNN rounds its centres; where it differs, ours is the nearer one.
    nearest, of_scann = (
        np.linalg.norm(vectors - quantizer.centres[found], axis=1) for found in (leaves, scanns)
    )
    assert (nearest <= of_scann + np.sqrt(32) * np.finfo(np.float32).eps).all()
    assert (of_scann / nearest).max() < 1.05
    codes = encode(vectors, quantizer.centres, tensors[2].numpy(), quantizer.codebook, 0.2)
    assert (codes == tensors[4].numpy()).mean() > 0.85
    ours, theirs = (
        loss(vectors, decode(c, quantizer.centres, tensors[2].numpy(), quantizer.codebook), 0.2).mean()
        for c in (codes, tensors[4].numpy())
    )
    assert ours < theirs * 1.01


@pytest.mark.parametrize("blocks", [4, 5])
def test_two_codes_share_a_byte(blocks):
    codes = np.random.default_rng(0).integers(0, 16, (7, blocks), np.uint8)
    packed = pack(codes)
    assert packed.shape == (7, (blocks + 1) // 2)
    unpacked = np.stack([packed & 15, packed >> 4], axis=-1).reshape(7, -1)[:, :blocks]
    np.testing.assert_array_equal(unpacked, codes)
