"""What a second run does: nothing, resume after a kill, refresh the corpus, or leave production as it is."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from small_atlas import copy_vocabulary, read_corpus, small_config, write_corpus, write_small_atlas

from tfx_pipeline.config import PipelineConfig
from tfx_pipeline.lineage import ArtifactRecord, Lineage
from tfx_pipeline.preflight import metadata_file
from tfx_pipeline.runners.local import Outcome, run_pipeline
from tfx_pipeline.withdrawal import roll_back
from xtr_tf.config.loading import to_mapping
from xtr_tf.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

# Decided by what was resolved when the run began, so never the same execution twice.
ALWAYS_RUN = {"LatestDataGate", "LatestBlessedModel", "DataGate"}


@pytest.fixture
def config(repository: Path, tiny_corpus, tmp_path: Path) -> PipelineConfig:
    data = write_small_atlas(repository / "examples" / "atlas", tmp_path / "data")
    return small_config(data, tmp_path / "root", copy_vocabulary(tiny_corpus.tokenizer, tmp_path))


def ran(outcome: Outcome) -> set[str]:
    return {result.component for result in outcome.components if not result.cached}


def latest(config: PipelineConfig, kind: str) -> ArtifactRecord:
    return Lineage(metadata_file(config)).artifacts(kind)[-1]


def test_nothing_changed_then_the_corpus_then_the_thresholds(config: PipelineConfig) -> None:
    first = run_pipeline(config)
    versions = set(Path(config.serving_folder).iterdir())
    for dag in ("full", "refresh"):
        again = run_pipeline(config, dag)
        assert again.unchanged
        assert again.components == ()
        assert again.pushed == first.pushed
    again = run_pipeline(config, force=True)
    assert ran(again) == ALWAYS_RUN | {"RetrievalEvaluator", "Pusher"}
    assert again.pushed == first.pushed
    assert set(Path(config.serving_folder).iterdir()) == versions

    data = Path(config.corpus.folder)
    corpus = read_corpus(data)
    corpus[0]["text"] = f"{corpus[0]['text']} It has been seen from afar."
    write_corpus(data, 2, corpus)
    refreshed = run_pipeline(config, "refresh")
    assert Path(refreshed.pushed).name > Path(first.pushed).name
    vectors, index = latest(config, "xtr.TokenVectors"), latest(config, "xtr.TokenIndex")
    assert (vectors.properties["documents_encoded"], vectors.properties["documents_reused"]) == (1, 39)
    assert index.properties["refreshes"] == 1
    assert run_pipeline(config, "refresh").unchanged
    assert run_pipeline(config, "refresh", force=True).pushed == refreshed.pushed

    versions = set(Path(config.serving_folder).iterdir())
    corpus[1]["text"] = "Nothing of interest."
    write_corpus(data, 3, corpus)
    strict = dataclasses.replace(config, quality=dataclasses.replace(config.quality, min_average=1.0))
    refused = run_pipeline(strict, "refresh")
    assert refused.pushed == ""
    assert any("1.000" in reason for reason in refused.reasons)
    assert set(Path(config.serving_folder).iterdir()) == versions


def test_a_rollback_survives_the_next_refresh(config: PipelineConfig) -> None:
    """Push 1, push 2 of another encoder, roll back, refresh: built on 1, pushed as 3."""
    first = run_pipeline(config)
    trained_more = with_training(config, steps=5)
    second = run_pipeline(trained_more)
    assert Path(second.pushed).name > Path(first.pushed).name
    roll_back(config, metadata_file(config), "it finds nothing.")
    assert run_pipeline(trained_more).unchanged  # what was rolled back is not pushed again
    kept = run_pipeline(trained_more, force=True)
    assert kept.pushed == ""
    assert any("it finds nothing" in reason for reason in kept.reasons)

    data = Path(config.corpus.folder)
    corpus = read_corpus(data)
    write_corpus(data, 2, [*corpus, {**corpus[0], "_id": "new", "text": "A new document."}])
    third = run_pipeline(trained_more, "refresh")
    assert Path(third.pushed).name > Path(second.pushed).name
    fingerprints = [
        json.loads(Path(place, "model_card.json").read_text())["encoder"]["fingerprint"]
        for place in (first.pushed, third.pushed)
    ]
    assert fingerprints[0] == fingerprints[1]


def test_bad_data_stops_a_run_before_training(config: PipelineConfig) -> None:
    data = Path(config.corpus.folder)
    write_corpus(data, 2, [row for row in read_corpus(data) if row["language"] != "sw"])
    with pytest.raises(InputError, match="component DataGate failed"):
        run_pipeline(config)
    assert not Path(config.serving_folder).exists()


def test_a_run_killed_in_the_trainer_continues_from_its_checkpoint(config: PipelineConfig) -> None:
    config = with_training(config, steps=400)
    work = Path(config.work_folder, "training")
    kill_when(config, lambda: any(work.glob("*/run/checkpoints/step_*")))
    outcome = run_pipeline(with_training(config, steps=400))
    assert outcome.pushed
    run = Path(latest(config, "ModelRun").uri)
    assert len(list((run / "tensorboard").iterdir())) == 2
    assert (run / "checkpoints" / "step_000000400").is_dir()


def test_a_run_killed_in_the_encoder_keeps_its_shards(config: PipelineConfig) -> None:
    work = Path(config.work_folder, "vectors")
    kill_when(config, lambda: any(work.glob("*/vectors/shard-*/shard.json")))
    outcome = run_pipeline(config)
    assert outcome.pushed
    assert ran(outcome) & {"Trainer", "Transform"} == set()
    properties = latest(config, "xtr.TokenVectors").properties
    assert properties["shards_kept"] >= 1
    assert properties["documents"] == 40


def with_training(config: PipelineConfig, steps: int) -> PipelineConfig:
    training = dataclasses.replace(config.run.training, steps=steps, checkpoint_every=20)
    return dataclasses.replace(config, run=dataclasses.replace(config.run, training=training))


def kill_when(config: PipelineConfig, ready: Callable[[], bool]) -> None:
    """Runs the command in a process of its own, and kills it as soon as `ready` says so."""
    file = Path(config.root).parent / "pipeline.yaml"
    file.write_text(yaml.safe_dump(to_mapping(config)))
    command = [str(Path(sys.executable).parent / "xtr-tf"), "pipeline", "run", "--config", str(file)]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 900
    while not ready():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
