"""The measured slack covers what rounding does to an index, and is far below what a mistake does."""

from __future__ import annotations

import numpy as np
import pytest

from xtr_tf.retriever import slack

DIM = 16
generator = np.random.default_rng(7)


def unit(*shape: int) -> np.ndarray:
    vectors = generator.standard_normal(shape)
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


QUERIES, TOKENS = unit(6, 4, DIM), unit(300, DIM)
STEP = 1 / 127


def coarse(queries: np.ndarray) -> np.ndarray:
    """Similarities `[queries, length, tokens]` with each product rounded to 8 bits, as lookup tables do."""
    products = queries[..., np.newaxis, :] * TOKENS
    return (np.round(products / STEP) * STEP).sum(axis=-1).astype(np.float32)


def token_hits(queries: np.ndarray) -> dict[str, np.ndarray]:
    scores = coarse(queries)
    tokens = np.argsort(-scores, axis=2, kind="stable")[:, :, :50]
    return {
        "token_ids": tokens,
        "scores": np.take_along_axis(scores, tokens, axis=2),
        "documents": np.zeros_like(tokens),
    }


def ranking(queries: np.ndarray) -> dict[str, np.ndarray]:
    """Every token a document, scored by the mean over query tokens."""
    scores = coarse(queries).mean(axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    names = np.array([b"%d" % number for number in range(len(TOKENS))], object)
    return {"document_ids": names[order], "scores": np.take_along_axis(scores, order, axis=1)}


def test_the_spread_of_tokens_is_a_few_steps_of_the_tables():
    spread = slack.token_spread(token_hits, QUERIES, slack.moved_by(1e-6, QUERIES))
    assert STEP * 0.99 < spread < 4 * STEP
    exact = slack.token_spread(
        lambda queries: {**token_hits(queries), "scores": np.zeros([6, 4, 50], np.float32)},
        QUERIES,
        slack.moved_by_ulps(QUERIES),
    )
    assert exact == 0


@pytest.mark.parametrize("seed", range(20))
def test_rankings_of_other_roundings_are_within_the_tolerance(seed):
    spread = slack.token_spread(token_hits, QUERIES, slack.moved_by(4e-6, QUERIES))
    steadiness = slack.steadiness_of_rankings(ranking, QUERIES, slack.moved_by(4e-6, QUERIES), spread)
    assert steadiness.queries.all()
    noise = np.random.default_rng(seed).standard_normal(QUERIES.shape) * (1e-6 / np.sqrt(DIM))
    expected, found = ranking(QUERIES), ranking((QUERIES + noise).astype(np.float32))
    assert np.abs(expected["scores"] - found["scores"]).max() <= steadiness.tolerance
    # Another index is not.
    assert np.abs(expected["scores"] - ranking(QUERIES[::-1])["scores"]).max() > steadiness.tolerance


def test_a_query_at_an_edge_of_the_index_is_left_out():
    """A query vector between two leaves, where the last bit decides which one is searched."""
    edge = QUERIES[2, 0, 0]

    def with_cells(queries: np.ndarray) -> dict[str, np.ndarray]:
        found = ranking(queries)
        found["scores"] = found["scores"] + np.where(queries[:, :1, 0] > edge, np.float32(0.3), np.float32(0))
        return found

    steadiness = slack.steadiness_of_rankings(with_cells, QUERIES, slack.moved_by(1e-6, QUERIES), STEP)
    assert steadiness.queries.tolist() == [True, True, False, True, True, True]
    assert steadiness.tolerance < 0.05


def test_some_query_is_left_however_unsteady_all_are():
    answers = np.random.default_rng(3)

    def at_random(queries: np.ndarray) -> dict[str, np.ndarray]:
        names = answers.permuted(np.tile(np.arange(50), (len(queries), 1)), axis=1)[:, :3]
        return {
            "document_ids": np.vectorize(lambda name: b"%d" % name, otypes=[object])(names),
            "scores": np.sort(answers.random([len(queries), 3]))[:, ::-1],
        }

    found = slack.steadiness_of_rankings(at_random, QUERIES, slack.moved_by(1e-6, QUERIES), 1e-3)
    assert found.queries.any()


def test_the_encoders_tolerance_follows_from_single_and_batched_texts():
    mask = np.array([[True, True], [True, False]])
    together = {"encodings": unit(2, 2, DIM), "mask": mask}
    alone = [
        {"encodings": together["encodings"][[0]], "mask": mask[[0]]},
        {"encodings": together["encodings"][1:, :1] * np.float32(1.00001), "mask": mask[1:, :1]},
    ]
    assert slack.encoder_tolerance(together, alone) == pytest.approx(8e-5, rel=0.05)
    same = [{"encodings": together["encodings"][[place]], "mask": mask[[place]]} for place in range(2)]
    assert slack.encoder_tolerance(together, same) == pytest.approx(8 * 4 * 2**-23)


def test_moved_vectors_are_as_far_away_as_they_should_be():
    for moved in slack.moved_by(1e-4, QUERIES):
        distances = np.linalg.norm(moved - QUERIES, axis=-1)
        np.testing.assert_allclose(distances, 1e-4, rtol=0.01)
    for moved in slack.moved_by_ulps(QUERIES):
        assert 0 < np.abs((moved - QUERIES) / np.spacing(QUERIES)).max() <= 2
