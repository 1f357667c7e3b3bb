"""The structure of the DAG, and a full run with TFX on a small corpus."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tfx_pipeline.config import PipelineConfig
from tfx_pipeline.lineage import Lineage
from tfx_pipeline.pipeline import create_pipeline
from tfx_pipeline.preflight import metadata_file
from tfx_pipeline.runners.local import Outcome, run_pipeline
from xtr_tf.collections.beir import load_beir
from xtr_tf.errors import InputError
from xtr_tf.evaluation.alpha import ALPHAS, best_alpha
from xtr_tf.runtime import SavedModelSession

DATA_NODES = {
    "TrainingGen",
    "CorpusGen",
    "TrainingStatistics",
    "CorpusStatistics",
    "TrainingSchema",
    "CorpusSchema",
    "TrainingValidator",
    "CorpusValidator",
    "LatestDataGate",
    "DataGate",
}
MODEL_NODES = {
    "LatestBlessedModel",
    "CorpusEncoder",
    "IndexBuilder",
    "RetrieverExporter",
    "RetrievalEvaluator",
    "ServingValidator",
    "Pusher",
}


@pytest.fixture(scope="module")
def config(pipeline_config: PipelineConfig) -> PipelineConfig:
    return pipeline_config


@pytest.fixture(scope="module")
def outcome(pipeline_outcome: Outcome) -> Outcome:
    return pipeline_outcome


@pytest.fixture(scope="module")
def session(outcome: Outcome) -> Iterator[SavedModelSession]:
    """The pushed version, loaded once for all tests."""
    with SavedModelSession(Path(outcome.pushed)) as session:
        yield session


def test_every_component_runs_and_a_version_is_pushed(config: PipelineConfig, outcome: Outcome) -> None:
    ran = [result.component for result in outcome.components]
    assert set(ran) == DATA_NODES | MODEL_NODES | {"NegativeMiner", "Transform", "Trainer"}
    steps = ("DataGate", "NegativeMiner", "Transform", "Trainer")
    assert [component for component in ran if component in steps] == list(steps)
    version = Path(outcome.pushed)
    assert str(version.parent) == config.serving_folder
    card = json.loads((version / "model_card.json").read_text())
    assert card["warm_up"]
    assert card["corpus"]["documents"] == 40
    assert (version / "assets.extra" / "tf_serving_warmup_requests").is_file()
    assert Path(outcome.report).is_file()
    assert "nDCG@10" in outcome.reasons[0]
    assert "Judged by the two thirds of the queries that `alpha` was not chosen on." in outcome.reasons


def test_the_pushed_version_finds_documents(session: SavedModelSession) -> None:
    answer = session.run("serving_default", {"query": ["Sahara"]})
    assert answer["document_ids"].shape == (1, 10)
    assert answer["document_ids"][0, 0]


def test_declared_fields_reach_the_pushed_version(outcome: Outcome, session: SavedModelSession) -> None:
    card = json.loads((Path(outcome.pushed) / "model_card.json").read_text())
    assert card["corpus"]["fields"] == {"number": "int", "tags": "keywords"}
    assert card["corpus"]["field_bytes_per_document"] > 0
    query = ["Sahara"]
    answer = session.run("search", {"query": query, "filter": ["number<10;tags=even"], "top_k": [40]})
    with pytest.raises(InputError, match=r"unknown field.*language, number, tags"):
        session.run("search", {"query": query, "filter": ["undeclared=x"]})
    fields = [json.loads(own) for own in answer["fields"][0] if own]
    assert fields
    assert {own["number"] for own in fields} <= {0, 2, 4, 6, 8}
    assert all(own == {"number": own["number"], "tags": ["even"]} for own in fields)


def test_alpha_is_chosen_on_the_development_queries(
    config: PipelineConfig, outcome: Outcome, session: SavedModelSession
) -> None:
    card = json.loads(Path(outcome.pushed, "model_card.json").read_text())
    metrics = card["metrics"]
    means = {alpha: metrics[f"nDCG@10 on a third of eval, alpha {alpha}"] for alpha in ALPHAS}
    # Whatever the configuration says, what is chosen is what callers get who ask for nothing.
    assert card["defaults"]["alpha"] == best_alpha(means) != config.search.alpha
    span = Path(config.training_data.folder, "span-1")
    asked = Counter(query.language for query in load_beir(span, "dev").queries)
    chosen = {language for language in asked if f"best alpha on a third of eval, {language}" in metrics}
    assert chosen == {language for language, count in asked.items() if count >= 3} != set()
    assert session.defaults("search")["alpha"] == np.float32(best_alpha(means))
    both = session.run("search", {"query": ["Sahara"], "alpha": [best_alpha(means)]})
    answer = session.run("serving_default", {"query": ["Sahara"]})
    np.testing.assert_array_equal(answer["document_ids"], both["document_ids"])


def test_tfx_packages_itself_only_for_beam_options(
    config: PipelineConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfx.components.statistics_gen.executor import Executor
    from tfx.utils import dependency_utils

    packages = []
    monkeypatch.setattr(dependency_utils, "build_ephemeral_package", lambda: packages.append("tfx") or "tfx")
    for beam_args, built in ((create_pipeline(config).beam_pipeline_args, []), (["--runner=Any"], ["tfx"])):
        Executor(Executor.Context(beam_pipeline_args=beam_args, tmp_dir="", unique_id="1"))
        assert packages == built


def test_training_uses_the_mined_negatives(config: PipelineConfig, outcome: Outcome) -> None:
    lineage = Lineage(metadata_file(config))
    upstream = {record.producer: record for record in lineage.upstream(lineage.find(outcome.pushed))}
    assert upstream["NegativeMiner"].properties["negatives_found"] > 0


def test_lineage_goes_from_the_pushed_version_back_to_the_data(
    config: PipelineConfig, outcome: Outcome
) -> None:
    lineage = Lineage(metadata_file(config))
    upstream = {record.producer for record in lineage.upstream(lineage.find(outcome.pushed))}
    assert {"TrainingGen", "CorpusGen", "TrainingSchema", "Transform", "Trainer", "IndexBuilder"} <= upstream


def test_curves_and_checkpoints_are_artifacts_and_the_work_area_is_empty(
    config: PipelineConfig, outcome: Outcome
) -> None:
    (run,) = Lineage(metadata_file(config)).artifacts("ModelRun")
    assert {"checkpoints", "tensorboard", "config.yaml"} <= {path.name for path in Path(run.uri).iterdir()}
    assert not any(Path(config.work_folder, "training").iterdir())
    assert not any(Path(config.work_folder, "vectors").iterdir())


def test_a_refresh_does_not_train(config: PipelineConfig) -> None:
    pipeline = create_pipeline(config, "refresh")
    assert {node.id for node in pipeline.components} == DATA_NODES | MODEL_NODES
    (encoder,) = (node for node in pipeline.components if node.id == "CorpusEncoder")
    assert {node.id for node in encoder.upstream_nodes} == {"CorpusGen", "DataGate", "LatestBlessedModel"}


def test_alpha_is_chosen_only_on_request(config: PipelineConfig) -> None:
    import dataclasses

    def upstream(config: PipelineConfig, dag: str) -> set[str]:
        (exporter,) = (n for n in create_pipeline(config, dag).components if n.id == "RetrieverExporter")
        return {node.id for node in exporter.upstream_nodes}

    without = dataclasses.replace(config, choose_alpha=False)
    for dag in ("full", "refresh"):
        assert upstream(config, dag) - upstream(without, dag) == {"TrainingGen", "CorpusGen"}
    with pytest.raises(InputError, match=r"`choose_alpha` and .* need BM25"):
        dataclasses.replace(config, index=dataclasses.replace(config.index, lexical="none"))


def test_a_remote_pipeline_contains_no_local_path(config: PipelineConfig) -> None:
    import dataclasses

    from tfx.dsl.compiler.compiler import Compiler

    from tfx_pipeline.config import CorpusConfig, TrainingDataConfig

    tokenizer = dataclasses.replace(config.run.tokenizer, model="gs://bucket/vocabulary.model")
    training = dataclasses.replace(config.run.training, initial_encoder="gs://bucket/mt5")
    remote = dataclasses.replace(
        config,
        root="gs://bucket/root",
        training_data=TrainingDataConfig(folder="gs://bucket/data"),
        corpus=CorpusConfig(folder="gs://bucket/data"),
        run=dataclasses.replace(config.run, tokenizer=tokenizer, training=training),
    )
    text = str(Compiler().compile(create_pipeline(remote)))
    assert "gs://bucket/root/schemas/training" in text
    assert "gs://bucket/root/serving" in text
    assert "gs://bucket/mt5" in text
    for local in (f"{Path.cwd()}/", str(Path(config.root).parent), "out/"):
        assert local not in text


def test_a_refresh_without_a_blessed_model_is_refused(config: PipelineConfig, tmp_path: Path) -> None:
    import dataclasses

    with pytest.raises(InputError, match="run the full pipeline first"):
        run_pipeline(dataclasses.replace(config, root=str(tmp_path)), "refresh")


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("corpus.foldr=x", "did you mean `corpus.folder`"),
        ("schema=x", "did you mean `training_data.schema` or `corpus.schema`?"),
        ("training_drft=0.2", "did you mean `gate.training_drift`?"),
        (
            "corpus.files=none.jsonl",
            "`corpus.files` matches no file in `corpus.folder`, examples/atlas; check both",
        ),
        ("training_data.eval=none.tsv", "`training_data.eval` matches no file in `training_data.folder`"),
        ("corpus.schema=examples", "`corpus.schema` is the folder of a file schema.pbtxt"),
        ("corpus.folder=nowhere", "`corpus.folder` must be a folder that exists"),
        ("run.tokenizer.model=none.model", "make one with `xtr-tf tokenizer train`"),
        ("root=gs://bucket/root", "compile it for a remote one"),
        ("run.data.train=[{path: a.jsonl}]", "set by `training_data` and `corpus`"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_sentence(
    repository: Path, override: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xtr_tf.cli.app import app

    monkeypatch.chdir(repository)
    file = repository / "examples" / "configs" / "atlas_pipeline.yaml"
    result = CliRunner().invoke(app, ["pipeline", "run", "--config", str(file), "--set", override])
    assert isinstance(result.exception, InputError)
    assert sentence in str(result.exception)
