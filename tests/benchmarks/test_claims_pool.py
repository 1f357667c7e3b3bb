"""The claims' data: no text twice in the pool, no measured text in training, no model analysed twice."""

from __future__ import annotations

import json

import pytest
import yaml

from xtr_tf.collections.document import Document
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.model.folder import save_encoder
from xtr_tf.vectors.document_encoder import TokenCounter

LAKE = "Baikal is the deepest lake on Earth."
LONG = "The river begins in the mountains and flows north through two deserts before it reaches the sea."


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_set(folder, passages, questions):
    """Passages have the numbers of their places as ids, and a question is answered by one of them."""
    write_lines(folder / "corpus.jsonl", [{"_id": str(n), "text": text} for n, text in enumerate(passages)])
    write_lines(
        folder / "queries.jsonl", [{"_id": f"q{n}", "text": text} for n, text in enumerate(questions)]
    )
    judged = [f"q{n}\t{answer}\t1" for n, answer in enumerate(questions.values())]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")


@pytest.fixture
def data(tmp_path):
    tests, train = tmp_path / "data" / "test", tmp_path / "data" / "train"
    write_set(tests / "squad_dev_en", [LAKE, "Lhasa is in Tibet."], {"How deep is Baikal?": 0, "Where?": 1})
    write_set(tests / "scifact_en", [LONG, "Salt melts ice.", "Salt  melts ICE"], {"Ice melts by salt.": 2})
    write_set(tests / "cranfield_en", ["A wing lifts.", LAKE.upper()], {"lift": 0})
    write_set(tests / "cacm_en", ["Sorting takes time."], {"sort": 0})
    write_set(tests / "fairytaleqa_en", ["A fox met a crow."], {"who?": 0})
    pairs = [("Which lake?", LAKE.lower()), ("which city", "Oslo is a city."), ("what", "Oslo is a city.")]
    write_lines(train / "wiki_en.jsonl", [{"query": q, "title": "", "text": text} for q, text in pairs])
    return tmp_path / "data"


@pytest.fixture
def build(claims_module, data, tiny_corpus):
    module = claims_module("pool")
    counter = TokenCounter(tiny_corpus.tokenizer, EncodingConfig())

    def build(tokens=1, queries=0):
        return module.build_pool(data / "test", data / "train", counter, tokens, queries)

    build.count = counter.count
    return build


def texts(pool):
    return sorted(document.text for document in pool.documents)


def all_tokens(build):
    """Tokens of everything in the data that is there once."""
    with pytest.raises(InputError, match="fewer tokens") as raised:
        build(tokens=10**9)
    return int(str(raised.value).rpartition("Received: ")[2].split()[0].replace(",", ""))


def test_every_text_is_in_the_pool_once(build):
    pool = build(tokens=all_tokens(build))
    judged = [LAKE, "Lhasa is in Tibet.", LONG, "Salt  melts ICE"]
    others = ["A wing lifts.", "Sorting takes time.", "A fox met a crow.", "Oslo is a city."]
    assert texts(pool) == sorted([*judged, *others])
    assert pool.tokens == build.count([document.full_text for document in pool.documents]).sum()


def test_judgements_refer_to_the_document_that_was_kept(build, data):
    folder = data / "test" / "scifact_en" / "qrels" / "test.tsv"
    folder.write_text("query-id\tcorpus-id\tscore\nq0\t1\t1\nq0\t2\t1\n")
    pool = build()
    texts_of = {document.id: document.text for document in pool.documents}
    graded = pool.datasets["scifact_en"].judgements["q0"]
    assert {texts_of[key]: grade for key, grade in graded.items()} == {"Salt melts ice.": 1}


def test_judged_documents_are_in_every_pool_and_the_first_distractors_are_of_the_same_set(build):
    small = build(tokens=1)
    assert texts(small) == sorted([LAKE, "Lhasa is in Tibet.", "Salt  melts ICE"])
    assert texts(build(tokens=small.tokens + 1)) == sorted([*texts(small), LONG])


def test_the_key_says_which_texts_and_which_queries(build):
    one, two = build(queries=1), build(queries=2)
    assert build(queries=2).key == two.key
    assert len({one.key, two.key, build(tokens=two.tokens + 1).key}) == 3
    assert len(one.datasets["squad_dev_en"].queries) == 1


