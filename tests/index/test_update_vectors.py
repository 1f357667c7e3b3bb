from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.errors import InputError
from xtr_tf.vectors.shard import ShardArrays
from xtr_tf.vectors.store import TokenVectors
from xtr_tf.vectors.update import DocumentChanges, compare_documents, update_vectors


def shard(documents: dict[str, str], seed: int) -> ShardArrays:
    """Documents of two passages, with 2 and 3 tokens."""
    rng = np.random.default_rng(seed)
    tokens = 5 * len(documents)
    vectors = rng.normal(size=(tokens, 8)).astype(np.float32)
    return ShardArrays(
        documents=[DocumentRecord.of(Document(name, text)) for name, text in documents.items()],
        vectors=vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
        pieces=rng.integers(0, 99, tokens, np.int32),
        spans=rng.integers(0, 99, (tokens, 2), np.int32),
        positions=np.tile(np.arange(5, dtype=np.int32), len(documents)),
        passage_tokens=np.tile(np.array([2, 3], np.int32), len(documents)),
        passage_documents=np.repeat(np.arange(len(documents), dtype=np.int32), 2),
    )


@pytest.fixture
def base(tmp_path: Path) -> TokenVectors:
    shards = [
        shard({"a": "1", "b": "2"}, 1),
        shard({"c": "3", "d": "4", "e": "5"}, 2),
        shard({"f": "6"}, 3),
    ]
    return TokenVectors.write(tmp_path / "base", shards, "f")


@pytest.fixture
def added(tmp_path: Path) -> TokenVectors:
    shards = [shard({"d": "changed", "a": "1"}, 4), shard({"g": "new"}, 5)]
    return TokenVectors.write(tmp_path / "added", shards, "f")


def rows(corpus: TokenVectors, name: str) -> dict[str, np.ndarray]:
    ordinal = corpus.document_ids.index(name)
    first, last = corpus.document_offsets[[ordinal, ordinal + 1]]
    return {
        "vectors": corpus.take(np.arange(first, last)),
        "pieces": corpus.pieces[first:last],
        "spans": corpus.spans[first:last],
        "positions": corpus.positions[first:last],
    }


def test_changes_are_told_apart(base: TokenVectors, added: TokenVectors) -> None:
    changes = compare_documents(base, added, ["b", "nobody"])
    assert changes.kept.tolist() == [True, False, True, False, True, True]
    assert changes.taken.tolist() == [True, False, True]
    assert (changes.added, changes.replaced, changes.deleted, changes.unchanged) == (1, 1, 1, 1)
    assert changes.unknown == ("nobody",)


def test_a_document_deleted_and_added_is_replaced(base: TokenVectors, added: TokenVectors) -> None:
    changes = compare_documents(base, added, ["a"])
    assert (changes.replaced, changes.deleted, changes.unchanged) == (2, 0, 0)
    assert not changes.kept[0]


def test_the_new_version_holds_what_stays_then_what_comes(
    base: TokenVectors, added: TokenVectors, tmp_path: Path
) -> None:
    changes = compare_documents(base, added, ["b", "f"])
    new = update_vectors(base, added, changes, tmp_path / "new")
    new.verify()
    assert new.document_ids == ["a", "c", "e", "d", "g"]
    assert new.num_passages == 10
    np.testing.assert_array_equal(new.document_of_token, np.repeat(np.arange(5), 5))
    for name, origin in {"a": base, "c": base, "e": base, "d": added, "g": added}.items():
        expected = rows(origin, name)
        for field, values in rows(new, name).items():
            np.testing.assert_array_equal(values, expected[field])


def test_unchanged_shards_are_links(base: TokenVectors, tmp_path: Path) -> None:
    new = update_vectors(base, None, compare_documents(base, None, ["d"]), tmp_path / "new")
    for old, shard_ in zip(base.shards, new.shards, strict=True):
        shared = (old.folder / "vectors.npy").samefile(shard_.folder / "vectors.npy")
        assert shared == (old.entry.name != base.shards[1].entry.name)
    assert new.document_ids == ["a", "b", "c", "e", "f"]


def test_the_base_can_be_removed(base: TokenVectors, tmp_path: Path) -> None:
    import shutil

    new = update_vectors(base, None, compare_documents(base, None, ["d"]), tmp_path / "new")
    shutil.rmtree(base.directory)
    TokenVectors.open(new.directory).verify()


def test_everything_cannot_be_deleted(base: TokenVectors) -> None:
    with pytest.raises(InputError, match="at least one document"):
        compare_documents(base, None, "abcdef")


def everything(base: TokenVectors, added: TokenVectors) -> DocumentChanges:
    return compare_documents(base, added, [])


def test_vectors_of_another_encoder_are_refused(base: TokenVectors, tmp_path: Path) -> None:
    other = TokenVectors.write(tmp_path / "other", [shard({"x": "1"}, 6)], "another encoder")
    with pytest.raises(InputError, match="only with the encoder of the others"):
        update_vectors(base, other, everything(base, other), tmp_path / "new")
    bfloat16 = TokenVectors.write(tmp_path / "bfloat16", [shard({"x": "1"}, 6)], "f", dtype="bfloat16")
    with pytest.raises(InputError, match="split, pruned and stored"):
        update_vectors(base, bfloat16, everything(base, bfloat16), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_version_is_never_written_over(base: TokenVectors, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="new directory"):
        update_vectors(base, None, compare_documents(base, None, ["a"]), base.directory)


def test_changed_metadata_replaces_a_document(base: TokenVectors, tmp_path: Path) -> None:
    arrays = shard({"a": "1"}, 1)
    record = dataclasses.replace(arrays.documents[0], language="de")
    relabelled = dataclasses.replace(arrays, documents=[record])
    other = TokenVectors.write(tmp_path / "relabelled", [relabelled], "f")
    assert compare_documents(base, other, []).replaced == 1
