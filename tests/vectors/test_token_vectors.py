from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory, is_unfinished
from xtr_tf.vectors.shard import ShardArrays, read_shard_entry, write_shard
from xtr_tf.vectors.store import TokenVectors

MakeShard = Callable[..., ShardArrays]


@pytest.fixture
def shards(make_shard: MakeShard) -> list[ShardArrays]:
    return [make_shard("a", [[3], [2, 4]], seed=1), make_shard("b", [[0]]), make_shard("c", [[5]], seed=2)]


@pytest.fixture
def corpus(shards: list[ShardArrays], tmp_path: Path) -> TokenVectors:
    return TokenVectors.write(tmp_path / "vectors", shards, encoder_fingerprint="f")


def test_what_is_written_is_read_back(corpus: TokenVectors, shards: list[ShardArrays]) -> None:
    assert (corpus.num_documents, corpus.num_passages, corpus.num_tokens, corpus.dim) == (4, 5, 14, 8)
    assert (corpus.dtype, corpus.encoder_fingerprint) == ("float16", "f")
    for name in ("pieces", "spans", "positions"):
        np.testing.assert_array_equal(
            getattr(corpus, name), np.concatenate([getattr(shard, name) for shard in shards])
        )
    assert list(corpus.documents()) == [document for shard in shards for document in shard.documents]
    assert corpus.document_ids == ["a-0", "a-1", "b-0", "c-0"]
    corpus.verify()


def test_ordinals_are_global_and_dense(corpus: TokenVectors) -> None:
    np.testing.assert_array_equal(corpus.document_of_token, [0] * 3 + [1] * 6 + [3] * 5)
    np.testing.assert_array_equal(corpus.document_offsets, [0, 3, 9, 9, 14])


@pytest.mark.parametrize("size", [1, 4, 100])
def test_blocks_are_the_whole_corpus_in_order(
    corpus: TokenVectors, shards: list[ShardArrays], size: int
) -> None:
    blocks = list(corpus.blocks(size))
    assert max(len(vectors) for vectors, _ in blocks) <= size
    vectors = np.concatenate([vectors for vectors, _ in blocks])
    expected = np.concatenate([shard.vectors for shard in shards]).astype(np.float16).astype(np.float32)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected)
    np.testing.assert_array_equal(
        np.concatenate([ordinals for _, ordinals in blocks]), corpus.document_of_token
    )


def test_a_part_is_numbered_from_its_own_beginning(corpus: TokenVectors) -> None:
    part = corpus.part(1, 3)
    assert (part.num_documents, part.num_tokens, part.document_ids) == (2, 5, ["b-0", "c-0"])
    np.testing.assert_array_equal(part.document_of_token, [1] * 5)
    np.testing.assert_array_equal(part.take(np.arange(5)), corpus.take(np.arange(9, 14)))
    assert corpus.shards_from(9).document_ids == ["b-0", "c-0"]
    assert corpus.shards_from(14).num_tokens == 0


def test_take_gathers_across_shards(corpus: TokenVectors) -> None:
    whole = np.concatenate([vectors for vectors, _ in corpus.blocks(100)])
    wanted = np.array([13, 0, 9, 8, 0])
    np.testing.assert_array_equal(corpus.take(wanted), whole[wanted])
    assert corpus.take(np.array([], int)).shape == (0, 8)
    with pytest.raises(InputError, match="from 0 to 13"):
        corpus.take(np.array([14]))


def test_bfloat16_is_rounded_once(make_shard: MakeShard, tmp_path: Path) -> None:
    arrays = make_shard("a", [[7]])
    corpus = TokenVectors.write(tmp_path, [arrays], "f", dtype="bfloat16")
    (vectors, _), *_ = corpus.blocks(10)
    np.testing.assert_array_equal(vectors, arrays.vectors.astype(ml_dtypes.bfloat16).astype(np.float32))
    assert np.load(tmp_path / "shard-00000-of-00001" / "vectors.npy").dtype == np.uint16


def test_vectors_are_mapped_and_let_go(corpus: TokenVectors) -> None:
    assert isinstance(corpus.shards[0].map_vectors(), np.memmap)
    list(corpus.blocks(4))
    corpus.take(np.arange(corpus.num_tokens))
    maps = Path("/proc/self/maps").read_text()
    assert str(corpus.directory) not in "\n".join(line for line in maps.splitlines() if "vectors.npy" in line)


