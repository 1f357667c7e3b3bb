"""Encoding and coding in one pass: the index of stored vectors, without storing them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.numbers import network_rounding
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.one_pass import CodedEncoding, OnePass, SampleEncoding, TokenCount, join_coded
from xtr_tf.index.quantizer import sample_of, train_on_sample, trained_quantizer
from xtr_tf.retriever.building import build_parts
from xtr_tf.vectors.encode import EncodingReport, encode_corpus
from xtr_tf.vectors.runners import run_locally
from xtr_tf.vectors.store import TokenVectors

SHARD_CHARACTERS = 20_000
pytestmark = pytest.mark.usefixtures("encoders_loaded_once")


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def corpus(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = (repository / "examples/atlas/corpus.jsonl").read_text(encoding="utf-8").splitlines()[:300]
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def stored(corpus: Path, directories: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenVectors:
    out = tmp_path_factory.mktemp("stored") / "vectors"
    encode_corpus(corpus, directories / "encoder", out, shard_characters=SHARD_CHARACTERS)
    return TokenVectors.open(out)


def in_one_pass(
    corpus: Path, model: Path, out: Path, config: IndexConfig, runner: Callable[..., None] = run_locally
) -> EncodingReport:
    one_pass = OnePass(runner, config)
    return encode_corpus(
        *(corpus, model, out), shard_characters=SHARD_CHARACTERS, runner=one_pass, coding=one_pass.settings
    )


@pytest.mark.parametrize(
    "config",
    [
        IndexConfig(kind="scann", num_leaves=40, sample_size=4000, reordering=True),
        IndexConfig(kind="core", dtype="int4", sample_size=4000, lexical="words"),
        IndexConfig(kind="auto"),
    ],
    ids=lambda config: config.kind,
)
def test_the_index_is_that_of_stored_vectors(
    config: IndexConfig, stored: TokenVectors, corpus: Path, directories: Path, tmp_path: Path
) -> None:
    sampled: list[np.ndarray] = []

    def run(task: Any, shards: Sequence[Any]) -> None:
        run_locally(task, shards)
        if isinstance(task, SampleEncoding):
            sampled.extend(np.load(task.result(shard)) for shard in shards)

    in_one_pass(corpus, directories / "encoder", tmp_path / "vectors", config, run)
    index = join_coded(tmp_path / "vectors", tmp_path / "index")
    assert not list(tmp_path.rglob("vectors.npy")) or index.config.kind in ("exact", "core")

    quantizer = trained_quantizer(index)
    build_index(stored, tmp_path / "from vectors", config, quantizer)
    assert files(tmp_path / "index") == files(tmp_path / "from vectors")

    if quantizer is not None:
        # The sample is encoded in other batches, so its vectors may differ in their last bit.
        expected = stored.take(sample_of(stored.document_offsets, config))
        sample = np.concatenate(sampled)
        tolerance = network_rounding(stored.dim) + np.finfo(np.float16).eps
        np.testing.assert_allclose(sample, expected, atol=tolerance)
        assert quantizer.fingerprint == train_on_sample(sample, stored.num_tokens, config).fingerprint


def test_everything_but_the_vectors_is_stored(
    stored: TokenVectors, corpus: Path, directories: Path, tmp_path: Path
) -> None:
    in_one_pass(corpus, directories / "encoder", tmp_path / "vectors", IndexConfig(num_leaves=9))
    coded = TokenVectors.open(tmp_path / "vectors")
    coded.verify()
    assert not coded.has_vectors
    assert stored.has_vectors
    for name in ("pieces", "spans", "positions", "document_offsets", "document_ids"):
        np.testing.assert_array_equal(getattr(coded, name), getattr(stored, name))
    with pytest.raises(InputError, match="without keeping their vectors"):
        coded.take(np.arange(3))
    with pytest.raises(InputError, match="reused only if they were kept"):
        encode_corpus(corpus, directories / "encoder", tmp_path / "other", reuse=tmp_path / "vectors")


def test_an_interrupted_pass_continues(corpus: Path, directories: Path, tmp_path: Path) -> None:
    config = IndexConfig(kind="scann", num_leaves=20, sample_size=2000)
    ran: list[tuple[type, int]] = []

    def stop_at(kind: type, after: int) -> Callable[..., None]:
        def run(task: Any, shards: Sequence[Any]) -> None:
            for shard in shards[: after if isinstance(task, kind) else None]:
                run_locally(task, [shard])
                ran.append((type(task), shard.index))
            if isinstance(task, kind):
                raise KeyboardInterrupt

        return run

    for kind, after in ((TokenCount, 1), (CodedEncoding, 2), (CodedEncoding, 1)):
        with pytest.raises(KeyboardInterrupt):
            in_one_pass(corpus, directories / "encoder", tmp_path / "out", config, stop_at(kind, after))
    report = in_one_pass(corpus, directories / "encoder", tmp_path / "out", config, stop_at(int, 0))
    assert report.shards_kept == 3
    assert len(set(ran)) == len(ran)  # nothing was done twice

    in_one_pass(corpus, directories / "encoder", tmp_path / "at once", config)
    names = "vectors", "index"
    at_once = join_coded(tmp_path / "at once", tmp_path / names[1])
    again = join_coded(tmp_path / "out", tmp_path / names[0])
    assert files(at_once.directory) == files(again.directory)


def test_a_damaged_part_is_encoded_again(corpus: Path, directories: Path, tmp_path: Path) -> None:
    config, out = IndexConfig(kind="scann", num_leaves=20), tmp_path / "out"
    in_one_pass(corpus, directories / "encoder", out, config)
    whole = files(join_coded(out, tmp_path / "index").directory)
    codes = next(out.glob("shard-00001-*")) / "part" / "codes.npy"
    content = bytearray(codes.read_bytes())
    content[-1] ^= 1
    codes.write_bytes(content)
    with pytest.raises(InputError, match="was damaged, and was removed"):
        join_coded(out, tmp_path / "index")
    assert files(tmp_path / "index") == whole
    report = in_one_pass(corpus, directories / "encoder", out, config)
    assert report.shards_kept == len(report.manifest.shards) - 1
    assert files(join_coded(out, tmp_path / "again").directory) == whole


def test_codes_of_other_settings_are_not_mixed(corpus: Path, directories: Path, tmp_path: Path) -> None:
    in_one_pass(corpus, directories / "encoder", tmp_path / "out", IndexConfig(num_leaves=9))
    with pytest.raises(InputError, match="finished vectors of another corpus, encoder or settings"):
        in_one_pass(corpus, directories / "encoder", tmp_path / "out", IndexConfig(num_leaves=8))


def test_a_norm_cannot_be_known_before_encoding(corpus: Path, directories: Path, tmp_path: Path) -> None:
    one_pass = OnePass(run_locally, IndexConfig())
    with pytest.raises(InputError, match=r"leave out `min_norm`. Received: 0.5"):
        encode_corpus(
            *(corpus, directories / "encoder", tmp_path / "out", EncodingConfig(min_norm=0.5)),
            runner=one_pass,
            coding=one_pass.settings,
        )


@pytest.mark.parametrize(
    "encoding",
    [
        EncodingConfig(),
        EncodingConfig(passage_length=16, overlap=5, skip_punctuation=True),
        EncodingConfig(max_tokens=7, skip_pieces=("▁the",)),
    ],
)
def test_tokens_are_counted_as_they_are_encoded(
    encoding: EncodingConfig, corpus: Path, directories: Path, tmp_path: Path
) -> None:
    from xtr_tf.vectors.document_encoder import TokenCounter

    encode_corpus(corpus, directories / "encoder", tmp_path / "out", encoding)
    vectors = TokenVectors.open(tmp_path / "out")
    counter = TokenCounter.load(directories / "encoder", encoding)
    counts = counter.count([record.full_text for record in vectors.documents()])
    np.testing.assert_array_equal(counts, np.diff(vectors.document_offsets))


def test_a_build_without_vectors_is_finished_only_once(
    corpus: Path, directories: Path, tmp_path: Path
) -> None:
    def build() -> TokenIndex:
        return build_parts(
            *(corpus, directories / "encoder", tmp_path / "work", None, IndexConfig(num_leaves=9)),
            shard_characters=SHARD_CHARACTERS,
            keep_vectors=False,
        ).index

    index = build()
    written = (index.directory / "manifest.json").stat().st_mtime_ns
    assert json.loads((index.directory / "manifest.json").read_bytes()).get("trained") is None
    assert (build().directory / "manifest.json").stat().st_mtime_ns == written


@pytest.mark.parametrize("size", [0, 1, 700, 4000, 5000])
def test_a_sample_has_its_size_and_no_token_twice(size: int) -> None:
    offsets = np.array([0, 0, 3000, 3005, 3005, 5000])
    tokens = sample_of(offsets, IndexConfig(num_leaves=1, sample_size=size, seed=3))
    assert len(tokens) == (size or 5000)
    assert (np.diff(tokens) > 0).all()
    assert tokens[0] >= 0
    assert tokens[-1] < 5000


def test_a_long_document_has_its_share_of_the_sample() -> None:
    """Half of all tokens are in one document: it must not fill the sample, or be missing from it."""
    offsets = np.concatenate([[0], 100_000 + np.arange(0, 100_001, 50)])
    shares = [
        (sample_of(offsets, IndexConfig(num_leaves=1, sample_size=20_000, seed=seed)) < 100_000).mean()
        for seed in range(20)
    ]
    # 391 runs of 256 tokens are drawn with the same probability as 2,000 documents of 50.
    deviation = np.sqrt(0.5 * 0.5 / (20_000 / 256))
    assert abs(np.mean(shares) - 0.5) < 3 * deviation / np.sqrt(20)
    assert max(abs(np.array(shares) - 0.5)) < 4 * deviation
