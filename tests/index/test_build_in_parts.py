from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.joining import IndexPart, join_indexes
from xtr_tf.index.part_tasks import IndexingJob
from xtr_tf.index.parts import build_in_parts
from xtr_tf.index.quantizer import trained_quantizer
from xtr_tf.vectors.runners import run_locally
from xtr_tf.vectors.store import TokenVectors

MakeVectors = Callable[..., TokenVectors]
IDS = [f"d{number}" for number in range(90)]


def run_with_beam(job: IndexingJob, shards: Sequence[int]) -> None:
    from xtr_tf.vectors.beam import BeamRunner

    BeamRunner()(job, shards)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize(
    "config",
    [
        IndexConfig(kind="scann", num_leaves=12, reordering=True),
        IndexConfig(kind="core", num_leaves=12, lexical="ngrams"),
        IndexConfig(kind="exact"),
    ],
    ids=lambda config: config.kind,
)
@pytest.mark.parametrize(
    "runner", [run_locally, pytest.param(run_with_beam, marks=pytest.mark.pipeline)], ids=["local", "beam"]
)
def test_parts_make_the_same_index_as_one_process(
    config: IndexConfig, runner: Callable[..., None], make_vectors: MakeVectors, tmp_path: Path
) -> None:
    vectors = make_vectors("vectors", IDS, shards=4)
    build_index(vectors, tmp_path / "whole", config)
    build_in_parts(vectors.directory, tmp_path / "joined", config, runner)
    assert files(tmp_path / "joined") == files(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["joined", "vectors", "whole"]


def test_a_killed_build_continues(make_vectors: MakeVectors, tmp_path: Path) -> None:
    config = IndexConfig(kind="scann", num_leaves=12)
    vectors = make_vectors("vectors", IDS, shards=4)
    ran: list[int] = []

    def fail_after_one(job: IndexingJob, shards: Sequence[int]) -> None:
        run_locally(job, shards[:1])
        raise KeyboardInterrupt

    def count(job: IndexingJob, shards: Sequence[int]) -> None:
        ran.extend(shards)
        run_locally(job, shards)

    with pytest.raises(KeyboardInterrupt):
        build_in_parts(vectors.directory, tmp_path / "index", config, fail_after_one)
    assert not (tmp_path / "index").exists()
    build_in_parts(vectors.directory, tmp_path / "index", config, count)
    assert ran == [1, 2, 3]
    build_index(vectors, tmp_path / "whole", config)
    assert files(tmp_path / "index") == files(tmp_path / "whole")


def test_parts_of_another_configuration_are_not_taken(make_vectors: MakeVectors, tmp_path: Path) -> None:
    vectors = make_vectors("vectors", IDS, shards=2)

    def stop(job: IndexingJob, shards: Sequence[int]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_in_parts(vectors.directory, tmp_path / "index", IndexConfig(num_leaves=5), stop)
    config = IndexConfig(num_leaves=9)
    index = build_in_parts(vectors.directory, tmp_path / "index", config, run_locally)
    assert len(index.array("centres")) == 9


def test_a_damaged_part_is_built_again(make_vectors: MakeVectors, tmp_path: Path) -> None:
    """A bit that flips on the disk must not get into the index, whose checksums would then include it."""
    config = IndexConfig(kind="scann", num_leaves=12)
    vectors = make_vectors("vectors", IDS, shards=3)

    def damage(job: IndexingJob, shards: Sequence[int]) -> None:
        run_locally(job, shards)
        codes = job.part(2) / "codes.npy"
        content = bytearray(codes.read_bytes())
        content[-1] ^= 1
        codes.write_bytes(content)

    with pytest.raises(InputError, match=r"was damaged, and was removed.*part-00002"):
        build_in_parts(vectors.directory, tmp_path / "index", config, damage)
    assert not (tmp_path / "index").exists()
    build_in_parts(vectors.directory, tmp_path / "index", config, run_locally)
    build_index(vectors, tmp_path / "whole", config)
    assert files(tmp_path / "index") == files(tmp_path / "whole")


def test_a_shard_without_tokens_has_no_part(make_vectors: MakeVectors, tmp_path: Path) -> None:
    full = make_vectors("full", IDS, shards=2)
    pruned = full.shards[0].arrays()
    nothing = np.zeros(len(pruned.vectors), bool)
    empty = type(pruned)(
        documents=list(make_vectors("other", ["x", "y"], shards=1).documents()),
        vectors=pruned.vectors[nothing],
        pieces=pruned.pieces[nothing],
        spans=pruned.spans[nothing],
        positions=pruned.positions[nothing],
        passage_tokens=np.zeros(2, np.int32),
        passage_documents=np.arange(2, dtype=np.int32),
    )
    shards = [empty, *(shard.arrays() for shard in full.shards), empty]
    TokenVectors.write(tmp_path / "vectors", shards, "fingerprint")
    index = build_in_parts(tmp_path / "vectors", tmp_path / "index", IndexConfig(num_leaves=5), run_locally)
    assert index.num_documents == len(IDS) + 4
    TokenVectors.write(tmp_path / "nothing", [empty], "fingerprint")
    with pytest.raises(InputError, match="at least one token"):
        build_in_parts(tmp_path / "nothing", tmp_path / "none", IndexConfig(), run_locally)


def test_indexes_of_different_leaves_are_not_joined(make_vectors: MakeVectors, tmp_path: Path) -> None:
    vectors = make_vectors("vectors", IDS)
    first = build_index(vectors, tmp_path / "first", IndexConfig(num_leaves=5))
    second = build_index(vectors, tmp_path / "second", IndexConfig(num_leaves=5, seed=1))
    quantizer = trained_quantizer(first)
    few = make_vectors("few", IDS[:1])
    (tmp_path / "joined").mkdir()
    with pytest.raises(InputError, match="same leaves"):
        join_indexes([IndexPart(first), IndexPart(second)], vectors, tmp_path / "joined", quantizer)
    with pytest.raises(InputError, match="tokens of its documents"):
        join_indexes([IndexPart(first)], few, tmp_path / "joined", quantizer)
