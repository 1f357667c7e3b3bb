"""`xtr-tf build`: encode, index and export in one command, continuing where it stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import xtr_tf
from tests.support.processes import call_command
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.retriever.building import build_parts
from xtr_tf.vectors.runners import run_with

from .conftest import PASSAGES


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in PASSAGES), encoding="utf-8")
    return file


@pytest.mark.slow
def test_one_command_makes_a_model_that_opens(tiny_model: Any, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "models"
    ended = call_command(
        *("build", corpus, "--model", tiny_model.directory, "--out", out, "--kind", "core"),
        *("--num-leaves", 2, "--k-prime", 30, "--top-k", 2, "--rescore", 4, "--quiet"),
    )
    assert ended.returncode == 0, ended.stderr
    assert "4 documents" in ended.stdout
    assert f"next: xtr-tf search {out}" in ended.stderr
    assert [path.name for path in out.iterdir()] == ["1"]
    with xtr_tf.open(out) as index:
        assert len(index.search("Everest")) == 2
        defaults = index.card["defaults"]
        assert (defaults["k_prime"], defaults["top_k"], defaults["rescore"]) == (30, 2, 4)
        assert index.card["index"]["kind"] == "core"


def test_bad_settings_are_refused_before_anything_is_written(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "models"
    for option, value, sentence in (
        ("--top-k", 0, "`top_k` must be between"),
        ("--kind", "best", "`kind` must be one of"),
        ("--passage-length", 1, "A passage has at least 2 tokens"),
        ("--model", "nowhere", "A model is the directory of an encoder"),
    ):
        ended = call_command("build", corpus, "--out", out, option, value)
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
        assert sentence in ended.stderr
    assert not out.exists()


class Stopped(Exception):
    """Ends a build in the middle."""


def test_an_interrupted_build_continues(tiny_model: Any, corpus: Path, tmp_path: Path) -> None:
    encoded: list[int] = []

    def runner(stop_after: int) -> Any:
        def run(job: Any, shards: Sequence[Any]) -> None:
            for count, shard in enumerate(shards):
                if count == stop_after:
                    raise Stopped
                run_with(tiny_model.document_encoder(job.config))(job, [shard])
                encoded.append(shard.index)

        return run

    def build(stop_after: int) -> Any:
        return build_parts(
            *(corpus, tiny_model.directory, tmp_path / "work", None, IndexConfig(kind="auto")),
            shard_characters=1,
            runner=runner(stop_after),
        )

    with pytest.raises(Stopped):
        build(stop_after=2)
    built = build(stop_after=99)
    assert encoded == [0, 1, 2, 3]
    assert built.encoding.shards_kept == 2
    assert built.index.config.kind == "exact"
    written = (built.index.directory / "manifest.json").stat().st_mtime_ns
    again = build(stop_after=0)
    assert (again.index.directory / "manifest.json").stat().st_mtime_ns == written
