from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.support.numbers import network_rounding

# Two layers of 32 to 48 terms in each of eight sums, attention over 64 tokens, and the projection.
TOLERANCE = network_rounding(700)


def test_vectors_do_not_depend_on_padding(small_encoder, make_ids):
    ids = make_ids([9])
    padded = np.pad(ids, [(0, 0), (0, 55)])
    alone, with_pads = (small_encoder(tf.constant(rows)).numpy() for rows in (ids, padded))
    np.testing.assert_allclose(with_pads[:, :9], alone, rtol=0, atol=TOLERANCE)
    np.testing.assert_array_equal(with_pads[:, 9:], 0)


def test_vectors_do_not_depend_on_the_other_texts_of_a_batch(small_encoder, make_ids):
    ids = make_ids([9, 40, 1, 33])
    together = small_encoder(tf.constant(ids)).numpy()
    for row in range(len(ids)):
        alone = small_encoder(tf.constant(ids[row : row + 1])).numpy()[0]
        np.testing.assert_allclose(together[row], alone, rtol=0, atol=TOLERANCE)


def test_every_vector_has_unit_length_and_pads_are_zero(small_encoder, make_ids):
    ids = tf.constant(make_ids([5, 12]))
    lengths = np.linalg.norm(small_encoder(ids).numpy(), axis=-1)
    np.testing.assert_allclose(lengths, small_encoder.mask(ids).numpy(), rtol=0, atol=TOLERANCE)


def test_a_row_of_nothing_but_pads_is_zero_with_finite_gradients(small_encoder, make_ids):
    ids = tf.constant(make_ids([0, 4]))
    with tf.GradientTape() as tape:
        vectors = small_encoder(ids)
        loss = tf.reduce_sum(vectors**3)
    assert not vectors[0].numpy().any()
    for gradient in tape.gradient(loss, [variable.value for variable in small_encoder.trainable_variables]):
        assert np.isfinite(tf.convert_to_tensor(gradient).numpy()).all()


def test_one_graph_serves_every_shape(small_encoder, make_ids):
    traced = tf.function(small_encoder, input_signature=[tf.TensorSpec([None, None], tf.int32)])
    for lengths in ([3], [7, 2], [20, 1, 5]):
        ids = tf.constant(make_ids(lengths))
        np.testing.assert_allclose(traced(ids), small_encoder(ids), rtol=0, atol=TOLERANCE)
    assert traced.experimental_get_tracing_count() == 1


def test_compiles_with_static_shapes(small_encoder, make_ids):
    ids = tf.constant(make_ids([20, 11], width=32))
    compiled = tf.function(
        small_encoder, jit_compile=True, input_signature=[tf.TensorSpec([2, 32], tf.int32)]
    )
    np.testing.assert_allclose(compiled(ids), small_encoder(ids), rtol=0, atol=TOLERANCE)


def test_bfloat16_stays_near_float32_and_gives_float32(make_encoder, make_ids):
    ids = tf.constant(make_ids([30, 17]))
    exact = make_encoder()(ids).numpy()
    rough = make_encoder(dtype="mixed_bfloat16")(ids)
    assert rough.dtype == tf.float32
    mask = ids.numpy() != 0
    cosines = (exact * rough.numpy()).sum(-1)[mask]
    assert cosines.min() > 0.999
    assert cosines.min() < 1 - 1e-7, "nothing was computed in bfloat16"


def test_weights_stay_float32_under_bfloat16(make_encoder):
    assert {variable.dtype for variable in make_encoder(dtype="mixed_bfloat16").variables} == {"float32"}


def gradients(encoder, ids, seed) -> tuple[list[np.ndarray], int]:
    """Gradients of all weights, and how many matrix products the step takes."""

    @tf.function
    def compute():
        with tf.GradientTape() as tape:
            vectors = encoder(ids, training=True, seed=seed)
            loss = tf.reduce_sum(
                vectors * tf.cos(tf.range(tf.cast(tf.size(vectors), tf.float32)))[: vectors.shape[-1]]
            )
        return tape.gradient(loss, [variable.value for variable in encoder.trainable_variables])

    operations = compute.get_concrete_function().graph.get_operations()
    products = sum("MatMul" in operation.type for operation in operations)
    return [tf.convert_to_tensor(gradient).numpy() for gradient in compute()], products


def test_rematerialisation_gives_the_same_gradients_under_dropout(make_encoder, make_ids):
    ids, seed = tf.constant(make_ids([12, 7])), tf.constant([3, 4])
    kept, products = gradients(make_encoder(dropout=0.3), ids, seed)
    recomputed, more_products = gradients(make_encoder(dropout=0.3, rematerialize=True), ids, seed)
    assert more_products > products, "nothing was recomputed"
    assert len(kept) == len(recomputed) == 22
    for one, other in zip(kept, recomputed, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5 * np.abs(one).max())


def test_dropout_is_a_function_of_the_seed(make_encoder, make_ids):
    encoder, ids = make_encoder(dropout=0.3), tf.constant(make_ids([12, 7]))
    first, again, other = (
        encoder(ids, training=True, seed=tf.constant(seed)).numpy() for seed in ([1, 2], [1, 2], [1, 3])
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.01
    drawn = [encoder(ids, training=True).numpy() for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).max() > 0.01


def test_dropout_happens_only_in_training(make_encoder, make_ids):
    ids = tf.constant(make_ids([12, 7]))
    dropping, plain = make_encoder(dropout=0.3), make_encoder(dropout=0.0)
    np.testing.assert_array_equal(dropping(ids), plain(ids))
    np.testing.assert_array_equal(plain(ids, training=True), plain(ids))
    assert np.abs(dropping(ids, training=True) - plain(ids)).max() > 0.01


def test_every_weight_takes_part(small_encoder, make_ids):
    ids = tf.constant(make_ids([40]))
    names = list(small_encoder.canonical_variables())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(small_encoder(ids) ** 3)
    variables = [variable.value for variable in small_encoder.canonical_variables().values()]
    for name, gradient in zip(names, tape.gradient(loss, variables), strict=True):
        assert np.abs(tf.convert_to_tensor(gradient).numpy()).max() > 0, name