def test_a_directory_without_manifest_is_refused(corpus: TokenVectors) -> None:
    (corpus.directory / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"not a finished directory of token vectors.*Received"):
        TokenVectors.open(corpus.directory)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"format": "xtr-token-vectors", "version": 1}', "damaged"),
        ('{"format": "xtr-token-vectors", "version": 2}', "version 2"),
        ('{"format": "parquet", "version": 1}', "'parquet'"),
    ],
)
def test_a_foreign_manifest_is_refused(corpus: TokenVectors, content: str, message: str) -> None:
    (corpus.directory / "manifest.json").write_text(content)
    with pytest.raises(InputError, match=message):
        TokenVectors.open(corpus.directory)


@pytest.mark.parametrize("name", ["vectors.npy", "documents.jsonl", "spans.npy"])
def test_a_truncated_shard_is_refused(corpus: TokenVectors, name: str) -> None:
    path = corpus.directory / "shard-00000-of-00003" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="missing or truncated"):
        TokenVectors.open(corpus.directory)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        TokenVectors.open(corpus.directory)


def test_a_changed_byte_is_found_by_verify(corpus: TokenVectors) -> None:
    path = corpus.directory / "shard-00000-of-00003" / "vectors.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="SHA-256 differs"):
        TokenVectors.open(corpus.directory).verify()


def test_shards_of_different_runs_are_refused(corpus: TokenVectors) -> None:
    path = corpus.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["shards"][1]["dim"] = 16
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="does not belong"):
        TokenVectors.open(corpus.directory)


def test_an_array_of_another_shape_is_refused(corpus: TokenVectors) -> None:
    path = corpus.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["shards"][0]["tokens"] += 1
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="shape"):
        list(TokenVectors.open(corpus.directory).blocks(10))


def test_vectors_that_are_not_finite_are_refused(make_shard: MakeShard, tmp_path: Path) -> None:
    arrays = make_shard("a", [[3]])
    arrays.vectors[1, 1] = np.nan
    with pytest.raises(InputError, match="finite"):
        TokenVectors.write(tmp_path, [arrays], "f")
    assert list(tmp_path.iterdir()) == []


def test_inconsistent_arrays_are_refused(make_shard: MakeShard) -> None:
    arrays = make_shard("a", [[3], [2]])
    with pytest.raises(InputError, match="agree in their lengths"):
        ShardArrays(**{**vars(arrays), "pieces": arrays.pieces[:-1]})
    with pytest.raises(InputError, match="order of its documents"):
        ShardArrays(**{**vars(arrays), "documents": [*arrays.documents, arrays.documents[0]]})


def test_a_shard_replaces_one_of_its_name(make_shard: MakeShard, tmp_path: Path) -> None:
    write_shard(tmp_path, "shard-00000-of-00001", make_shard("old", [[3], [4]]), key="old")
    write_shard(tmp_path, "shard-00000-of-00001", make_shard("new", [[2]]), key="new")
    entry = read_shard_entry(tmp_path, "shard-00000-of-00001")
    assert entry is not None
    assert (entry.key, entry.documents, entry.tokens) == ("new", 1, 2)
    assert read_shard_entry(tmp_path, "shard-00001-of-00002") is None


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fill() -> None:
        with atomic_directory(tmp_path / "shard", overwrite=True) as folder:
            (folder / "file").write_text("half")
            assert is_unfinished(folder)
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"^The disk is full: "):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_before_the_old_one_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    there: list[list[str]] = []

    def remove(folder: Path) -> None:
        removed.append(folder)
        there.append([file.name for file in (tmp_path / "shard").iterdir()])

    monkeypatch.setattr("xtr_tf.files.shutil.rmtree", remove)
    for name in ("old", "new"):
        with atomic_directory(tmp_path / "shard", overwrite=True) as folder:
            (folder / name).touch()
    assert there == [["new"]]
    assert is_unfinished(removed[0])
    assert [file.name for file in removed[0].iterdir()] == ["old"]


def test_the_content_hash_covers_what_is_encoded() -> None:
    assert Document("1", "b c", "a").content_hash == Document("2", "c", "a b", "de").content_hash
    assert Document("1", "b", "a").content_hash != Document("1", "ab").content_hash
    assert Document("1", "b").full_text == "b"


def test_records_keep_any_text() -> None:
    document = Document("id\n1", 'line\nbreak\u2028 "quote" 東京', "tab\t", "ja")
    assert DocumentRecord.from_json(DocumentRecord.of(document).to_json()) == DocumentRecord.of(document)
    assert "\n" not in DocumentRecord.of(document).to_json()
    without = dataclasses.replace(DocumentRecord.of(document), text=None)
    assert DocumentRecord.from_json(without.to_json()) == without
