"""Workers that see only a staging folder, on a file system made for the test."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.far_file_system import SCHEME, flip_last_bit
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import MARKER
from xtr_tf.index.one_pass import OnePass
from xtr_tf.vectors.beam import BeamRunner
from xtr_tf.vectors.encode import encode_corpus
from xtr_tf.vectors.remote import RemoteFolder
from xtr_tf.vectors.runners import run_locally
from xtr_tf.vectors.staged import StagedRunner
from xtr_tf.vectors.store import TokenVectors


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
        marker = next(bucket.glob(f"run/{shards[1].name}-*/{shards[1].name}.result/{MARKER}"))
        marker.unlink()  # as if the worker had died before the last file
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
    earlier = RemoteFolder(f"{SCHEME}://bucket/before") if known else tmp_path / "before"
    staged = StagedRunner(BeamRunner(), f"{SCHEME}://bucket/run")
    report = encode_corpus(corpus, model, tmp_path / "there", reuse=earlier, runner=staged)
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


def test_a_damaged_shard_is_not_taken_and_is_encoded_again(
    corpus: Path, model: Path, bucket: Path, tmp_path: Path
) -> None:
    def damage(task: Any, shards: Sequence[Any]) -> None:
        run_locally(task, shards)
        flip_last_bit(next(bucket.glob(f"run/{shards[1].name}-*/{shards[1].name}.result/vectors.npy")))

    def encode(runner: Any) -> None:
        staged = StagedRunner(runner, f"{SCHEME}://bucket/run")
        encode_corpus(corpus, model, tmp_path / "there", shard_characters=4000, runner=staged)

    with pytest.raises(InputError, match=r"damaged on its way.*vectors\.npy"):
        encode(damage)
    assert not (tmp_path / "there" / "manifest.json").exists()
    encode(run_locally)
    encode_corpus(corpus, model, tmp_path / "here", shard_characters=4000)
    assert content(tmp_path / "there") == content(tmp_path / "here")
