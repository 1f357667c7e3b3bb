"""`pipeline status` and `pipeline lineage` on the records of a real run."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tfx_pipeline.code_version import COMPONENTS
from tfx_pipeline.lineage import METADATA_FILE, Lineage
from tfx_pipeline.provenance import trace
from tfx_pipeline.unchanged import find_unchanged
from xtr_tf.cli.app import app
from xtr_tf.errors import InputError
from xtr_tf.files import sha256_of


def run_command(*words: str) -> str:
    result = CliRunner().invoke(app, ["pipeline", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_the_provenance_of_a_pushed_version_is_complete(pipeline_config: Any, pipeline_outcome: Any) -> None:
    lineage = Lineage(Path(pipeline_config.root, METADATA_FILE))
    found = trace(lineage, pipeline_outcome.pushed)
    assert found.pushed == pipeline_outcome.pushed
    assert found.model.producer == "RetrieverExporter"
    assert {record.producer for record in found.data} == {"TrainingGen", "CorpusGen"}
    assert {record.producer for record in found.schemas} == {"TrainingSchema", "CorpusSchema"}
    assert all(len(record.properties["sha256"]) == 64 for record in found.schemas)
    assert found.base_models == ()
    assert {"xtr-tf", "tensorflow", "tfx"} <= found.versions.keys()
    assert found.metric == "nDCG@10"
    assert len(found.languages) == 10
    assert found.averages["xtr"] == pytest.approx(sum(found.languages.values()) / 10)
    assert [(own.judge, own.blessed) for own in found.judgements] == [
        ("ServingValidator", True),
        ("RetrievalEvaluator", True),
    ]
    # The same model, asked for by its artifact.
    assert trace(lineage, found.model.uri) == found


def test_status_and_lineage_print_the_records(pipeline_config: Any, pipeline_outcome: Any) -> None:
    status = run_command("status", "--root", pipeline_config.root)
    assert "complete" in status
    assert re.search(r"✓ Trainer +\d+\.\d s", status)
    assert f"in production: {pipeline_outcome.pushed}" in status
    assert "last RetrievalEvaluator: blessed; The average of nDCG@10 over 10 languages" in status
    told = run_command("lineage", pipeline_outcome.pushed, "--root", pipeline_config.root)
    for wanted in ("TrainingGen", "CorpusSchema", "tensorflow 2.16", "none, trained from random weights"):
        assert wanted in told
    assert "ServingValidator blessed; The model loaded in" in told
    assert "CorpusGen: corpus 40 records, span 1, from" in told
    corpus = Path(pipeline_config.corpus.folder, "span-1", "corpus.jsonl")
    assert f"span-1/corpus.jsonl, {corpus.stat().st_size:,} bytes, SHA-256 {sha256_of(corpus)}" in told
    assert re.search(r"span-1/queries.jsonl, [\d,]+ bytes, SHA-256 [0-9a-f]{64}", told)


def test_a_run_with_nothing_changed_does_not_start(pipeline_config: Any, pipeline_outcome: Any) -> None:
    for dag in ("full", "refresh"):
        found = find_unchanged(pipeline_config, dag, Path(pipeline_config.root, METADATA_FILE))
        assert found is not None
        assert found.pushed == pipeline_outcome.pushed
        assert found.sentence.startswith(f"Nothing changed since version {Path(found.pushed).name} was made")
    sharper = dataclasses.replace(
        pipeline_config, quality=dataclasses.replace(pipeline_config.quality, min_average=0.5)
    )
    assert find_unchanged(sharper, "refresh", Path(pipeline_config.root, METADATA_FILE)) is None
    longer = dataclasses.replace(
        pipeline_config,
        run=dataclasses.replace(
            pipeline_config.run, training=dataclasses.replace(pipeline_config.run.training, steps=4)
        ),
    )
    assert find_unchanged(longer, "full", Path(pipeline_config.root, METADATA_FILE)) is None
    assert find_unchanged(longer, "refresh", Path(pipeline_config.root, METADATA_FILE)) is not None


def test_a_change_of_code_invalidates_the_cache(
    pipeline_config: Any, pipeline_outcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfx_pipeline import unchanged
    from tfx_pipeline.pipeline import create_pipeline

    nodes = {node.id: node for node in create_pipeline(pipeline_config).components}
    assert all(len(nodes[name].exec_properties["code"]) == 24 for name in COMPONENTS)
    monkeypatch.setattr(unchanged, "code_of", lambda component: "another")
    assert find_unchanged(pipeline_config, "refresh", Path(pipeline_config.root, METADATA_FILE)) is None


def test_locations_without_records_are_input_errors(
    pipeline_config: Any, pipeline_outcome: Any, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="There is no metadata store; run the pipeline first"):
        CliRunner().invoke(app, ["pipeline", "status", "--root", str(tmp_path)], catch_exceptions=False)
    unknown = ["pipeline", "lineage", str(tmp_path), "--root", pipeline_config.root]
    with pytest.raises(InputError, match="No run recorded an artifact there"):
        CliRunner().invoke(app, unknown, catch_exceptions=False)
    remote = ["--set", "root=gs://bucket/x"]
    with pytest.raises(InputError, match=r"Vertex AI needs `vertex\.project`"):
        CliRunner().invoke(app, ["pipeline", "status", *remote], catch_exceptions=False)
    with pytest.raises(InputError, match="Vertex AI keeps the records of what it ran"):
        CliRunner().invoke(app, ["pipeline", "lineage", "gs://bucket/1", *remote], catch_exceptions=False)
