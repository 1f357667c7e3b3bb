"""Makes helpers importable by name, as TFX imports executors, and runs the pipeline once for all tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def pipeline_config(repository: Path, tiny_corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A pipeline on a small part of the example corpus, with every optional part; blesses any model."""
    from small_atlas import add_fields, copy_vocabulary, small_config, write_small_atlas

    folder = tmp_path_factory.mktemp("pipeline")
    data = write_small_atlas(repository / "examples" / "atlas", folder / "data")
    vocabulary = copy_vocabulary(tiny_corpus.tokenizer, folder)
    return small_config(
        data,
        folder / "root",
        vocabulary,
        index__kind="exact",  # the quickest to export
        index__lexical="ngrams",
        choose_alpha=True,
        search__alpha=0.95,  # never chosen
        mining__ranker="ngrams",
        run__data__hard_negatives=1,
        **add_fields(data, folder / "schema"),
    )


@pytest.fixture(scope="session")
def pipeline_outcome(pipeline_config: Any) -> Any:
    """The outcome of the full DAG; no test may change its root or its serving folder."""
    from tfx_pipeline.runners.local import run_pipeline

    return run_pipeline(pipeline_config)
