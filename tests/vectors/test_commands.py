"""`xtr-tf encode`, `xtr-tf index` and `xtr-tf index update`, one after the other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from xtr_tf.cli.app import app
from xtr_tf.errors import InputError
from xtr_tf.index.folder import TokenIndex
from xtr_tf.vectors.store import TokenVectors


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def built(repository: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    atlas = repository / "examples" / "atlas"
    shown = run("encode", atlas, "--model", model, "--out", folder / "vectors", "--shard-characters", 50_000)
    assert "300 documents" in shown
    assert "300 documents encoded, 0 reused, 0 shards kept" in shown
    shown = run("index", folder / "vectors", "--out", folder / "index", "--kind", "core")
    assert "core index of 300 documents" in shown
    return folder


def test_the_index_is_of_the_vectors(built: Path) -> None:
    index, vectors = TokenIndex.open(built / "index"), TokenVectors.open(built / "vectors")
    assert index.encoder_fingerprint == vectors.encoder_fingerprint
    np.testing.assert_array_equal(index.document_offsets, vectors.document_offsets)


def test_an_update_encodes_what_changed(built: Path, atlas: Path, model: Path, tmp_path: Path) -> None:
    lines = (atlas / "corpus.jsonl").read_text().splitlines()
    changed = {**json.loads(lines[1]), "text": "Another text about the Nile."}
    new = {"_id": "new", "title": "New", "text": "A new document."}
    (tmp_path / "add.jsonl").write_text("\n".join([lines[0], json.dumps(changed), json.dumps(new)]))
    (tmp_path / "ids.txt").write_text("en-sahara\n\nnobody\n")
    arguments = ["--vectors", built / "vectors", "--model", model, "--add", tmp_path / "add.jsonl"]
    arguments += ["--delete", tmp_path / "ids.txt"]
    arguments += ["--out", tmp_path / "index", "--vectors-out", tmp_path / "vectors"]
    shown = run("index", "update", built / "index", *arguments)
    assert "1 added, 1 replaced, 1 deleted, 1 unchanged, 1 unknown; 2 encoded" in shown
    assert "not in the index: nobody" in shown
    ids = TokenVectors.open(tmp_path / "vectors").document_ids
    assert ids[-2:] == [changed["_id"], "new"]
    assert "en-sahara" not in ids
    assert TokenIndex.open(tmp_path / "index").num_documents == 300


@pytest.mark.pipeline
def test_beam_builds_the_same_index(built: Path, tmp_path: Path) -> None:
    arguments = ["--kind", "core", "--runner", "DirectRunner", "--", "--direct_num_workers=1"]
    run("index", built / "vectors", "--out", tmp_path / "index", *arguments)
    for path in (built / "index").iterdir():
        assert (tmp_path / "index" / path.name).read_bytes() == path.read_bytes()


def test_impossible_options_are_refused(built: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`kind` must be one of"):
        run("index", built / "vectors", "--out", tmp_path / "index", "--kind", "faiss")
    with pytest.raises(InputError, match="The directory exists"):
        run("index", built / "vectors", "--out", built / "index")
    with pytest.raises(InputError, match="not a finished directory"):
        run("index", tmp_path, "--out", tmp_path / "index")
    with pytest.raises(InputError, match="no pipeline options"):
        run("encode", tmp_path, "--model", tmp_path, "--out", tmp_path / "out", "--", "--streaming")
    assert not (tmp_path / "index").exists()


def test_options_may_come_before_the_vectors(built: Path, tmp_path: Path) -> None:
    run("index", "--out", tmp_path / "index", "--kind", "core", built / "vectors")
    for path in (built / "index").iterdir():
        assert (tmp_path / "index" / path.name).read_bytes() == path.read_bytes()
    assert "update" in run("index", "--help")
    assert "update" in run("index", "-h")


def test_an_update_keeps_the_language_of_its_corpus(model: Path, tmp_path: Path) -> None:
    old = '{"_id": "alt", "text": "Der Nil."}\n{"_id": "en", "text": "The Nile.", "language": "en"}\n'
    (tmp_path / "corpus.jsonl").write_text(old)
    (tmp_path / "add.jsonl").write_text(old + '{"_id": "neu", "text": "Die Elbe."}\n')
    run("encode", tmp_path / "corpus.jsonl", "--model", model, "--out", tmp_path / "v1", "--language", "de")
    run("index", tmp_path / "v1", "--out", tmp_path / "i1", "--kind", "exact")

    def update(number: int, *arguments: object) -> str:
        directories = ["--vectors", tmp_path / "v1", "--model", model, "--add", tmp_path / "add.jsonl"]
        directories += ["--out", tmp_path / f"i{number}", "--vectors-out", tmp_path / f"v{number}"]
        return run("index", "update", tmp_path / "i1", *directories, *arguments)

    def languages(number: int) -> dict[str, str]:
        documents = TokenVectors.open(tmp_path / f"v{number}").documents()
        return {document.id: document.language for document in documents}

    assert "1 added, 0 replaced, 0 deleted, 2 unchanged" in update(2)
    assert languages(2) == {"alt": "de", "en": "en", "neu": "de"}
    assert TokenVectors.open(tmp_path / "v2").manifest.language == "de", "the next update knows it too"
    assert "1 added, 1 replaced, 0 deleted, 1 unchanged" in update(3, "--language", "nl")
    assert languages(3) == {"alt": "nl", "en": "en", "neu": "nl"}


def test_a_language_that_is_not_known_is_not_in_the_manifest(built: Path) -> None:
    assert "language" not in json.loads((built / "vectors" / "manifest.json").read_text())
    assert TokenVectors.open(built / "vectors").manifest.language == "und"
