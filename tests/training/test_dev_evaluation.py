"""Development metrics: f_XTR' against NumPy, and metrics by language."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.dev_evaluation import DevEvaluation, exact_xtr_scores


@pytest.mark.parametrize("k_prime", [1, 5, 12, 100])
def test_scores_are_those_of_the_paper(k_prime):
    rng = np.random.default_rng(k_prime)
    queries, documents = rng.normal(size=[3, 4, 6]).astype("f"), rng.normal(size=[5, 7, 6]).astype("f")
    query_mask = np.arange(4) < np.array([[4], [2], [3]])
    document_mask = np.arange(7) < np.array([[7], [1], [3], [5], [6]])
    scores = exact_xtr_scores(*map(tf.constant, (queries, query_mask, documents, document_mask)), k_prime)
    tokens = [(d, documents[d, j]) for d in range(5) for j in range(7) if document_mask[d, j]]
    for q in range(3):
        expected, seen = np.zeros(5), set()
        for i in np.flatnonzero(query_mask[q]):
            found = sorted(((queries[q, i] @ vector, d) for d, vector in tokens), reverse=True)[:k_prime]
            best = {}
            for value, d in found:
                best.setdefault(d, value)
            seen |= best.keys()
            expected += [best.get(d, found[-1][0]) for d in range(5)]
        for d in range(5):
            wanted = expected[d] / query_mask[q].sum() if d in seen else -np.inf
            assert scores[q, d] == pytest.approx(wanted, rel=1e-5)


def test_metrics_are_averaged_over_sets_and_given_by_language(tmp_path, tiny_corpus):
    texts = ["north", "south", "east", "west"]
    (tmp_path / "qrels").mkdir()
    for name, rows in (
        ("corpus.jsonl", [{"_id": f"d{i}", "text": text} for i, text in enumerate(texts)]),
        (
            "queries.jsonl",
            [
                {"_id": f"q{i}", "text": text, "language": "en" if i < 2 else "fr"}
                for i, text in enumerate(texts)
            ],
        ),
    ):
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    # French queries are judged wrongly on purpose.
    (tmp_path / "qrels" / "dev.tsv").write_text("q0\td0\t1\nq1\td1\t1\nq2\td0\t1\nq3\td0\t1\n")
    dev = DevEvaluation(
        DataConfig(dev=(SourceConfig(path=str(tmp_path), split="dev"),)), tiny_corpus.tokenizer, k_prime=1000
    )
    assert dev
    measured = dev(lambda ids: tiny_corpus.encoder(ids))
    assert measured[f"{tmp_path}/en/MRR@10"] == 1
    assert measured[f"{tmp_path}/fr/MRR@10"] < 1
    assert measured["MRR@10"] == pytest.approx((1 + measured[f"{tmp_path}/fr/MRR@10"]) / 2)
    assert 0 < measured["nDCG@10"] < 1
    assert not DevEvaluation(DataConfig(), tiny_corpus.tokenizer, k_prime=1)


@pytest.mark.parametrize(
    ("judgements", "documents", "message"),
    [
        ("", '{"_id": "d", "text": "x"}', r"judged queries.*Received: '{folder}', split 'dev'"),
        ("q\td\t1", "", r"no document .*Received: '{folder}/corpus.jsonl' \(no records\)"),
    ],
)
def test_a_set_without_documents_or_judged_queries_is_refused(
    tmp_path, tiny_corpus, judgements, documents, message
):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "dev.tsv").write_text(judgements)
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "one"}')
    (tmp_path / "corpus.jsonl").write_text(documents)
    config = DataConfig(dev=(SourceConfig(path=str(tmp_path), split="dev"),))
    with pytest.raises(InputError, match=message.format(folder=tmp_path)):
        DevEvaluation(config, tiny_corpus.tokenizer, k_prime=10)
