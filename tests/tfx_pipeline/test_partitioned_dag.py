"""In partitions, with BM25 and without stored vectors: from a corpus to answers, and after a refresh."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_atlas import copy_vocabulary, read_corpus, small_config, write_corpus, write_small_atlas

from tests.support.numbers import network_rounding, rounding
from tfx_pipeline.artifacts import encoder_folder
from tfx_pipeline.config import PipelineConfig
from tfx_pipeline.lineage import ArtifactRecord, Lineage
from tfx_pipeline.preflight import metadata_file
from tfx_pipeline.runners.local import run_pipeline
from xtr_tf.collections.dataset import Query
from xtr_tf.evaluation.exported_collection import ExportedCollection
from xtr_tf.evaluation.exported_model import search_all
from xtr_tf.retriever.assembly import assemble_retriever
from xtr_tf.retriever.collection_file import Collection, read_collection
from xtr_tf.retriever.session import RetrieverSession
from xtr_tf.scoring.fusion_reference import steepness

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

NEW = [
    {"_id": "new-1", "title": "Ebor", "text": "The river Ebor has eleven bridges.", "language": "en"},
    {"_id": "new-2", "title": "Vellin", "text": "Der Leuchtturm von Vellin ist rot.", "language": "de"},
]
QUERIES = [
    Query("q0", "how many bridges has the river Ebor?"),
    Query("q1", "Leuchtturm von Vellin"),
    Query("q2", "highest mountain"),
    Query("q3", "東京"),
]
# Encoded in batches of other shapes, and scored by sums of 32 products and 16 tokens.
CLOSE = network_rounding(700) + rounding(32 + 16)


@pytest.fixture
def config(repository: Path, tiny_corpus, tmp_path: Path) -> PipelineConfig:
    data = write_small_atlas(repository / "examples" / "atlas", tmp_path / "data")
    return small_config(
        *(data, tmp_path / "root", copy_vocabulary(tiny_corpus.tokenizer, tmp_path)),
        index__kind="core",
        index__dtype="int4",
        index__lexical="words",
        index__num_leaves=8,
        search__alpha=0.5,
        index__tokens_per_partition=1_200,
        corpus__keep_vectors=False,
    )


def latest(config: PipelineConfig, kind: str) -> ArtifactRecord:
    return Lineage(metadata_file(config)).artifacts(kind)[-1]


def test_the_pushed_collection_answers_as_one_index_also_after_a_refresh(config: PipelineConfig) -> None:
    first = run_pipeline(config)
    before = pushed_collection(config)
    assert Path(first.pushed).name == str(before.version)
    assert_answers_as_one_index(config)

    data = Path(config.corpus.folder)
    write_corpus(data, 2, [*read_corpus(data), *NEW])
    run_pipeline(config, "refresh")
    vectors, index = latest(config, "xtr.TokenVectors"), latest(config, "xtr.TokenIndex")
    assert vectors.properties["documents_encoded"] == len(NEW)
    assert vectors.properties["documents_reused"] == before.documents
    assert index.properties["refreshes"] == 1
    after = pushed_collection(config)
    assert after.version > before.version
    assert after.documents == before.documents + len(NEW)
    found = assert_answers_as_one_index(config)
    assert {"new-1", "new-2"} <= found
    assert not list(Path(vectors.uri).parent.glob("*/shard-*/vectors.npy"))


def pushed_collection(config: PipelineConfig) -> Collection:
    collection = read_collection(Path(config.serving_folder, "collection.json"))
    assert len(collection.partitions) >= 2
    return collection


def assert_answers_as_one_index(config: PipelineConfig) -> set[str]:
    """Compares with one model of the same vectors and index. Returns all ids that were found."""
    encoder = encoder_folder(Path(latest(config, "Model").uri))
    places = (latest(config, kind).uri for kind in ("xtr.TokenVectors", "xtr.TokenIndex"))
    whole = RetrieverSession(assemble_retriever(encoder, *places, config.search).retriever)
    expected = search_all(whole, "whole", QUERIES, {"top_k": [100]})
    texts = [query.text for query in QUERIES]
    lexical = whole.run("search", {"query": texts, "alpha": [1.0], "top_k": [1000]})["lexical_scores"]
    close = CLOSE * (1 + config.search.alpha * steepness(lexical))
    run = ExportedCollection(config.serving_folder).search("collection", QUERIES, 100)
    for query in QUERIES:
        scores = dict(zip(expected.documents(query.id), expected.scores(query.id), strict=True))
        found = dict(zip(run.documents(query.id), run.scores(query.id), strict=True))
        assert found == pytest.approx(scores, abs=close)
    return {document for query in QUERIES for document in run.documents(query.id)}
