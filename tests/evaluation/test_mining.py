"""Hard negatives: what may become one, and the command that finds them."""

from __future__ import annotations

import json
import math

import pytest

from tests.support.processes import call_command
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.mining import MiningSettings, mine_negatives, to_json
from xtr_tf.evaluation.run import Run
from xtr_tf.training.data.examples import TrainingExample

CORPUS = [
    Document("p", "The Nile is long.", "Nile"),
    Document("copy", "the  NILE is long.", "A river"),
    Document("sister", "It flows north.", "nile"),
    Document("near", "The Amazon is long.", "Amazon"),
    Document("far", "The Rhine is a river.", "Rhine"),
    Document("other", "Bread is baked."),
]
SCORES = [10.0, 9.9, 9.8, 9.7, 5.0, 1.0]
EXAMPLE = TrainingExample("q", "How long is the Nile?", (CORPUS[0],), language="en")


def rank(queries, depth):
    """The same ranking for every query: the order of the corpus."""
    ids = [document.id for document in CORPUS]
    return Run("fixed", {query.id: (ids[:depth], SCORES[:depth]) for query in queries})


def mined(example=EXAMPLE, examples=None, **settings):
    found = mine_negatives(examples or [example], CORPUS, rank, MiningSettings(**settings))
    return [document.id for document in next(iter(found)).negatives]


def test_positives_their_copies_and_same_titles_are_not_negatives():
    assert mined(negatives=9) == ["near", "far", "other"]
    assert mined(negatives=2) == ["near", "far"]
    assert mined(negatives=9, same_title=True) == ["sister", "near", "far", "other"]


def test_the_window_counts_ranks_from_1():
    assert mined(first_rank=5, last_rank=5) == ["far"]
    assert mined(first_rank=1, last_rank=3) == []


def test_the_margin_is_a_share_of_the_positives_score():
    # Both the positive and its copy are found; the lower of their scores counts.
    assert mined(margin=0.0) == ["near", "far", "other"]
    assert mined(margin=0.05) == ["far", "other"]
    assert mined(margin=0.6) == ["other"]
    unknown = EXAMPLE._replace(positives=(Document("x", "Not in the corpus."),))
    assert mined(unknown, margin=0.05) == []
    assert mined(unknown, negatives=2) == ["p", "sister"]


def test_positives_of_the_same_query_elsewhere_count():
    again = EXAMPLE._replace(id="q2", query="how long is  the nile?", positives=(CORPUS[3],))
    assert mined(examples=[EXAMPLE, again], negatives=9) == ["far", "other"]


def test_negatives_that_are_there_stay_and_come_first():
    given = EXAMPLE._replace(negatives=(CORPUS[4],), teacher_scores=(3.0, 1.0))
    (result,) = mine_negatives([given], CORPUS, rank, MiningSettings(negatives=2))
    assert [document.id for document in result.negatives] == ["far", "near", "other"]
    assert result.teacher_scores[:2] == (3.0, 1.0)
    assert all(map(math.isnan, result.teacher_scores[2:]))
    read = TrainingExample.from_json(json.loads(to_json(result)), "und")
    assert (read.id, read.query, read.language) == ("q", EXAMPLE.query, "en")
    assert read.positives == result.positives
    assert read.negatives == result.negatives
    assert read.teacher_scores[:2] == (3.0, 1.0)


