"""Loading, encoding, scoring, measuring, training and saving a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xtr_tf
from tests.support.numbers import network_rounding, rounding
from xtr_tf.errors import InputError


def test_the_shipped_model_has_a_name(model: Any) -> None:
    assert model.name == "mxtr_tiny"
    assert repr(model).startswith("<xtr_tf model 'mxtr_tiny': 4 layers")


def test_vectors_are_ragged_and_of_unit_length(model: Any) -> None:
    texts = ["How deep is Lake Baikal?", "Nil"]
    queries = model.encode_queries(texts)
    assert queries[0].shape[0] > queries[1].shape[0]
    np.testing.assert_allclose(
        np.linalg.norm(queries[0], axis=1), 1.0, rtol=0, atol=rounding(queries[0].shape[1])
    )
    alone = model.encode_queries(texts[1])
    np.testing.assert_allclose(alone, queries[1], rtol=0, atol=network_rounding(10_000))
    documents = model.encode_documents([{"title": "Nil", "text": "lang"}, "Nil lang"], progress=False)
    np.testing.assert_array_equal(documents[0], documents[1])


def test_scores_are_means_of_maxima(model: Any) -> None:
    texts = ["Everest is the highest mountain.", "The Nile is a river.", "x"]
    scores = model.score("highest mountain", texts)
    query = model.encode_queries("highest mountain").astype(np.float64)
    slow = [
        np.mean([max(float(token @ other) for other in document) for token in query])
        for document in model.encode_documents(texts, progress=False)
    ]
    np.testing.assert_allclose(scores, slow, rtol=0, atol=rounding(query.shape[1] + len(query)))
    assert scores.argmax() == 0


def test_long_documents_are_scored_as_a_whole(model: Any) -> None:
    length = model.tokenizer.config.document_length
    late = "word " * (2 * length) + "Baikal is a deep lake."
    plain, found = model.score("How deep is lake Baikal?", ["word " * (2 * length), late])
    assert found > plain


def test_an_evaluation_gives_figures_by_name_and_a_report(
    model: Any, repository: Path, tmp_path: Path
) -> None:
    found = model.evaluate(
        repository / "examples" / "atlas",
        out=tmp_path / "report",
        max_queries=10,
        bm25=False,
        analysis_queries=0,
        progress=False,
    )
    assert 0 < found["atlas"]["nDCG@10"] <= 1
    assert found.metric == {"atlas": "nDCG@10"}
    assert (found.report / "report.html").is_file()
    assert "atlas" in str(found)
    assert "nDCG@10" in found._repr_html_()


def pairs() -> list[Any]:
    return [
        ("How deep is Baikal?", "Baikal is 1,642 m deep."),
        ("How long is the Nile?", "The Nile is 6,650 km long.", "Everest is high."),
        {"query": "How high is Everest?", "positive": "Everest is 8,849 m high.", "negatives": ["A tea."]},
    ]


def test_training_starts_from_the_model_and_continues(tiny_model: Any, tmp_path: Path) -> None:
    before = tiny_model.encode_queries("Everest")
    settings = {"batch_size": 2, "k_train": 8, "learning_rate": 0.01, "warmup_steps": 0, "progress": False}
    trained = xtr_tf.train(tiny_model, pairs(), steps=2, out=tmp_path / "run", **settings)
    assert np.abs(trained.encode_queries("Everest") - before).max() > 0
    np.testing.assert_array_equal(tiny_model.encode_queries("Everest"), before)
    longer = xtr_tf.train(tiny_model, pairs(), steps=3, out=tmp_path / "run", **settings)
    assert longer.manifest.fingerprint != trained.manifest.fingerprint
    saved = longer.save(tmp_path / "mine")
    assert xtr_tf.load(saved).manifest.fingerprint == longer.manifest.fingerprint
    with pytest.raises(InputError, match="other pairs"):
        xtr_tf.train(tiny_model, pairs()[:2], steps=3, out=tmp_path / "run", **settings)


@pytest.mark.slow
def test_a_run_without_a_folder_is_found_again(
    tiny_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = xtr_tf.train(tiny_model, pairs(), steps=1, batch_size=2, progress=False)
    again = xtr_tf.train(tiny_model, pairs(), steps=1, batch_size=2, progress=False)
    other = xtr_tf.train(tiny_model, pairs(), steps=1, batch_size=1, progress=False)
    assert first.directory == again.directory != other.directory
    assert first.manifest.fingerprint == again.manifest.fingerprint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "at least one pair"),
        ([("only a query",)], "position 0"),
        (["a query"], "position 0"),
        ([("q", "d"), ("", "d")], "no `query`.*position 1"),
        ([("q", "")], "cannot be used.*position 0"),
        ([("q", 3)], "neither a text nor an object"),
    ],
)
def test_bad_pairs_are_one_sentence(tiny_model: Any, tmp_path: Path, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        xtr_tf.train(tiny_model, given, steps=1, out=tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_only_a_model_can_be_trained() -> None:
    with pytest.raises(InputError, match=r"xtr_tf\.load.*Received: str"):
        xtr_tf.train("mxtr_tiny", [("q", "d")])  # type: ignore[arg-type]


def test_what_is_not_a_model_is_refused(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(InputError, match=r"encoder\.json"):
        xtr_tf.load(tmp_path)
    with pytest.raises(InputError, match=r"xtr_tf\.open"):
        xtr_tf.load(saved)
    with pytest.raises(InputError, match="one of mxtr_tiny"):
        xtr_tf.load("no-such-model")
