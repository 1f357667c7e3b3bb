"""`pipeline init` on a user's own data: it infers the schemas, and checks run before any component."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tfx_pipeline.config import load_pipeline_config
from tfx_pipeline.preflight import check, languages_of_schema, read_schema
from xtr_tf.cli.app import app
from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically

LANGUAGES = ("it", "ko", "tr", "vi")


def write_rows(path: Path, rows: list[dict]) -> Path:
    write_atomically(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    return path


@pytest.fixture(scope="module")
def own_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    documents, pairs = [], []
    for language in LANGUAGES:
        for number in range(12):
            name = f"{language}-{number}"
            text = f"text number {number} in {language}"
            documents.append({"_id": name, "title": name, "text": text, "language": language})
            positive = {"id": name, "text": text}
            pairs.append(
                {"id": f"q-{name}", "query": f"where is {name}?", "language": language, "positive": positive}
            )
    write_rows(folder / "documents.jsonl", documents)
    write_rows(folder / "pairs.jsonl", pairs)
    return folder


@pytest.fixture(scope="module")
def started(own_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("started") / "mine"
    words = ["pipeline", "init", str(folder), "--corpus", str(own_data / "documents.jsonl")]
    result = CliRunner().invoke(
        app, [*words, "--training", str(own_data / "pairs.jsonl")], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert "languages of the corpus: it, ko, tr, vi" in result.output
    assert f"next: xtr-tf pipeline run --config {folder / 'pipeline.yaml'}" in result.output
    (folder / "vocabulary.model").write_bytes(b"a vocabulary")
    return folder


def test_init_writes_everything_a_run_needs(started: Path, own_data: Path) -> None:
    config = load_pipeline_config(started / "pipeline.yaml")
    check(config)
    for kind in ("training", "corpus"):
        assert languages_of_schema(read_schema(config, kind)) == list(LANGUAGES)
    lines = {
        name: (started / "data" / f"{name}.jsonl").read_text().splitlines() for name in ("train", "eval")
    }
    queries = {name: {json.loads(line)["query"] for line in own} for name, own in lines.items()}
    assert not queries["train"] & queries["eval"]
    assert len(lines["train"]) + len(lines["eval"]) == 48
    assert {json.loads(line)["language"] for line in lines["eval"]} == set(LANGUAGES)


def test_init_requires_only_id_text_and_language(started: Path, own_data: Path) -> None:
    """All of these documents have a title; later ones may not."""
    assert all("title" in json.loads(line) for line in (own_data / "documents.jsonl").open())
    schema = read_schema(load_pipeline_config(started / "pipeline.yaml"), "corpus")
    assert {feature.name for feature in schema.feature if feature.HasField("presence")} == {
        "id",
        "text",
        "language",
    }


def test_init_keeps_an_existing_configuration(started: Path, own_data: Path) -> None:
    words = ["pipeline", "init", str(started), "--corpus", str(own_data / "documents.jsonl")]
    result = CliRunner().invoke(app, [*words, "--training", str(own_data / "pairs.jsonl")])
    assert isinstance(result.exception, InputError)
    assert "There is a configuration already" in str(result.exception)


def test_unknown_languages_are_named_before_anything_runs(started: Path) -> None:
    config = yaml.safe_load((started / "pipeline.yaml").read_text())
    del config["corpus"]["schema"]
    (started / "other.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(InputError) as refusal:
        check(load_pipeline_config(started / "other.yaml"))
    told = str(refusal.value)
    assert "`corpus.files` has languages that the schema does not list" in told
    assert "`corpus.schema` names the folder" in told
    assert told.endswith("Received: it (25%), ko (25%), tr (25%), vi (25%).")


def test_a_file_that_is_not_a_schema_is_refused(started: Path, tmp_path: Path) -> None:
    (tmp_path / "schema.pbtxt").write_text("feature { nome: 'id' }")
    config = load_pipeline_config(started / "pipeline.yaml", [f"corpus.schema={tmp_path}"])
    with pytest.raises(InputError, match=r"`corpus.schema`: .*schema.pbtxt is not a schema; fix it"):
        check(config)


def test_checking_imports_neither_tfx_nor_tensorflow(started: Path, fresh_python) -> None:
    script = (
        "import sys\n"
        "from tfx_pipeline.config import load_pipeline_config\n"
        "from tfx_pipeline.preflight import check, metadata_file\n"
        "from tfx_pipeline.unchanged import find_unchanged\n"
        f"config = load_pipeline_config({str(started / 'pipeline.yaml')!r})\n"
        "check(config)\n"
        "assert find_unchanged(config, 'full', metadata_file(config)) is None\n"
        "print([name for name in ('tensorflow', 'tfx', 'apache_beam') if name in sys.modules])\n"
    )
    assert fresh_python(script).strip() == "[]"


def test_every_key_is_documented() -> None:
    """The reference is generated from the docstrings of a class and its base classes."""
    import dataclasses

    from tfx_pipeline import config, vertex_config

    for module in (config, vertex_config):
        for name, kind in vars(module).items():
            if dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__:
                documented = "".join(own.__doc__ or "" for own in kind.__mro__)
                for field in dataclasses.fields(kind):
                    assert f"\n        {field.name}: " in documented, f"{name}.{field.name}"
