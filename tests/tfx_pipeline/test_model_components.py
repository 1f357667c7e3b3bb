"""CorpusEncoder, IndexBuilder and RetrieverExporter on their own: what they reuse, update and refuse."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from artifacts_on_disk import new_artifact, write_examples
from tfx.types import standard_artifacts

from tfx_pipeline.artifacts import (
    TokenIndexArtifact,
    TokenVectorsArtifact,
    encoder_folder,
    local_encoder,
    read_document_ids,
)
from tfx_pipeline.components.corpus_encoder import CorpusEncoderExecutor
from tfx_pipeline.components.index_builder import IndexBuilderExecutor
from tfx_pipeline.components.retriever_exporter import RetrieverExporterExecutor
from tfx_pipeline.config import settings_to_json
from tfx_pipeline.data.example_gen import document_example
from tfx_pipeline.storage import copy_folder
from xtr_tf.collections.document import Document
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig, SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.files import changed_files
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.quantizer import trained_quantizer
from xtr_tf.model.folder import load_encoder, save_encoder
from xtr_tf.retriever import export_partitions
from xtr_tf.retriever.assembly import assemble_retriever
from xtr_tf.retriever.collection_file import read_collection
from xtr_tf.retriever.model_card import ModelCard, read_card
from xtr_tf.retriever.reference_cases import CHECKSUMS_FILE
from xtr_tf.vectors.store import TokenVectors

INDEX_SETTINGS = settings_to_json(IndexConfig(num_leaves=16))


@dataclasses.dataclass
class Stage:
    """A pipeline root with a trained model in it."""

    folder: Path
    model: Any
    documents: list[Document]
    count: int = 0

    def encode(
        self,
        documents: list[Document],
        keep_order: bool = False,
        beam_args: str = "[]",
        keep_vectors: bool = True,
        config: EncodingConfig | None = None,
    ) -> Any:
        self.count += 1
        records = map(document_example, documents)
        corpus = write_examples(self.folder / f"corpus-{self.count}", {"corpus": records})
        vectors = new_artifact(TokenVectorsArtifact, self.folder / f"vectors-{self.count}")
        parameters = {
            "settings": settings_to_json(config or EncodingConfig()),
            "shard_characters": 3_000,
            "keep_order": int(keep_order),
            "index_settings": "" if keep_vectors else INDEX_SETTINGS,
            "work": str(self.folder / "work"),
            "beam_args": beam_args,
        }
        inputs = {"model": [self.model], "corpus": [corpus]}
        CorpusEncoderExecutor().Do(inputs, {"vectors": [vectors]}, parameters)
        return vectors

    def index(self, vectors: Any, update: bool = False, beam_args: str = "[]") -> Any:
        self.count += 1
        index = new_artifact(TokenIndexArtifact, self.folder / f"index-{self.count}")
        parameters = {
            "settings": INDEX_SETTINGS,
            "update": int(update),
            "work": str(self.folder / "work"),
            "beam_args": beam_args,
        }
        IndexBuilderExecutor().Do({"vectors": [vectors]}, {"index": [index]}, parameters)
        return index

    def export(
        self,
        vectors: Any,
        index: Any,
        tokens_per_partition: int = 0,
        beam_args: str = "[]",
        **judged: Any,
    ) -> Any:
        self.count += 1
        model = new_artifact(standard_artifacts.Model, self.folder / f"model-{self.count}")
        parameters = {
            "defaults": settings_to_json(SearchDefaults(k_prime=50)),
            "model_name": "atlas",
            "tokens_per_partition": tokens_per_partition,
            "beam_args": beam_args,
        }
        inputs = {"encoder": [self.model], "vectors": [vectors], "index": [index]}
        inputs |= {name: [artifact] for name, artifact in judged.items()}
        RetrieverExporterExecutor().Do(inputs, {"model": [model]}, parameters)
        return model


@pytest.fixture
def stage(tiny_corpus, tmp_path: Path) -> Stage:
    model = new_artifact(standard_artifacts.Model, tmp_path / "trained")
    save_encoder(tmp_path / "trained" / "Format-Serving", tiny_corpus.encoder, tiny_corpus.tokenizer)
    documents = [
        Document(record.id, record.text, record.title, record.language) for record in tiny_corpus.documents
    ]
    return Stage(tmp_path, model, documents[:20])


def ids(vectors: Any) -> list[str]:
    return [record.id for record in TokenVectors.open(vectors.uri).documents()]


def counted(vectors: Any) -> tuple[int, int]:
    names = ("documents_encoded", "documents_reused")
    return tuple(vectors.get_int_custom_property(name) for name in names)  # type: ignore[return-value]


@pytest.mark.parametrize("traced", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_index_that_is_too_large_for_a_model_becomes_a_collection(
    stage: Stage, directories: Path, collection_base: Path, monkeypatch: pytest.MonkeyPatch, traced: bool
) -> None:
    """Unless `traced`, the partitions are copies of those that all tests share, of the same index."""

    def copied(retriever: Any, base: Path, card: ModelCard, version: int) -> None:
        source = collection_base / base.name / "1"
        assert {**card.corpus, "text": "snippet"} == read_card(source).corpus
        shutil.copytree(source, base / str(version))

    if not traced:
        monkeypatch.setattr(export_partitions, "export_retriever", copied)
    # The worker that wrote the directories may have trained another vocabulary than this one.
    encoder = Path(stage.model.uri, "Format-Serving")
    shutil.rmtree(encoder)
    shutil.copytree(directories / "encoder", encoder)
    vectors = new_artifact(TokenVectorsArtifact, directories / "vectors")
    opened = TokenVectors.open(vectors.uri)
    build_index(opened, stage.folder / "index", IndexConfig(kind="exact", lexical="ngrams"))
    index = new_artifact(TokenIndexArtifact, stage.folder / "index")
    tokens = TokenIndex.open(index.uri).num_tokens
    with pytest.raises(InputError, match="`choose_alpha` needs a model that is not split"):
        stage.export(vectors, index, tokens // 2 + 1, examples=vectors, corpus=vectors)
    model = stage.export(vectors, index, tokens // 2 + 1, '["--runner=DirectRunner"]')
    folder = Path(model.uri, "Format-Serving")
    collection = read_collection(folder / "collection.json")
    assert (len(collection.partitions), collection.tokens) == (2, tokens)
    assert all(changed_files(folder / own.path / "1", CHECKSUMS_FILE) == [] for own in collection.partitions)
    assert encoder_folder(Path(model.uri)) == Path(model.uri, "encoder")
    assert model.get_int_custom_property("tokens") == tokens
    assert model.get_int_custom_property("documents") == opened.num_documents
    assert read_document_ids(model.uri) == set(opened.document_ids)
    assert not (folder / "saved_model.pb").exists()


def test_only_changed_texts_are_encoded_again(stage: Stage) -> None:
    first = stage.encode(stage.documents)
    assert counted(first) == (20, 0)
    changed = dataclasses.replace(stage.documents[3], text="Something else altogether.")
    documents = [*stage.documents[:3], changed, *stage.documents[4:19]]
    second = stage.encode(documents)
    assert counted(second) == (1, 18)
    assert ids(second) == [document.id for document in documents]
    assert second.get_string_custom_property("reused") == first.uri
    assert not any((stage.folder / "work" / "vectors").iterdir())


def test_a_refresh_keeps_the_order_and_updates_the_index(stage: Stage) -> None:
    before = stage.encode(stage.documents[:15])
    last = stage.index(before)
    documents = [*reversed(stage.documents[1:15]), stage.documents[16]]
    after = stage.encode(documents, keep_order=True)
    assert ids(after) == [document.id for document in (*stage.documents[1:15], stage.documents[16])]
    index = stage.index(after, update=True)
    assert index.get_string_custom_property("updated") == last.uri
    assert index.get_int_custom_property("refreshes") == 1
    assert np.array_equal(
        TokenIndex.open(index.uri).array("centres"), TokenIndex.open(last.uri).array("centres")
    )
    offsets = TokenVectors.open(after.uri).document_offsets
    assert np.array_equal(TokenIndex.open(index.uri).document_offsets, offsets)


def test_an_index_is_rebuilt_if_its_corpus_doubled(stage: Stage) -> None:
    stage.index(stage.encode(stage.documents[:5]))
    index = stage.index(stage.encode(stage.documents, keep_order=True), update=True)
    assert "times the tokens" in index.get_string_custom_property("full_build_reason")
    assert index.get_int_custom_property("refreshes") == 0


def test_an_index_is_rebuilt_if_its_vectors_got_other_lengths(stage: Stage) -> None:
    stage.index(stage.encode(stage.documents))
    lengths = EncodingConfig(length_penalty=0.1)
    index = stage.index(stage.encode(stage.documents, keep_order=True, config=lengths), update=True)
    assert "other settings" in index.get_string_custom_property("full_build_reason")
    assert TokenIndex.open(index.uri).manifest.token_lengths == (0.1, 0.0)


def test_without_vectors_the_index_is_the_same(stage: Stage) -> None:
    coded = stage.encode(stage.documents, keep_vectors=False, beam_args='["--runner=DirectRunner"]')
    assert not list(Path(coded.uri).rglob("vectors.npy"))
    built = TokenIndex.open(stage.index(coded).uri)
    encoder = Path(stage.model.uri, "Format-Serving")
    assembly = assemble_retriever(encoder, coded.uri, built.directory)
    assert assembly.card.corpus["documents"] == len(stage.documents)
    assert assembly.card.index["num_tokens"] == built.num_tokens
    vectors = TokenVectors.open(stage.encode(stage.documents).uri)
    expected = build_index(vectors, stage.folder / "expected", built.config, trained_quantizer(built))
    assert built.manifest.files == expected.manifest.files


def test_a_refresh_without_vectors_encodes_what_changed(stage: Stage) -> None:
    before = stage.encode(stage.documents[:15], keep_vectors=False)
    last = stage.index(before)
    changed = dataclasses.replace(stage.documents[3], text="Something else altogether.")
    documents = [*reversed(stage.documents[4:15]), changed, stage.documents[16], *stage.documents[1:3]]
    after = stage.encode(documents, keep_order=True, keep_vectors=False)
    assert counted(after) == (2, 13)
    kept = [*stage.documents[1:3], *stage.documents[4:15]]
    assert ids(after) == [document.id for document in (*kept, changed, stage.documents[16])]
    index = stage.index(after, update=True)
    assert index.get_string_custom_property("updated") == last.uri

    vectors = TokenVectors.open(stage.encode([*kept, changed, stage.documents[16]]).uri)
    built = TokenIndex.open(index.uri)
    expected = build_index(vectors, stage.folder / "expected", built.config, trained_quantizer(built))
    for name in ("cells", "codes", "document_offsets", "piece_documents"):
        np.testing.assert_array_equal(built.array(name), expected.array(name))

    fewer = stage.encode(documents[:-1], keep_order=True, keep_vectors=False)
    assert counted(fewer) == (0, 14)
    assert stage.index(fewer, update=True).get_int_custom_property("refreshes") == 2
    many = stage.encode(stage.documents[:3], keep_order=True, keep_vectors=False)
    assert counted(many) == (3, 0)  # the leaves no longer fit, so that everything is encoded again
    assert stage.index(many, update=True).get_int_custom_property("refreshes") == 0


def test_a_named_runner_builds_the_same_index(stage: Stage) -> None:
    vectors = stage.encode(stage.documents)
    assert len(TokenVectors.open(vectors.uri).shards) > 1
    local, distributed = stage.index(vectors), stage.index(vectors, beam_args='["--runner=DirectRunner"]')
    built, expected = TokenIndex.open(distributed.uri), TokenIndex.open(local.uri)
    assert built.manifest.files == expected.manifest.files


def test_a_refresh_without_an_earlier_index_builds_one(stage: Stage) -> None:
    index = stage.index(stage.encode(stage.documents[:5]), update=True)
    assert "no index of this encoder" in index.get_string_custom_property("full_build_reason")
    assert TokenIndex.open(index.uri).num_documents == 5


@pytest.mark.slow
def test_the_exported_model_is_servable_and_contains_its_encoder(stage: Stage) -> None:
    vectors = stage.encode(stage.documents)
    model = stage.export(vectors, stage.index(vectors))
    folder = Path(model.uri)
    assert {path.name for path in folder.iterdir()} == {"Format-Serving", "encoder", "documents.txt.gz"}
    serving = folder / "Format-Serving"
    assert (serving / "model_card.json").is_file()
    assert (serving / "assets.extra" / "tf_serving_warmup_requests").is_file()
    encoder, _ = load_encoder(encoder_folder(folder))
    assert encoder.config.model_dim == 32
    assert model.get_int_custom_property("documents") == 20


def test_vectors_of_another_encoder_are_refused(stage: Stage, tiny_corpus) -> None:
    from xtr_tf.model.encoder import Encoder

    vectors = stage.encode(stage.documents[:5])
    index = stage.index(vectors)
    other = Encoder(tiny_corpus.encoder.config, seed=7)
    stage.model = new_artifact(standard_artifacts.Model, stage.folder / "other")
    save_encoder(stage.folder / "other" / "Format-Serving", other, tiny_corpus.tokenizer)
    with pytest.raises(InputError, match="must come from this encoder"):
        stage.export(vectors, index)


def test_only_the_encoder_of_a_remote_model_is_downloaded(stage: Stage) -> None:
    trained = Path(stage.model.uri, "Format-Serving")
    for uri, place in (("ram://models/exported", "encoder"), ("ram://models/trained", "Format-Serving")):
        copy_folder(str(trained), f"{uri}/{place}")
        with tf.io.gfile.GFile(f"{uri}/large", "w") as file:
            file.write("everything else")
        with local_encoder(uri) as folder:
            assert {path.name for path in folder.iterdir()} == {path.name for path in trained.iterdir()}
            load_encoder(folder)


def test_a_named_runner_reuses_unchanged_vectors(stage: Stage) -> None:
    first = stage.encode(stage.documents)
    changed = dataclasses.replace(stage.documents[3], text="Something else altogether.")
    documents = [*stage.documents[:3], changed, *stage.documents[4:]]
    second = stage.encode(documents, beam_args='["--runner=DirectRunner"]')
    assert counted(second) == (1, 19)
    assert ids(second) == [document.id for document in documents]
    assert second.get_string_custom_property("reused") == first.uri


def test_a_model_without_an_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds an encoder's directory"):
        encoder_folder(tmp_path)
