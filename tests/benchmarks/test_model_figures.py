"""How questions across languages are made, and how an encoder's figures are summarised."""

from __future__ import annotations

import json

import pytest

from xtr_tf.collections.loading import load_datasets


@pytest.fixture(scope="module")
def bench(benchmark_module):
    return benchmark_module("model", "run")


def write_set(folder, language, passages, questions):
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"{language}-s{i}", "text": text} for i, text in enumerate(passages)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    asked = [{"_id": f"{language}-{name}", "text": text} for name, (text, _) in questions.items()]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in asked))
    rows = [f"{language}-{name}\t{language}-s{answer}\t1" for name, (_, answer) in questions.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")


def test_a_question_is_answered_by_what_answers_its_translation(bench, tmp_path):
    """German has another number of sentences and another order of questions."""
    xquad = tmp_path / "xquad_r"
    write_set(xquad / "en", "en", ["one", "two", "three"], {"a": ("which one?", 2), "b": ("how many?", 0)})
    write_set(xquad / "de", "de", ["eins", "zwei"], {"b": ("wie viele?", 1), "a": ("welches?", 0)})
    folder = bench.cross_lingual(xquad, "de", tmp_path / "sets")
    (dataset,) = load_datasets([folder])
    assert dataset.name == "de-en"
    assert [(query.id, query.text) for query in dataset.queries] == [
        ("de-b", "wie viele?"),
        ("de-a", "welches?"),
    ]
    assert {query: set(graded) for query, graded in dataset.judgements.items()} == {
        "de-a": {"en-s2"}, "de-b": {"en-s0"},
    }  # fmt: skip
    assert [document.text for document in dataset.corpus] == ["one", "two", "three"]


def test_the_result_counts_languages_and_keeps_development_sets_apart(bench):
    even = bench.Figures(80.0, 79.0, 80.0, 90.0, 91.0)
    figures = {
        "xquad_r/de": even._replace(ndcg=81.5),
        "xquad_r/ar": even._replace(ndcg=79.5),
        "jaquad_ja": even,
        "scifact_en": even._replace(ndcg=83.0),
        "squad_dev_en": even._replace(ndcg=78.0),
        "cacm_en": even._replace(ndcg=0.0),
        "de-en": even._replace(found=60.0),
        "ar-en": even._replace(found=70.0),
    }
    assert bench.result(figures) == (
        "RESULT bench-model languages_at_bm25=2 of=3 mean_delta=0.3 english_delta=0.5 "
        "crosslingual_recall10=0.650"
    )
    assert "| cacm_en (development) | 0.0 | 79.0 | 80.0 |" in bench.table(figures)
    assert "| de-en, Recall@10 | 60.0 | | 91.0 |" in bench.table(figures)
