"""Runs and lineage, read from the metadata store of a real run."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_local_runner import toy_pipeline

from tfx_pipeline.lineage import Lineage
from tfx_pipeline.runners.local import run_locally
from xtr_tf.errors import InputError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    run_locally(toy_pipeline(folder, "hello"), folder)
    run_locally(toy_pipeline(folder, "hello"), folder)
    with pytest.raises(InputError):
        run_locally(toy_pipeline(folder, "wrong"), folder)
    return folder


def test_runs_are_listed_with_their_states(root: Path) -> None:
    runs = Lineage(root / "metadata.sqlite").runs()
    assert [run.state for run in runs] == ["complete", "complete", "failed"]
    assert [component.component for component in runs[0].components] == ["Produce", "Shout"]
    assert [component.state for component in runs[1].components] == ["CACHED", "CACHED"]
    assert [component.state for component in runs[2].components] == ["COMPLETE", "FAILED"]


def test_everything_upstream_of_an_artifact_is_found(root: Path) -> None:
    lineage = Lineage(root / "metadata.sqlite")
    said, shouted = lineage.artifacts("String")[:2]
    assert (said.producer, shouted.producer) == ("Produce", "Shout")
    assert lineage.find(shouted.uri) == shouted
    assert [(record.id, record.depth) for record in lineage.upstream(shouted)] == [(said.id, 1)]
    assert lineage.upstream(said) == []


def test_unknown_locations_are_input_errors(root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No run recorded an artifact there"):
        Lineage(root / "metadata.sqlite").find("elsewhere/7")
    with pytest.raises(InputError, match="There is no metadata store"):
        Lineage(tmp_path / "metadata.sqlite")
