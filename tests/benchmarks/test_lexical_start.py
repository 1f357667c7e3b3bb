"""The start of the multilingual model: translations against obvious counting, and what its vectors match."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from xtr_tf.config.model import EncoderConfig
from xtr_tf.model.encoder import Encoder


@pytest.fixture(scope="module")
def lexical_start(benchmark_module, repository):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(repository / "benchmarks" / "mxtr")
        return benchmark_module("mxtr", "lexical_start")


@pytest.fixture(scope="module")
def translations(lexical_start):
    return lexical_start.translations


def counted(pairs, rounds):
    """IBM Model 1 by dictionaries: p(English piece | foreign piece), 0 for none."""
    probability = collections.defaultdict(lambda: 1.0)
    for _ in range(rounds):
        counts = collections.Counter()
        for foreign, english in pairs:
            candidates = {0, *english}
            for f in set(foreign):
                total = sum(probability[f, e] for e in candidates)
                counts.update({(f, e): probability[f, e] / total for e in candidates})
        by_english = collections.Counter()
        for (_, e), count in counts.items():
            by_english[e] += count
        probability = {(f, e): count / by_english[e] for (f, e), count in counts.items()}
    by_foreign = collections.Counter()
    for (f, _), count in counts.items():
        by_foreign[f] += count
    return {(f, e): count / by_foreign[f] for (f, e), count in counts.items()}


def test_translations_are_those_of_obvious_counting(translations):
    random = np.random.default_rng(0)
    pairs = [
        (random.integers(1, 12, random.integers(1, 7)), random.integers(12, 20, random.integers(1, 7)))
        for _ in range(40)
    ]
    found = translations(pairs, 20, rounds=4)
    expected = counted([(list(f), list(e)) for f, e in pairs], rounds=4)
    measured = dict(
        zip(zip(found.foreign.tolist(), found.english.tolist(), strict=True), found.probability, strict=True)
    )
    assert measured == pytest.approx(expected, abs=1e-6)
    assert found.count.sum() == pytest.approx(sum(len(set(f.tolist())) for f, _ in pairs))


def test_a_word_is_translated_by_what_always_occurs_with_it(translations):
    pairs = [(np.array([1, 2]), np.array([11, 12])), (np.array([1, 3]), np.array([11, 13]))] * 5
    found = translations(pairs, 20, rounds=20)
    of_first = (found.foreign == 1) & (found.english > 0)
    assert found.english[of_first][found.probability[of_first].argmax()] == 11


@pytest.fixture(scope="module")
def encode(lexical_start):
    pieces = ["<pad>", "</s>", "▁lake", "▁lakes", "▁stone", "▁deep", "▁blue", "▁old"]
    table = lexical_start.spelled(pieces, np.random.default_rng(0))
    config = EncoderConfig(
        vocabulary_size=len(pieces),
        model_dim=lexical_start.WIDTH,
        embedding_dim=lexical_start.TABLE,
        feed_forward_dim=64,
        num_layers=2,
        num_heads=lexical_start.HEADS,
        head_dim=lexical_start.HEAD_DIM,
        feed_forward="relu",
        dropout=0.0,
        projection_dim=lexical_start.TABLE,
    )
    encoder = Encoder(config)
    encoder.set_canonical_weights(lexical_start.start_weights(encoder.get_canonical_weights(), config, table))
    return lambda *words: encoder(np.array([[pieces.index(word) for word in words]], np.int32))[0].numpy()


def test_a_piece_matches_itself_best_in_the_same_surroundings(encode):
    lake = encode("▁deep", "▁lake", "▁blue")[1]
    same = lake @ encode("▁old", "▁deep", "▁lake", "▁blue")[2]
    half = lake @ encode("▁deep", "▁lake", "▁old")[1]
    other = lake @ encode("▁old", "▁lake", "▁stone")[1]
    assert same > half > other > lake @ encode("▁deep", "▁stone", "▁blue")[1]


def test_neighbours_on_the_other_side_are_others(encode):
    lake = encode("▁deep", "▁lake", "▁blue")[1]
    assert lake @ encode("▁deep", "▁lake", "▁blue")[1] > lake @ encode("▁blue", "▁lake", "▁deep")[1] + 0.1


def test_forms_of_a_word_are_closer_than_other_words(encode):
    lake = encode("▁lake")[0]
    assert lake @ encode("▁lakes")[0] > lake @ encode("▁stone")[0] + 0.2
