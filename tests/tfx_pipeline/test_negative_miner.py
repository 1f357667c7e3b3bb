"""NegativeMiner finds the same negatives as `xtr-tf mine`, with BM25 and with an earlier model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from artifacts_on_disk import new_artifact, write_examples
from small_atlas import read_corpus
from tfx.types import standard_artifacts

from tfx_pipeline.components.negative_miner import NegativeMinerExecutor
from tfx_pipeline.config import MiningConfig, PipelineConfig, settings_to_json
from tfx_pipeline.data.example_gen import document_example
from tfx_pipeline.data.splits import read_split
from xtr_tf.collections.dataset import Query
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.baselines import BM25
from xtr_tf.evaluation.mining import mine_negatives
from xtr_tf.evaluation.run import Run
from xtr_tf.training.data.examples import TrainingExample
from xtr_tf.training.data.tfrecords import parse_example, serialize_example


@pytest.fixture(scope="module")
def documents(pipeline_config: PipelineConfig) -> list[Document]:
    rows = read_corpus(Path(pipeline_config.corpus.folder))
    return [Document(row["_id"], row["text"], row["title"], row["language"]) for row in rows]


@pytest.fixture(scope="module")
def examples(documents: list[Document]) -> list[TrainingExample]:
    """Each query is the beginning of its document; the first already has a negative."""
    asked = [
        TrainingExample(f"q{number}", own.text[:60], (own,), language=own.language)
        for number, own in enumerate(documents)
    ]
    return [asked[0]._replace(negatives=(documents[1],)), *asked[1:]]


def mine(
    folder: Path,
    examples: list[TrainingExample],
    documents: list[Document],
    config: MiningConfig,
    **more: Any,
) -> Any:
    judged = {"train": examples, "eval": examples[:3]}
    records = {split: list(map(serialize_example, own)) for split, own in judged.items()}
    inputs = {
        "examples": [write_examples(folder / "examples", records)],
        "corpus": [write_examples(folder / "corpus", {"corpus": map(document_example, documents)})],
        **{name: [artifact] for name, artifact in more.items()},
    }
    mined = new_artifact(standard_artifacts.Examples, folder / "mined")
    NegativeMinerExecutor().Do(inputs, {"mined": [mined]}, {"settings": settings_to_json(config)})
    return mined


def parsed(mined: Any, split: str) -> list[TrainingExample]:
    return [parse_example(record, "und") for record in read_split(mined, split)]


def negatives(examples: list[TrainingExample]) -> list[list[str]]:
    return [[document.id for document in example.negatives] for example in examples]


@pytest.mark.parametrize("ranker", ["words", "ngrams", "latest"])
def test_bm25_finds_the_same_negatives_as_the_command(
    ranker: str, examples: list[TrainingExample], documents: list[Document], tmp_path: Path
) -> None:
    """Before there is a model, `latest` is BM25 over n-grams."""
    config = MiningConfig(ranker=ranker, negatives=2, last_rank=5)  # type: ignore[arg-type]
    mined = mine(tmp_path, examples, documents, config)
    bm25 = BM25(documents, "words" if ranker == "words" else "character n-grams")
    expected = list(mine_negatives(examples, documents, bm25.search, config))
    assert negatives(parsed(mined, "train")) == negatives(expected)
    found = sum(map(len, negatives(expected))) - 1
    assert found > 0
    assert mined.get_int_custom_property("negatives_given") == 1
    assert mined.get_int_custom_property("negatives_found") == found
    assert mined.get_int_custom_property("queries_without") == negatives(expected).count([])
    assert parsed(mined, "train")[0].negatives[0].id == documents[1].id


def test_evaluation_queries_are_left_unchanged(
    examples: list[TrainingExample], documents: list[Document], tmp_path: Path
) -> None:
    mined = mine(tmp_path, examples, documents, MiningConfig(ranker="words"))
    assert [serialize_example(own) for own in parsed(mined, "eval")] == [
        serialize_example(own) for own in examples[:3]
    ]


def test_an_earlier_model_ranks_and_deleted_documents_are_skipped(
    pipeline_outcome: Any, examples: list[TrainingExample], documents: list[Document], tmp_path: Path
) -> None:
    from xtr_tf.evaluation.exported_model import ExportedModel

    model = new_artifact(standard_artifacts.Model, tmp_path / "model")
    (tmp_path / "model" / "Format-Serving").symlink_to(pipeline_outcome.pushed)
    config = MiningConfig(ranker="latest", negatives=2, last_rank=5)
    exported = ExportedModel(pipeline_outcome.pushed)
    asked = [Query(str(number), own.query) for number, own in enumerate(examples)]
    run = exported.search("", asked, 5)
    # The document that most queries find is no longer in the corpus.
    found = [identifier for query in asked for identifier in run.documents(query.id)]
    gone = max(set(found), key=found.count)
    left = [document for document in documents if document.id != gone]
    kept = [example for example in examples if example.positives[0].id != gone]
    mined = mine(tmp_path, kept, left, config, model=model)

    def rank(queries: list[Query], depth: int) -> Run:
        return exported.search("", queries, depth).only({document.id for document in left})

    assert negatives(parsed(mined, "train")) == negatives(list(mine_negatives(kept, left, rank, config)))
    assert gone not in {own for found in negatives(parsed(mined, "train")) for own in found}


def test_an_earlier_collection_ranks_as_its_partitions_do_together(
    collection_base: Path, tiny_corpus: Any, tmp_path: Path
) -> None:
    from xtr_tf.evaluation.exported_collection import ExportedCollection

    model = new_artifact(standard_artifacts.Model, tmp_path / "model")
    (tmp_path / "model" / "Format-Serving").symlink_to(collection_base)
    documents = [Document(own.id, own.text, own.title, own.language) for own in tiny_corpus.documents]
    examples = [
        TrainingExample(own.id, own.text[:60], (own,), language=own.language) for own in documents[::7]
    ]
    config = MiningConfig(ranker="latest", negatives=2, last_rank=5)
    mined = mine(tmp_path, examples, documents, config, model=model)
    collection = ExportedCollection(collection_base)

    def rank(queries: list[Query], depth: int) -> Run:
        return collection.search("", queries, depth)

    expected = negatives(list(mine_negatives(examples, documents, rank, config)))
    assert negatives(parsed(mined, "train")) == expected
    assert any(expected)


def test_mining_without_hard_negatives_is_refused() -> None:
    with pytest.raises(InputError, match=r"`run\.data\.hard_negatives` is above 0: set both\. Received: 0\."):
        PipelineConfig(mining=MiningConfig(ranker="words"))


def test_the_latest_model_is_resolved_only_if_it_is_used(pipeline_config: PipelineConfig) -> None:
    import dataclasses

    from tfx_pipeline.pipeline import create_pipeline

    def upstream(ranker: str) -> set[str]:
        changed = dataclasses.replace(pipeline_config, mining=MiningConfig(ranker=ranker))  # type: ignore[arg-type]
        nodes = create_pipeline(changed).components
        return {own.id for node in nodes if node.id == "NegativeMiner" for own in node.upstream_nodes}

    assert upstream("none") == set()
    assert upstream("words") == {"TrainingGen", "CorpusGen", "DataGate"}
    assert upstream("latest") == upstream("words") | {"LatestBlessedModel"}
