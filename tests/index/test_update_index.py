"""A refreshed index is, file for file, the full build with the same leaves and codebooks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.quantizer import trained_quantizer
from xtr_tf.index.refresh import refresh_index
from xtr_tf.index.update import TrainingState, advice, drift, update_index
from xtr_tf.vectors.store import TokenVectors
from xtr_tf.vectors.update import compare_documents, update_vectors

MakeVectors = Callable[..., TokenVectors]
IDS = [f"d{number}" for number in range(120)]
CONFIGS = {
    "scann": IndexConfig(kind="scann", num_leaves=20),
    "scann_reordering": IndexConfig(kind="scann", num_leaves=20, reordering=True),
    "core": IndexConfig(kind="core", num_leaves=20),
    "core_bfloat16": IndexConfig(kind="core", num_leaves=20, dtype="bfloat16"),
    "exact": IndexConfig(kind="exact"),
    "exact_bfloat16": IndexConfig(kind="exact", dtype="bfloat16"),
}


def arrays(index: TokenIndex) -> dict[str, np.ndarray]:
    return {name: np.load(index.directory / name) for name in index.manifest.files if name.endswith(".npy")}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_refresh_equals_a_full_build(name: str, make_vectors: MakeVectors, tmp_path: Path) -> None:
    config = CONFIGS[name]
    base = make_vectors("base", IDS, seed=1)
    added = make_vectors("added", ["new1", "d5", "new2", "new3"], seed=2)
    index = build_index(base, tmp_path / "index", config)
    changes = compare_documents(base, added, ["d0", "d77", "d119"])
    vectors = update_vectors(base, added, changes, tmp_path / "vectors")
    refreshed = update_index(index, vectors, changes.kept, tmp_path / "refreshed")
    rebuilt = build_index(vectors, tmp_path / "rebuilt", config, trained_quantizer(index))
    refreshed.verify()
    found, expected = arrays(refreshed), arrays(rebuilt)
    assert found.keys() == expected.keys()
    for file, array in expected.items():
        np.testing.assert_array_equal(found[file], array, err_msg=file)
    assert refreshed.num_documents == 120
    assert refreshed.manifest.config == config


def test_documents_can_only_go(make_vectors: MakeVectors, tmp_path: Path) -> None:
    base = make_vectors("base", IDS)
    build_index(base, tmp_path / "index", CONFIGS["core"])
    report = refresh_index(
        tmp_path / "index", base.directory, tmp_path / "new", tmp_path / "nv", delete=IDS[:50]
    )
    assert report.tokens_added == 0
    quantizer = trained_quantizer(report.index)
    rebuilt = build_index(report.vectors, tmp_path / "rebuilt", CONFIGS["core"], quantizer)
    for file, array in arrays(rebuilt).items():
        np.testing.assert_array_equal(arrays(report.index)[file], array)


def test_refreshes_can_follow_each_other(make_vectors: MakeVectors, tmp_path: Path) -> None:
    base = make_vectors("base", IDS)
    build_index(base, tmp_path / "index-1", CONFIGS["scann"])
    make_vectors("added-1", ["new1"], shards=1)
    make_vectors("added-2", ["d3", "new2"], seed=3, shards=1)
    vectors, index = base.directory, tmp_path / "index-1"
    for step, deleted in ((1, ["d9"]), (2, ["new1", "d8"])):
        report = refresh_index(
            index,
            vectors,
            tmp_path / f"index-{step + 1}",
            tmp_path / f"vectors-{step + 1}",
            add=tmp_path / f"added-{step}",
            delete=deleted,
        )
        vectors, index = report.vectors.directory, report.index.directory
    assert set(report.vectors.document_ids) == {*IDS, "new2"} - {"d9", "d8"}
    assert TrainingState.read(report.index) == TrainingState(base.num_tokens, 2)
    quantizer = trained_quantizer(TokenIndex.open(tmp_path / "index-1"))
    rebuilt = build_index(report.vectors, tmp_path / "rebuilt", CONFIGS["scann"], quantizer)
    for file, array in arrays(rebuilt).items():
        np.testing.assert_array_equal(arrays(report.index)[file], array)


def test_a_refresh_reads_no_vectors_that_stay(
    make_vectors: MakeVectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = make_vectors("base", IDS)
    index = build_index(base, tmp_path / "index", CONFIGS["scann"])
    added = make_vectors("added", ["new"], shards=1)
    changes = compare_documents(base, added, [])
    vectors = update_vectors(base, added, changes, tmp_path / "vectors")
    read: list[int] = []
    blocks = TokenVectors.blocks

    def counting(self: TokenVectors, size: int) -> object:
        for block, ordinals in blocks(self, size):
            read.append(len(block))
            yield block, ordinals

    monkeypatch.setattr(TokenVectors, "blocks", counting)
    update_index(index, vectors, changes.kept, tmp_path / "refreshed")
    assert sum(read) == added.num_tokens


def test_the_report_counts_what_changed(make_vectors: MakeVectors, tmp_path: Path) -> None:
    base = make_vectors("base", IDS)
    build_index(base, tmp_path / "index", CONFIGS["core"])
    added = make_vectors("added", ["new1", "d5"], seed=2, shards=1)
    report = refresh_index(
        tmp_path / "index",
        base.directory,
        tmp_path / "new",
        tmp_path / "new-vectors",
        add=added.directory,
        delete=["d0", "nobody"],
    )
    assert (report.changes.added, report.changes.replaced, report.changes.deleted) == (1, 1, 1)
    assert report.changes.unknown == ("nobody",)
    assert report.tokens_added == added.num_tokens
    assert report.documents_encoded == 0
    assert report.advice == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "added", "base", "index", "new", "new-vectors",
    ]  # fmt: skip


def test_drift_and_growth_call_for_training(make_vectors: MakeVectors, tmp_path: Path) -> None:
    base = make_vectors("base", IDS)
    quantizer = trained_quantizer(build_index(base, tmp_path / "index", CONFIGS["scann"]))
    assert quantizer is not None

    def drift_of(name: str, spread: float) -> float:
        added = make_vectors(name, [f"{name}{number}" for number in range(40)], seed=9, spread=spread)
        changes = compare_documents(base, added, [])
        vectors = update_vectors(base, added, changes, tmp_path / f"{name}-vectors")
        return drift(quantizer, vectors, base.num_tokens)

    alike, foreign = drift_of("alike", 0.3), drift_of("foreign", 3.0)
    assert alike == pytest.approx(1.0, abs=0.1)
    assert foreign > 1.1
    state = TrainingState(1000, 3)
    assert advice(state, 1500, 1.0) == ""
    assert "times as far" in advice(state, 1500, foreign)
    assert "2.10 times the tokens" in advice(state, 2100, 1.0)
    assert "0.40 times the tokens" in advice(state, 400, 1.0)


def test_bad_refreshes_are_refused_and_leave_nothing(make_vectors: MakeVectors, tmp_path: Path) -> None:
    base = make_vectors("base", IDS)
    other = make_vectors("other", IDS[:50])
    build_index(base, tmp_path / "index", CONFIGS["scann"])
    before = sorted(path.name for path in tmp_path.iterdir())

    def refresh(message: str, vectors: Path = base.directory, out: str = "new", **changes: object) -> None:
        with pytest.raises(InputError, match=message):
            refresh_index(tmp_path / "index", vectors, tmp_path / out, tmp_path / "nv", **changes)

    refresh("documents to add or ids to delete")
    refresh("not the ones the index was built from", vectors=other.directory, delete=["d1"])
    refresh("choose another name", out="index", delete=["d1"])
    refresh("at least one document", delete=IDS)
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "text": "a"}')
    refresh("without a model", add=tmp_path / "corpus.jsonl")
    (tmp_path / "corpus.jsonl").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_vectors_of_another_encoder_are_refused(make_vectors: MakeVectors, tmp_path: Path) -> None:
    base = make_vectors("base", IDS)
    build_index(base, tmp_path / "index", CONFIGS["scann"])
    foreign = TokenVectors.write(
        tmp_path / "foreign", [shard.arrays() for shard in make_vectors("x", ["x"], shards=1).shards], "other"
    )
    with pytest.raises(InputError, match="encoder other"):
        refresh_index(
            tmp_path / "index", base.directory, tmp_path / "new", tmp_path / "nv", add=foreign.directory
        )
    with pytest.raises(InputError, match="its own encoder"):
        refresh_index(tmp_path / "index", foreign.directory, tmp_path / "new", tmp_path / "nv", delete=["x"])
    assert not (tmp_path / "nv").exists()
