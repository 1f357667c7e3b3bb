"""`xtr-tf export`, `verify` and `search`."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from xtr_tf.cli.app import app
from xtr_tf.errors import InputError
from xtr_tf.retriever.gate import OLD_FORMS
from xtr_tf.retriever.reference_cases import CHECKSUMS_FILE, REFERENCE_FILE, read_reference


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_search_prints_a_table(exact_export):
    printed = run("search", exact_export.parent, "highest mountain", "--top-k", 3)
    assert "score" in printed
    assert printed.count("\n") == 5
    assert "3 documents in" in printed


def test_search_prints_json(exact_export):
    records = json.loads(
        run("search", exact_export, "mountain", "--json", "--language", "de", "--language", "fr")
    )
    assert records
    assert [record["rank"] for record in records] == list(range(1, len(records) + 1))
    assert {record["language"] for record in records} <= {"de", "fr"}
    scores = [record["score"] for record in records]
    assert scores == sorted(scores, reverse=True)


def test_search_takes_a_constant_to_impute(tmp_path, monkeypatch):
    asked = {}

    def answer(signature, inputs):
        asked[signature] = inputs
        return {"document_ids": np.array([[b""]], object)}

    session = contextlib.nullcontext(SimpleNamespace(run=answer))
    monkeypatch.setattr("xtr_tf.runtime.SavedModelSession", lambda directory: session)
    (tmp_path / "saved_model.pb").touch()
    run("search", tmp_path, "nile", "--json", "--imputation", "constant", "--constant", 0.5)
    assert asked["search"]["imputation"] == ["constant"]
    assert asked["search"]["constant"] == [0.5]


def test_search_explains(exact_export):
    printed = run("search", exact_export, "highest mountain", "--explain", "--k-prime", 60)
    assert "imputed" in printed
    assert re.search(r"\bmo", printed)  # where the vocabulary cuts "mountain" depends on its trainer


def test_a_bad_search_is_one_sentence(exact_export):
    with pytest.raises(InputError, match=r"^`k_prime` must be at least 1\. Received: 0\.$"):
        run("search", exact_export, "nile", "--k-prime", 0)


def unchecked_copy(export: Path, directory: Path) -> Path:
    """A copy without checksums, whose files may be changed."""
    copy = Path(shutil.copytree(export, directory))
    (copy / CHECKSUMS_FILE).unlink()
    return copy


def test_no_model(tmp_path):
    for command in (("search", tmp_path, "nile"), ("verify", tmp_path)):
        with pytest.raises(InputError, match="A model is a directory"):
            run(*command)


def test_verify(exact_export, tmp_path):
    printed = run("verify", exact_export)
    assert printed.startswith("ok answers: ")
    signatures = {case.signature for case in read_reference(exact_export).cases}
    assert {
        answer.split()[0] for answer in printed.splitlines()[0].partition(": ")[2].split(", ")
    } == signatures
    assert re.search(r" search \d+,", printed)
    assert "old form" not in printed
    assert "op libraries: _sentencepiece_tokenizer.so" in printed
    copy = unchecked_copy(exact_export, tmp_path / "1")
    reference = json.loads((copy / REFERENCE_FILE).read_text())
    reference["cases"] = reference["cases"][:1]
    (copy / REFERENCE_FILE).write_text(json.dumps(reference))
    with pytest.raises(InputError, match=rf"does not give the answers.*{len(signatures) - 1} problems"):
        run("verify", copy)


def test_a_fast_check_asks_every_signature_once(exact_export):
    printed = run("verify", exact_export, "--check", "fast")
    answers = re.search(r"answers: (.*)", printed.replace("\n", " "))[1]
    counts = dict(re.findall(r"(\w+) (\d+)", answers.partition(" loaded")[0]))
    assert set(counts.values()) == {"1"}
    assert {"serving_default", "search", "explain", "encode_query"} <= counts.keys()


@pytest.mark.parametrize("form", [1, 2])
def test_verify_of_a_model_with_cases_of_an_old_form(exact_export, tmp_path, form):
    """A plain list without tolerances, and one value of a parameter for all queries."""
    copy = unchecked_copy(exact_export, tmp_path / "1")
    reference = json.loads((copy / REFERENCE_FILE).read_text())
    cases = [case for case in reference["cases"] if case["signature"] in ("score", "serving_default")]
    cases[-1]["outputs"]["scores"]["values"][0] += 0.002
    if form == 1:
        content = [{name: case[name] for name in ("signature", "inputs", "outputs")} for case in cases]
    else:
        content = {**reference, "cases": cases, "form": 2}
    (copy / REFERENCE_FILE).write_text(json.dumps(content))
    result = CliRunner().invoke(app, ["verify", str(copy)])
    printed = " ".join(result.stdout.split())
    assert printed.startswith(f"old {OLD_FORMS[form]}")
    assert "wrong `score`: `scores` differs in 1 of" in printed
    assert "joined" not in printed.removeprefix(f"old {OLD_FORMS[form]}")
    assert isinstance(result.exception, InputError)


def test_verify_of_a_model_of_a_newer_release(exact_export, tmp_path):
    copy = unchecked_copy(exact_export, tmp_path / "1")
    reference = json.loads((copy / REFERENCE_FILE).read_text())
    (copy / REFERENCE_FILE).write_text(json.dumps({**reference, "form": 4}))
    with pytest.raises(InputError, match=r"that this release cannot read.* Received: form 4\.$"):
        run("verify", copy)


def test_export_refuses_parts_of_different_origin(directories, tmp_path, tiny_corpus):
    from xtr_tf.model.encoder import Encoder
    from xtr_tf.model.folder import save_encoder

    save_encoder(tmp_path / "other", Encoder(tiny_corpus.encoder.config, seed=1), tiny_corpus.tokenizer)
    arguments = ("--index", directories / "exact", "--out", tmp_path / "out")
    with pytest.raises(InputError, match="must come from this encoder"):
        run("export", directories / "vectors", "--model", tmp_path / "other", *arguments)
    assert not (tmp_path / "out").exists()


def test_an_export_stores_as_much_text_as_asked_for(directories, tiny_corpus):
    from xtr_tf.retriever.assembly import assemble_retriever

    texts = [document.text for document in tiny_corpus.documents]
    parts = [directories / name for name in ("encoder", "vectors", "exact")]
    for store_text, keep_spans, length in (
        ("full", True, None),
        ("snippet", True, None),
        ("snippet", False, 301),
    ):
        documents = assemble_retriever(*parts, None, store_text, keep_spans).retriever.documents
        assert [text.decode() for text in documents.texts.numpy()] == [text[:length] for text in texts]
        assert documents.snippets == (store_text == "snippet")
    assert assemble_retriever(*parts, store_text="none").retriever.documents.texts.shape == [0]
    with pytest.raises(InputError, match="`store_text` must be one of none, snippet, full"):
        assemble_retriever(*parts, store_text="some")


@pytest.mark.slow
def test_export(directories, tmp_path):
    printed = run(
        *("export", directories / "vectors", "--model", directories / "encoder"),
        *("--index", directories / "core", "--out", tmp_path / "atlas"),
        *("--top-k", 4, "--store-text", "none", "--no-keep-spans"),
    )
    assert "published" in printed
    assert "60 documents" in printed
    explained = run("search", tmp_path / "atlas", "mountain", "--explain")
    assert "4 documents in" in explained