def test_no_measured_text_is_trained_on(claims_module, data, tmp_path, monkeypatch):
    pairs = {
        "how deep is baikal": "It is 1,642 m deep.",  # asks a measured question
        "Where does it flow?": f"Some say: {LONG}",  # contains a measured passage
        "Where does it begin?": LONG[:30],
        "Which sea?": "It reaches the sea.",
    }
    rows = [{"query": query, "title": "", "text": text} for query, text in pairs.items()]
    write_lines(data / "train" / "rivers_en.jsonl", rows)
    write_lines(data / "train" / "squad_nqg_test_en.jsonl", rows)
    write_lines(data / "train" / "fluesse_de.jsonl", rows)
    out = tmp_path / "train"
    monkeypatch.setattr("sys.argv", ["training_pairs.py", "--data", str(data), "--out", str(out)])
    claims_module("training_pairs").main()
    assert sorted(path.name for path in out.iterdir()) == ["rivers_en.jsonl", "wiki_en.jsonl"]
    kept = [json.loads(line) for line in (out / "rivers_en.jsonl").read_text().splitlines()]
    assert [row["query"] for row in kept] == ["Where does it begin?", "Which sea?"]
    assert {row["language"] for row in kept} == {"rivers_en"}


def test_a_model_is_analysed_once(claims_module, build, tiny_corpus, tmp_path, monkeypatch):
    analyses = claims_module("analyses")
    save_encoder(tmp_path / "run" / "encoder", tiny_corpus.encoder, tiny_corpus.tokenizer)
    encoded, analysed = [], []

    def counting(calls, function):
        return lambda *arguments: calls.append(1) or function(*arguments)

    monkeypatch.setattr(analyses, "encode_pool", counting(encoded, analyses.encode_pool))
    monkeypatch.setattr(analyses, "analyse_tokens", counting(analysed, analyses.analyse_tokens))
    pool, names = build(), ("squad_dev_en", "scifact_en")

    def measure(pool):
        return analyses.analyses_of(tmp_path / "run" / "encoder", pool, names, tmp_path / "analyses")

    first = measure(pool)
    assert (len(encoded), len(analysed)) == (1, 2)
    assert measure(build()) == first
    assert (len(encoded), len(analysed)) == (1, 2)
    (stored,) = (tmp_path / "analyses").glob("*/scifact_en.json")
    stored.unlink()  # as if it had been stopped between the sets
    assert measure(pool) == first
    assert (len(encoded), len(analysed)) == (2, 3)
    measure(build(tokens=pool.tokens + 1))
    assert (len(encoded), len(analysed)) == (3, 5)


def test_the_pool_is_encoded_in_parts_as_at_once(claims_module, tiny_corpus, monkeypatch):
    analyses, module = claims_module("analyses"), claims_module("pool")
    documents = [Document(own.id, own.text, own.title) for own in tiny_corpus.documents[:7]]
    model = analyses.LoadedEncoder(tiny_corpus.encoder, tiny_corpus.tokenizer)
    at_once = model.encode_documents(documents, "pool")
    monkeypatch.setattr(analyses, "_ENCODED", 3)
    found = analyses.encode_pool(model, module.Pool(documents, at_once.num_tokens, {}))
    assert found.offsets.tolist() == at_once.offsets.tolist()
    assert found.pieces.tolist() == at_once.pieces.tolist()
    # Vectors are rounded to float16, and depend on their batch by less than that.
    assert abs(found.vectors - at_once.vectors).max() <= 2**-10


@pytest.fixture
def runs(tmp_path):
    def write(name, **training):
        (tmp_path / name / "encoder").mkdir(parents=True)
        arm, seed = name.split("-")
        settings = {"loss": {"score": arm}, "training": {"seed": int(seed), "steps": 300, **training}}
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump(settings))

    for arm in ("xtr", "colbert", "imputed"):
        write(f"{arm}-1")
        write(f"{arm}-2")
    return write


def test_only_seeds_that_all_arms_finished_are_compared(claims_module, runs, tmp_path):
    runs("xtr-3")
    found = claims_module("arms").finished_runs(tmp_path)
    assert {arm: list(own) for arm, own in found.items()} == {
        "xtr": [1, 2], "colbert": [1, 2], "imputed": [1, 2],
    }  # fmt: skip
    with pytest.raises(InputError, match=r"train_arms\.sh"):
        claims_module("arms").finished_runs(tmp_path / "none")


def test_arms_of_different_length_are_refused(claims_module, runs, tmp_path):
    for arm in ("xtr", "colbert", "imputed"):
        runs(f"{arm}-3", steps=600 if arm == "colbert" else 300)
    with pytest.raises(InputError, match=r"training\.steps differs in .*colbert-3"):
        claims_module("arms").finished_runs(tmp_path)