def test_a_corpus_that_is_not_the_models_is_refused():
    with pytest.raises(InputError, match="without the document 'p'"):
        list(mine_negatives([EXAMPLE], CORPUS[1:], rank))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"negatives": 0}, "`negatives` must be positive"),
        ({"first_rank": 0}, "must begin at 1 or later"),
        ({"first_rank": 9, "last_rank": 8}, "Received: 9 to 8"),
        ({"margin": 1.0}, r"`margin` must be a share in \[0, 1\)"),
        ({"margin": float("nan")}, "`margin` must be a share"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        MiningSettings(**settings)


@pytest.fixture(scope="module")
def atlas_folder(repository):
    return repository / "examples" / "atlas"


def test_the_command_mines_with_bm25(atlas_folder, tmp_path):
    out = tmp_path / "mined.jsonl"
    result = call_command(
        "mine", atlas_folder, "--corpus", atlas_folder, "--out", out, "--ranks", "2-20", "--quiet"
    )
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == 540
    assert f"for {len(lines)} queries" in result.stderr
    texts = {
        json.loads(line)["_id"]: json.loads(line)["text"] for line in (atlas_folder / "corpus.jsonl").open()
    }
    for line in lines:
        assert len(line["negatives"]) <= 4
        titles = {positive["title"] for positive in line["positives"]}
        assert all(texts[negative["id"]] == negative["text"] for negative in line["negatives"])
        assert not any(negative["title"] in titles for negative in line["negatives"])
    assert sum(map(len, (line["negatives"] for line in lines))) > 1000


@pytest.mark.parametrize("bm25", ["words", "ngrams"])
def test_the_command_mines_among_the_examples(tmp_path, bm25):
    pairs = tmp_path / "pairs.jsonl"
    texts = ["The Nile is a long river.", "The Rhine is a long river.", "Bread is baked."]
    pairs.write_text(
        "".join(json.dumps({"query": f"long river {text}", "text": text}) + "\n" for text in texts)
    )
    out = tmp_path / "mined.jsonl"
    assert call_command("mine", pairs, "--out", out, "--bm25", bm25, "--quiet").returncode == 0
    first = json.loads(out.read_text().splitlines()[0])
    assert first["positives"] == [{"text": texts[0]}]
    assert first["negatives"] == [{"text": texts[1]}, {"text": texts[2]}]


def test_the_command_mines_with_a_model(exact_export, tiny_corpus, tmp_path):
    corpus, pairs, out = (tmp_path / name for name in ("corpus.jsonl", "pairs.jsonl", "mined.jsonl"))
    records = [{"_id": d.id, "title": d.title, "text": d.text} for d in tiny_corpus.documents]
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records))
    pairs.write_text(
        "".join(json.dumps({"query": r["text"][:60], "positives": [r]}) + "\n" for r in records[:3])
    )
    arguments = ("mine", pairs, "--model", exact_export, "--out", out, "--quiet", "--negatives", "2")
    result = call_command(*arguments, "--corpus", corpus, "--ranks", "1-10", "--margin", "0.01")
    assert result.returncode == 0, result.stderr
    found = [[n["id"] for n in json.loads(line)["negatives"]] for line in out.read_text().splitlines()]
    from xtr_tf.runtime import SavedModelSession

    session = SavedModelSession(exact_export)
    for record, negatives in zip(records, found, strict=False):
        answer = session.run("search", {"query": [record["text"][:60]], "top_k": [10]})
        ranked = [key.decode() for key in answer["document_ids"][0]]
        scores = dict(zip(ranked, answer["scores"][0], strict=True))
        limit = scores.get(record["_id"], -math.inf) * 0.99
        titles = {r["_id"]: r["title"].casefold() for r in records}
        allowed = [k for k in ranked if scores[k] <= limit and titles[k] != record["title"].casefold()]
        assert negatives == allowed[:2]
    assert any(found)
    refused = call_command(*arguments)
    assert (refused.returncode, "give its --corpus" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ranks", "5"), "--ranks must be FIRST-LAST, such as 1-50. Received: '5'."),
        (("--bm25", "letters"), "BM25 counts words or ngrams. Received: 'letters'."),
        (("--margin", "2"), "`margin` must be a share"),
    ],
)
def test_bad_arguments_are_one_sentence(atlas_folder, tmp_path, arguments, message):
    result = call_command("mine", atlas_folder, "--out", tmp_path / "x.jsonl", *arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert not (tmp_path / "x.jsonl").exists()
