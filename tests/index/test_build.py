"""Index directories: what is built, in blocks, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.numbers import rounding
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index import build
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.vector_source import ArrayVectors


def make_source(count=1_000, dim=16, seed=0, **options):
    vectors = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float16)
    documents = np.sort(np.random.default_rng(seed).integers(0, 90, count)).astype(np.int32)
    return ArrayVectors(vectors, documents, num_documents=100, **options)


KINDS = {
    "scann": {"centres", "multipliers", "codebook", "cells", "codes", "document_offsets"},
    "core": {"centres", "multipliers", "vectors", "tokens", "cell_offsets", "document_offsets"},
    "exact": {"vectors", "document_offsets"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_says_what_it_is(tmp_path, kind):
    index = build_index(make_source(encoder_fingerprint="abc"), tmp_path / "index", IndexConfig(kind=kind))
    assert (index.num_tokens, index.num_documents, index.dim) == (1_000, 100, 16)
    assert index.config.kind == kind
    assert index.encoder_fingerprint == "abc"
    assert {name.removesuffix(".npy") for name in index.manifest.files} == KINDS[kind]
    assert index.num_bytes == sum(path.stat().st_size for path in (tmp_path / "index").glob("*.npy"))
    np.testing.assert_array_equal(index.document_of_token, make_source()._document_of_token)
    index.verify()
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("kind", KINDS)
def test_block_size_changes_nothing(tmp_path, monkeypatch, kind):
    config = IndexConfig(kind=kind, reordering=kind == "scann")
    one = build_index(make_source(), tmp_path / "one", config)
    monkeypatch.setattr(build, "BLOCK", 64)
    many = build_index(make_source(), tmp_path / "many", config)
    assert one.manifest == many.manifest


def test_four_bit_codes_and_small_leaves_keep_an_index_small(tmp_path):
    index = build_index(make_source(dim=128), tmp_path / "index")
    assert index.array("codes").nbytes == 1_000 * 32
    assert index.array("cells").nbytes == 1_000 * 2


def test_core_vectors_are_grouped_by_leaf(tmp_path):
    source = make_source()
    index = build_index(source, tmp_path / "index", IndexConfig(kind="core"))
    tokens, offsets, centres = (index.array(name) for name in ("tokens", "cell_offsets", "centres"))
    assert offsets[0] == 0
    assert offsets[-1] == 1_000
    np.testing.assert_array_equal(np.sort(tokens), np.arange(1_000))
    vectors = source.take(tokens)
    np.testing.assert_allclose(index.array("vectors") / index.array("multipliers"), vectors, atol=0.05)
    distances = ((vectors[:, None].astype(np.float64) - centres) ** 2).sum(-1)
    own = np.take_along_axis(distances, np.repeat(np.arange(len(centres)), np.diff(offsets))[:, None], 1)
    # The distance is found as |c|² - 2 x.c in float32: 16 terms each, and no larger than |x|² + |c|².
    sizes = (vectors.astype(np.float64) ** 2).sum(-1) + (centres**2).sum(-1).max()
    assert (own[:, 0] <= distances.min(axis=1) + rounding(2 * 16, sizes)).all()


def test_another_indexs_quantiser_can_be_used_again(tmp_path):
    from xtr_tf.index.quantizer import trained_quantizer

    first = build_index(make_source(), tmp_path / "first")
    second = build_index(make_source(seed=1), tmp_path / "second", quantizer=trained_quantizer(first))
    np.testing.assert_array_equal(second.array("centres"), first.array("centres"))
    again = build_index(make_source(), tmp_path / "again", quantizer=trained_quantizer(first))
    assert again.manifest == first.manifest


@pytest.mark.parametrize("count", [1, 2, 17])
@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_corpora_can_be_indexed(tmp_path, count, kind):
    from xtr_tf.index.searchers.opening import searcher_from_index

    source = make_source(count)
    index = build_index(source, tmp_path / "index", IndexConfig(kind=kind))
    hits = searcher_from_index(index).search(source.take(np.arange(count)), 40_000, 0)
    np.testing.assert_array_equal(np.sort(hits.token_ids, axis=1), np.tile(np.arange(count), (count, 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_that_are_not_finite_leave_nothing_behind(tmp_path, kind):
    source = make_source()
    source.vectors[999, 3] = np.nan
    with pytest.raises(InputError, match="finite"):
        build_index(source, tmp_path / "index", IndexConfig(kind=kind, sample_size=900))
    assert not list(tmp_path.iterdir())


def test_an_empty_corpus_is_refused(tmp_path):
    source = ArrayVectors(np.zeros((0, 16), np.float16), np.zeros(0, np.int32))
    for kind in KINDS:
        with pytest.raises(InputError, match="at least one token"):
            build_index(source, tmp_path / "index", IndexConfig(kind=kind))


def test_blocks_must_divide_the_vectors(tmp_path):
    with pytest.raises(InputError, match="dims_per_block"):
        build_index(make_source(dim=15), tmp_path / "index")


@pytest.mark.parametrize(
    ("vectors", "documents", "sentence"),
    [
        (np.zeros((3, 4), np.int8), np.zeros(3, np.int32), "array of floats"),
        (np.zeros((3, 4), np.float32), np.zeros(2, np.int32), "Every token needs a document"),
        (np.zeros((3, 4), np.float32), np.array([0, 2, 1]), "ascend"),
        (np.zeros((3, 4), np.float32), np.array([-1, 0, 1]), "ascend"),
    ],
)
def test_vectors_and_documents_must_fit(vectors, documents, sentence):
    with pytest.raises(InputError, match=sentence):
        ArrayVectors(vectors, documents)


def truncate(folder):
    path = folder / "codes.npy"
    path.write_bytes(path.read_bytes()[:-1])


def remove(folder):
    (folder / "cells.npy").unlink()


def unfinished(folder):
    (folder / "manifest.json").unlink()


def foreign(folder):
    (folder / "manifest.json").write_text(json.dumps({"format": "something-else", "version": 1}))


def newer(folder):
    content = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**content, "version": 99}))


def garbage(folder):
    (folder / "manifest.json").write_bytes(b"\xff\x00 not json")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (truncate, r"`codes.npy` of the token index should have \d+ bytes"),
        (remove, "no such file"),
        (unfinished, "not a finished token index"),
        (foreign, "A token index is needed, as `xtr-tf index` writes it"),
        (newer, "version 99"),
        (garbage, "manifest of the token index is damaged"),
    ],
)
def test_a_damaged_or_foreign_directory_is_refused(tmp_path, damage, sentence):
    build_index(make_source(), tmp_path / "index")
    damage(tmp_path / "index")
    with pytest.raises(InputError, match=sentence):
        TokenIndex.open(tmp_path / "index")


def test_changed_content_is_found_by_its_hash(tmp_path):
    index = build_index(make_source(), tmp_path / "index")
    path = tmp_path / "index" / "codes.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    TokenIndex.open(tmp_path / "index")
    with pytest.raises(InputError, match="token index was changed"):
        index.verify()


def test_a_file_that_is_not_an_array_is_refused(tmp_path):
    index = build_index(make_source(), tmp_path / "index")
    path = tmp_path / "index" / "codes.npy"
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(InputError, match="not a NumPy array"):
        index.array("codes")
    with pytest.raises(InputError, match="no array of this name"):
        index.array("vectors")


def test_the_manifest_keeps_the_keys_it_has_always_had(tmp_path):
    config = IndexConfig(num_leaves=7, num_leaves_to_search=3, kmeans_iterations=2)
    index = build_index(make_source(), tmp_path / "index", config)
    stored = json.loads((tmp_path / "index" / "manifest.json").read_bytes())["config"]
    assert (stored["cells"], stored["leaves"], stored["training_rounds"]) == (7, 3, 2)
    assert not {"num_leaves", "num_leaves_to_search", "kmeans_iterations"} & stored.keys()
    assert index.config == config
