"""The packed table of owners against the array that it replaces."""

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.scoring.token_owners import TokenOwners

# Tokens per document; blocks of the table have 32 tokens.
LENGTHS = {
    "one token": [1],
    "one token each": [1] * 100,
    "less than a block": [3, 5],
    "whole blocks": [32, 64, 32],
    "begin with the last token of a block": [31, 1, 31, 33],
    "longer than blocks": [200, 1, 1, 90],
    "without tokens": [0, 4, 0, 0, 40, 1, 0],
    "random": np.random.default_rng(0).integers(0, 70, 500),
    "random, all with tokens": np.random.default_rng(1).integers(1, 70, 500),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_every_token_has_its_document(lengths):
    documents = np.repeat(np.arange(len(lengths)), lengths)
    owners = TokenOwners(documents)
    np.testing.assert_array_equal(owners.look_up(tf.range(len(documents))), documents)


def test_tokens_can_have_any_shape_and_order():
    documents = np.repeat(np.arange(50), 3)
    tokens = np.random.default_rng(0).permutation(150).reshape(5, 10, 3).astype(np.int32)
    found = TokenOwners(documents).look_up(tf.constant(tokens))
    assert found.dtype == tf.int32
    np.testing.assert_array_equal(found, documents[tokens])


def test_the_table_takes_a_quarter_of_a_byte_per_token():
    owners = TokenOwners(np.repeat(np.arange(320), 10))
    assert sum(4 * int(np.prod(variable.shape)) for variable in owners.variables) == 3_200 / 4
