"""Workers that see only a staging folder, on a file system made for the test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.localfilesystem import LocalFileSystem

from xtr_tf.errors import InputError
from xtr_tf.vectors.beam import BeamRunner
from xtr_tf.vectors.encode import encode_corpus
from xtr_tf.vectors.runners import run_locally
from xtr_tf.vectors.staged import StagedRunner

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
        entry = next(bucket.glob(f"run/{shards[1].name}-*/shard.json"))
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


def test_what_cannot_be_staged_is_refused(corpus: Path, model: Path, bucket: Path, tmp_path: Path) -> None:
    encode_corpus(corpus, model, tmp_path / "here")
    staged = StagedRunner(run_locally, f"{SCHEME}://bucket/run")
    with pytest.raises(InputError, match="reused on the machine"):
        encode_corpus(
            corpus, model, tmp_path / "x", reuse=tmp_path / "here", runner=staged, shard_characters=9
        )
    with pytest.raises(InputError, match="no file system for this address"):
        encode_corpus(corpus, model, tmp_path / "y", runner=StagedRunner(run_locally, "nowhere://bucket"))
