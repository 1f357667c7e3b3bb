"""CorpusEncoder and IndexBuilder with artifacts and work area on a remote file system."""

from __future__ import annotations

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
from tfx_pipeline.storage import copy_folder
from xtr_tf.collections.document import Document
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.folder import TokenIndex
from xtr_tf.model.folder import save_encoder
from xtr_tf.vectors.remote import RemoteFolder

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


@pytest.mark.parametrize("keep_vectors", [True, False], ids=["vectors", "codes"])
def test_a_remote_index_is_the_local_one(
    places: tuple[Place, Place], documents: list[Document], keep_vectors: bool
) -> None:
    near, far = ((place, place.encode(documents, keep_vectors=keep_vectors)) for place in places)
    assert content(far[1].uri) == content(near[1].uri)
    indexes = [place.index(vectors) for place, vectors in (near, far)]
    assert content(indexes[1].uri) == content(indexes[0].uri)
    assert TokenIndex.open(RemoteFolder(indexes[1].uri)).num_documents == len(documents)


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


def test_the_file_that_completes_an_index_is_copied_last(
    places: tuple[Place, Place], documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = places
    index = near.index(near.encode(documents))
    copied: list[str] = []
    copy = tf.io.gfile.copy
    monkeypatch.setattr(
        tf.io.gfile,
        "copy",
        lambda source, target, **given: (copied.append(target), copy(source, target, **given)),
    )
    copy_folder(index.uri, f"{far.root}/copy", "manifest.json")
    assert copied[-1] == f"{far.root}/copy/manifest.json"
