"""An index of vectors on a file system that only workers read, one shard at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.far_file_system import SCHEME, FarFileSystem, flip_last_bit
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import MARKER
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.part_tasks import SampleReading
from xtr_tf.index.parts import build_in_parts
from xtr_tf.vectors.beam import BeamRunner
from xtr_tf.vectors.remote import RemoteFolder
from xtr_tf.vectors.runners import run_locally
from xtr_tf.vectors.staged import StagedRunner
from xtr_tf.vectors.store import TokenVectors

MakeVectors = Callable[..., TokenVectors]
IDS = [f"d{number}" for number in range(90)]
SCANN = IndexConfig(kind="scann", num_leaves=12)


@pytest.fixture
def vectors(make_vectors: MakeVectors, bucket: Path) -> TokenVectors:
    """Vectors of four shards, also at `far://bucket/vectors`."""
    local = make_vectors("vectors", IDS, shards=4)
    shutil.copytree(local.directory, bucket / "vectors")
    return local


def build(out: Path, config: IndexConfig = SCANN, runner: Any = run_locally) -> TokenIndex:
    staged = StagedRunner(runner, f"{SCHEME}://bucket/run")
    return build_in_parts(RemoteFolder(f"{SCHEME}://bucket/vectors"), out, config, staged)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize(
    "config",
    [
        IndexConfig(kind="scann", num_leaves=12, reordering=True, sample_size=300),
        IndexConfig(kind="core", num_leaves=12, lexical="ngrams"),
        IndexConfig(kind="exact"),
    ],
    ids=lambda config: config.kind,
)
@pytest.mark.pipeline
def test_the_index_is_the_one_of_local_vectors(
    config: IndexConfig, vectors: TokenVectors, tmp_path: Path
) -> None:
    build(tmp_path / "far-index", config, BeamRunner())
    build_index(vectors, tmp_path / "whole", config)
    assert files(tmp_path / "far-index") == files(tmp_path / "whole")
    assert not list(tmp_path.glob(".*"))


def test_a_worker_reads_only_its_shard_and_only_what_it_needs(vectors: TokenVectors, tmp_path: Path) -> None:
    """This process reads none of the vectors."""
    read_by: dict[Any, set[str]] = {}

    def note(task: Any, shards: Sequence[int]) -> None:
        before, loaded = len(FarFileSystem.read), task.load()
        for shard in shards:
            before = len(FarFileSystem.read)
            task.run(shard, loaded)
            read_by[type(task.task), shard] = set(FarFileSystem.read[before:])
        FarFileSystem.read.clear()

    build(tmp_path / "index", runner=note)
    here = set(FarFileSystem.read)
    names = [shard.entry.name for shard in vectors.shards]
    needed = {"vectors", "pieces", "passage_tokens", "passage_documents"}
    for (task, shard), read in read_by.items():
        own = {path for path in read if path.startswith("bucket/vectors/shard")}
        expected = {"vectors"} if task is SampleReading else needed
        assert own == {f"bucket/vectors/{names[shard]}/{name}.npy" for name in expected}
    assert len(read_by) == 8
    assert not any(path.endswith(("vectors.npy", "pieces.npy", "documents.jsonl")) for path in here)


def test_an_element_that_died_is_run_again(vectors: TokenVectors, bucket: Path, tmp_path: Path) -> None:
    ran: list[int] = []

    def die(task: Any, shards: Sequence[int]) -> None:
        run_locally(task, shards[:3])
        if not isinstance(task.task, SampleReading):
            next(bucket.glob(f"run/index-*/part-00001.result/{MARKER}")).unlink()
            raise KeyboardInterrupt
        run_locally(task, shards[3:])

    def count(task: Any, shards: Sequence[int]) -> None:
        ran.extend(shards)
        run_locally(task, [*shards, *shards])  # an engine may also run an element twice

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "index", runner=die)
    assert not (tmp_path / "index").exists()
    shutil.rmtree(tmp_path / ".index.parts")  # as on another machine
    build(tmp_path / "index", runner=count)
    assert ran == [1, 3]
    build_index(vectors, tmp_path / "whole", SCANN)
    assert files(tmp_path / "index") == files(tmp_path / "whole")


def test_a_damaged_part_is_not_joined_and_is_built_again(
    vectors: TokenVectors, bucket: Path, tmp_path: Path
) -> None:
    def damage(task: Any, shards: Sequence[int]) -> None:
        run_locally(task, shards)
        for codes in bucket.glob("run/index-*/part-00002.result/codes.npy"):
            flip_last_bit(codes)

    with pytest.raises(InputError, match=r"damaged on its way.*part-00002\.result/codes\.npy"):
        build(tmp_path / "index", runner=damage)
    assert not (tmp_path / "index").exists()
    build(tmp_path / "index")
    build_index(vectors, tmp_path / "whole", SCANN)
    assert files(tmp_path / "index") == files(tmp_path / "whole")


def test_vectors_that_cannot_be_read_are_named(vectors: TokenVectors, bucket: Path, tmp_path: Path) -> None:
    (bucket / "vectors" / vectors.shards[2].entry.name / "vectors.npy").unlink()
    with pytest.raises(InputError, match=r"cannot be read.*shard-00002-of-00004/vectors\.npy"):
        build(tmp_path / "index")
    (bucket / "vectors" / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"cannot be read.*far://bucket/vectors/manifest\.json"):
        build(tmp_path / "index")
    assert not (tmp_path / "index").exists()
