"""The order of examples depends only on the seed, is complete, and balances languages as configured."""

from __future__ import annotations

import collections

import numpy as np
import pytest

from xtr_tf.training.data.sampling import Sampler

LANGUAGES = np.array(["en"] * 90 + ["sw"] * 10)


def draws(sampler, start, stop):
    return list(zip(*(part.tolist() for part in sampler(np.arange(start, stop))), strict=True))


def test_an_epoch_at_temperature_one_is_a_permutation():
    sampler = Sampler(LANGUAGES, 1.0, seed=3)
    for epoch in range(3):
        drawn = draws(sampler, epoch * 100, epoch * 100 + 100)
        assert sorted(index for index, _ in drawn) == list(range(100))
        assert {visit for _, visit in drawn} == {epoch}


def test_epochs_and_seeds_differ_and_repeat():
    first = draws(Sampler(LANGUAGES, 1.0, seed=3), 0, 200)
    assert first == draws(Sampler(LANGUAGES, 1.0, seed=3), 0, 200)
    assert first[:100] != first[100:]
    assert first != draws(Sampler(LANGUAGES, 1.0, seed=4), 0, 200)
    assert [index for index, _ in first[:100]] != list(range(100))


def test_any_position_can_be_read_first():
    later = draws(Sampler(LANGUAGES, 2.0, seed=0), 1234, 1235)
    sampler = Sampler(LANGUAGES, 2.0, seed=0)
    assert draws(sampler, 0, 1235)[-1:] == later


def test_the_order_is_the_same_as_in_earlier_versions():
    """A resumed run continues with the examples that it has not seen."""
    drawn = draws(Sampler(LANGUAGES, 2.0, seed=7), 95, 102)
    assert drawn == [(90, 2), (71, 0), (57, 0), (68, 0), (22, 0), (33, 1), (88, 1)]


@pytest.mark.parametrize(("temperature", "share"), [(1.0, 0.1), (2.0, 0.25), (1e9, 0.5)])
def test_temperature_balances_languages(temperature, share):
    drawn = draws(Sampler(LANGUAGES, temperature, seed=0), 0, 100)
    assert sum(LANGUAGES[index] == "sw" for index, _ in drawn) == pytest.approx(100 * share, abs=1)


def test_no_example_repeats_before_all_others_of_its_language_were_seen():
    drawn = draws(Sampler(LANGUAGES, 4.0, seed=1), 0, 1000)
    for language in ("en", "sw"):
        counts = collections.Counter(index for index, _ in drawn if LANGUAGES[index] == language)
        assert max(counts.values()) - min(counts.values()) <= 1
        assert len(counts) == (language == LANGUAGES).sum()


def test_the_examples_of_a_run_have_one_language():
    sampler = Sampler(LANGUAGES, 2.0, seed=5, run=8)
    drawn, _ = sampler(np.arange(8 * 13 * 3))
    languages = LANGUAGES[drawn].reshape(-1, 8)
    assert (languages == languages[:, :1]).all()
    # An epoch has 100 examples, so 13 runs; a quarter of them, to the nearest, are of the smaller language.
    for epoch in np.split(languages[:, 0], 3):
        assert (epoch == "sw").sum() == 3
    np.testing.assert_array_equal(sampler(np.arange(200, 210))[0], drawn[200:210])


def test_runs_use_all_examples_of_a_language_before_repeating_one():
    drawn, _ = Sampler(LANGUAGES, 1.0, seed=2, run=8)(np.arange(8 * 13 * 10))
    for language in ("en", "sw"):
        counts = collections.Counter(drawn[LANGUAGES[drawn] == language].tolist())
        assert max(counts.values()) - min(counts.values()) <= 1
