"""CorpusEncoder and IndexBuilder with artifacts and work area on a remote file system."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from artifacts_on_disk import new_artifact, write_examples
from tfx.types import standard_artifacts

from tests.support.ram_file_system import RamFileSystem
from tfx_pipeline.artifacts import TokenIndexArtifact, TokenVectorsArtifact
from tfx_pipeline.components.corpus_encoder import CorpusEncoderExecutor
from tfx_pipeline.components.index_builder import IndexBuilderExecutor
from tfx_pipeline.config import settings_to_json
from tfx_pipeline.data.example_gen import document_example
from xtr_tf.collections.document import Document
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.model.folder import save_encoder
from xtr_tf.vectors.staged import StagedRunner

INDEX_SETTINGS = settings_to_json(IndexConfig(num_leaves=16, lexical="words"))
BEAM = '["--runner=DirectRunner"]'


class Place:
    """A pipeline root, local or remote, with a trained model in it."""

    def __init__(self, root: str, model: Any, folder: Path) -> None:
        self.root = root
        self.model = model
        self._folder = folder
        self._count = 0

    def encode(self, documents: list[Document], keep_order: bool = False, keep_vectors: bool = True) -> Any:
        records = map(document_example, documents)
        corpus = write_examples(self._named(self._folder / "corpus"), {"corpus": records})
        vectors = self._artifact(TokenVectorsArtifact)
        parameters = {
            "settings": settings_to_json(EncodingConfig()),
            "shard_characters": 3_000,
            "keep_order": int(keep_order),
            "index_settings": "" if keep_vectors else INDEX_SETTINGS,
            "work": f"{self.root}/work",
            "beam_args": BEAM,
        }
        inputs = {"model": [self.model], "corpus": [corpus]}
        CorpusEncoderExecutor().Do(inputs, {"vectors": [vectors]}, parameters)
        return vectors

    def index(self, vectors: Any, update: bool = False) -> Any:
        index = self._artifact(TokenIndexArtifact)
        parameters = {
            "settings": INDEX_SETTINGS,
            "update": int(update),
            "work": f"{self.root}/work",
            "beam_args": BEAM,
        }
        IndexBuilderExecutor().Do({"vectors": [vectors]}, {"index": [index]}, parameters)
        return index

    def _named(self, path: Path) -> Path:
        self._count += 1
        return path.with_name(f"{path.name}-{self._count}")

    def _artifact(self, kind: type) -> Any:
        self._count += 1
        artifact = new_artifact(kind, self._folder / f"unused-{self._count}")
        artifact.uri = f"{self.root}/{self._count}"
        return artifact


@pytest.fixture
def documents(tiny_corpus) -> list[Document]:
    return [Document(one.id, one.text, one.title, one.language) for one in tiny_corpus.documents][:20]


@pytest.fixture
def places(tiny_corpus, tmp_path: Path) -> tuple[Place, Place]:
    """The same on this machine and in a cloud."""
    model = new_artifact(standard_artifacts.Model, tmp_path / "trained")
    save_encoder(tmp_path / "trained" / "Format-Serving", tiny_corpus.encoder, tiny_corpus.tokenizer)
    RamFileSystem.read.clear()
    near, far = tmp_path / "near", tmp_path / "far"
    return Place(str(near), model, near), Place(f"ram://{tmp_path.name}-root", model, far)


def content(uri: str) -> dict[str, bytes]:
    files = {}
    for folder, _, names in tf.io.gfile.walk(uri):
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            with tf.io.gfile.GFile(path, "rb") as file:
                files[path.removeprefix(uri).lstrip("/")] = file.read()
    return files


def test_an_index_that_cannot_be_built_is_not_published(
    places: tuple[Place, Place], documents: list[Document]
) -> None:
    far = places[1]
    vectors = far.encode(documents)
    lost = next(name for name in content(vectors.uri) if name.endswith("vectors.npy"))
    tf.io.gfile.remove(f"{vectors.uri}/{lost}")
    with pytest.raises(InputError, match="cannot be read"):
        far.index(vectors)
    assert [name for name in tf.io.gfile.listdir(far.root) if name.rstrip("/").isdigit()] == ["2"]


@pytest.mark.parametrize("keep_vectors", [True, False], ids=["vectors", "codes"])
def test_remote_artifacts_are_the_local_ones_before_and_after_a_refresh(
    places: tuple[Place, Place], documents: list[Document], keep_vectors: bool
) -> None:
    """One document is removed, one is changed in the same shard, and one is added."""
    changed = dataclasses.replace(documents[1], text="Something else altogether.")
    now = [changed, *documents[2:15], documents[19]]
    artifacts, read = [], []
    for place in places:
        before = place.encode(documents[:15], keep_vectors=keep_vectors)
        index = place.index(before)
        RamFileSystem.read.clear()
        after = place.encode(now, keep_order=True, keep_vectors=keep_vectors)
        read = [path.removeprefix(f"{before.uri}/") for path in RamFileSystem.read if before.uri in path]
        artifacts.append((before, index, after, place.index(after, update=True)))
    for near, far in zip(*artifacts, strict=True):
        assert content(far.uri) == content(near.uri)
    *_, after, updated = artifacts[1]
    assert after.get_int_custom_property("documents_encoded") == 2
    assert updated.get_int_custom_property("refreshes") == 1
    # Of the earlier vectors, only the shard that loses documents is read.
    large = ("vectors.npy", "pieces.npy", "spans.npy", "positions.npy")
    touched = {path.partition("/")[0] for path in read if path.endswith(large)}
    assert touched == {"shard-00000-of-00003"}
    assert not any("/part/" in path for path in read)


def test_what_is_reused_in_another_order_is_read_by_the_workers(
    places: tuple[Place, Place], documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    far = places[1]
    before = far.encode(documents)
    here: list[str] = []
    run = StagedRunner.__call__

    def note(self: StagedRunner, task: Any, shards: Any) -> None:
        here.extend(RamFileSystem.read)
        run(self, task, shards)
        RamFileSystem.read.clear()

    monkeypatch.setattr(StagedRunner, "__call__", note)
    RamFileSystem.read.clear()
    after = far.encode(documents[8:])
    here.extend(RamFileSystem.read)
    assert after.get_int_custom_property("documents_reused") == 12
    names = {path.rpartition("/")[2] for path in here if before.uri in path}
    assert names == {"manifest.json", "documents.jsonl"}
