"""Workers that see only a staging folder, on a file system made for the test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.localfilesystem import LocalFileSystem

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.one_pass import OnePass
from xtr_tf.vectors.beam import BeamRunner
from xtr_tf.vectors.encode import encode_corpus
from xtr_tf.vectors.runners import run_locally
from xtr_tf.vectors.staged import StagedRunner
from xtr_tf.vectors.store import TokenVectors

SCHEME = "far"


class FarFileSystem(LocalFileSystem):
    """`far://bucket/...`, kept in a local folder."""

    root: Path

    def __init__(self, pipeline_options: Any) -> None:
        super().__init__(pipeline_options)
        self._local = LocalFileSystem(pipeline_options)

    @classmethod
    def scheme(cls) -> str:
        return SCHEME

    def _near(self, path: str) -> str:
        assert path.startswith(f"{SCHEME}://"), path
        return str(self.root / path.removeprefix(f"{SCHEME}://"))

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def exists(self, path: str) -> bool:
        return self._local.exists(self._near(path))

    def mkdirs(self, path: str) -> None:
        self._local.mkdirs(self._near(path))

    def create(self, path: str, *args: Any) -> Any:
        return self._local.create(self._near(path), *args)

    def open(self, path: str, *args: Any) -> Any:
        return self._local.open(self._near(path), *args)

    def match(self, patterns: list[str], limits: Any = None) -> Any:
        found = self._local.match([self._near(pattern) for pattern in patterns], limits)
        for result in found:
            for metadata in result.metadata_list:
                metadata.path = f"{SCHEME}://{Path(metadata.path).relative_to(self.root)}"
        return found


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Path]:
    FarFileSystem.root = tmp_path / "far"
    (FarFileSystem.root / "bucket").mkdir(parents=True)
    yield FarFileSystem.root / "bucket"
    del FarFileSystem.root


@pytest.fixture
def corpus(atlas: Path, tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join((atlas / "corpus.jsonl").read_text().splitlines()[:40]))
    return path


def content(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_vectors_come_back_as_if_encoded_here(
    corpus: Path, model: Path, bucket: Path, tmp_path: Path
) -> None:
    encode_corpus(corpus, model, tmp_path / "here", shard_characters=4000)
    staged = StagedRunner(BeamRunner(), f"{SCHEME}://bucket/run")
    encode_corpus(corpus, model, tmp_path / "there", shard_characters=4000, runner=staged)
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_shards_that_arrived_are_not_encoded_again(
    corpus: Path, model: Path, bucket: Path, tmp_path: Path
) -> None:
    ran: list[int] = []

    def fail_after_two(task: Any, shards: Sequence[Any]) -> None:
        run_locally(task, shards[:2])
        entry = next(bucket.glob(f"run/{shards[1].name}-*/{shards[1].name}/shard.json"))
        entry.unlink()  # as if the worker had died before the last file
        raise KeyboardInterrupt

    def count(task: Any, shards: Sequence[Any]) -> None:
        ran.extend(shard.index for shard in shards)
        run_locally(task, shards)

    def encode(runner: Any) -> None:
        staged = StagedRunner(runner, f"{SCHEME}://bucket/run")
        encode_corpus(corpus, model, tmp_path / "there", shard_characters=4000, runner=staged)

    with pytest.raises(KeyboardInterrupt):
        encode(fail_after_two)
    encode(count)
    assert ran[0] == 1
    assert 0 not in ran
    encode_corpus(corpus, model, tmp_path / "here", shard_characters=4000)
    assert content(tmp_path / "there") == content(tmp_path / "here")


@pytest.mark.parametrize("known", [False, True], ids=["staged", "read from where they are"])
def test_unchanged_texts_are_reused_on_the_workers(
    known: bool, corpus: Path, model: Path, bucket: Path, tmp_path: Path
) -> None:
    """The workers get the shards that have the texts, and no others."""
    encode_corpus(corpus, model, tmp_path / "before", shard_characters=4000)
    before = TokenVectors.open(tmp_path / "before")
    assert len(before.shards) > 3
    if known:
        shutil.copytree(tmp_path / "before", bucket / "before")
    lines = corpus.read_text(encoding="utf-8").splitlines()
    kept = lines[: before.shards[0].entry.documents]
    corpus.write_text("\n".join([*kept, '{"_id": "new", "text": "Something else altogether."}']))
    earlier = f"{SCHEME}://bucket/before" if known else ""
    staged = StagedRunner(BeamRunner(), f"{SCHEME}://bucket/run", earlier)
    report = encode_corpus(corpus, model, tmp_path / "there", reuse=tmp_path / "before", runner=staged)
    assert report.counters["documents_encoded"] == 1
    assert report.counters["documents_reused"] == len(kept)
    encode_corpus(corpus, model, tmp_path / "here", reuse=tmp_path / "before")
    assert content(tmp_path / "there") == content(tmp_path / "here")
    sent = [path.name for path in bucket.glob("run/earlier-*/shard-*")]
    assert sent == ([] if known else [before.shards[0].entry.name])


def test_what_is_coded_on_the_workers_is_coded_as_here(
    corpus: Path, model: Path, bucket: Path, tmp_path: Path
) -> None:
    for place, runner in (
        ("here", run_locally),
        ("there", StagedRunner(BeamRunner(), f"{SCHEME}://bucket/run")),
    ):
        one_pass = OnePass(runner, IndexConfig(num_leaves=9, sample_size=600))
        encode_corpus(
            *(corpus, model, tmp_path / place),
            shard_characters=4000,
            runner=one_pass,
            coding=one_pass.settings,
        )
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert not list(bucket.rglob("vectors.npy"))


def test_what_cannot_be_staged_is_refused(corpus: Path, model: Path, bucket: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file system for this address"):
        encode_corpus(corpus, model, tmp_path / "y", runner=StagedRunner(run_locally, "nowhere://bucket"))
