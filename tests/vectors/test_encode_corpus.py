from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.files import StorageError
from xtr_tf.model.folder import load_encoder, read_manifest
from xtr_tf.vectors.encode import EncodingReport, encode_corpus
from xtr_tf.vectors.job import EncodingJob, Progress
from xtr_tf.vectors.plan import ShardPlan
from xtr_tf.vectors.runners import run_locally
from xtr_tf.vectors.store import TokenVectors

SHARD_CHARACTERS = 20_000
XTR_TF = str(Path(sys.executable).with_name("xtr-tf"))


def content(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def encoded(
    repository: Path, model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, EncodingReport]:
    out = tmp_path_factory.mktemp("encoded") / "vectors"
    return out, encode_corpus(
        repository / "examples" / "atlas", model, out, shard_characters=SHARD_CHARACTERS
    )


def test_the_whole_corpus_is_encoded_in_order(
    encoded: tuple[Path, EncodingReport], atlas: Path, model: Path
) -> None:
    out, report = encoded
    corpus = TokenVectors.open(out)
    corpus.verify()
    documents = list(CorpusReader(atlas))
    assert corpus.document_ids == [document.id for document in documents]
    assert [record.content_hash for record in corpus.documents()] == [
        document.content_hash for document in documents
    ]
    assert [record.full_text for record in corpus.documents()] == [
        document.full_text for document in documents
    ]
    assert corpus.num_passages > corpus.num_documents, "long documents have several passages"
    assert len(corpus.shards) > 3
    assert corpus.encoder_fingerprint == read_manifest(model).fingerprint
    assert report.counters["documents_encoded"] == 300
    assert report.counters["tokens_encoded"] == corpus.num_tokens
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["manifest.json", *(shard.entry.name for shard in corpus.shards)]
    ), "nothing else is left behind"


def test_vectors_belong_to_their_documents(encoded: tuple[Path, EncodingReport], model: Path) -> None:
    import tensorflow as tf

    encoder, tokenizer = load_encoder(model)
    corpus = TokenVectors.open(encoded[0])
    records = list(corpus.documents())
    for ordinal in (0, 150, 299):
        first, last = corpus.document_offsets[[ordinal, ordinal + 1]]
        assert set(corpus.document_of_token[first:last]) == {ordinal}
        expected = encoder(tokenizer.ragged(tf.constant([records[ordinal].full_text]), 64).to_tensor())[0]
        # Half of the overlap of 8 belongs to the second passage.
        length = min(last - first, 59)
        np.testing.assert_allclose(
            corpus.take(np.arange(first, first + length)), expected[:length], atol=2e-3
        )
        spans = corpus.spans[first:last]
        assert spans.max() <= len(records[ordinal].full_text)


def test_a_second_run_does_nothing(encoded: tuple[Path, EncodingReport], atlas: Path, model: Path) -> None:
    out, _ = encoded
    before = content(out)
    report = encode_corpus(atlas, model, out, shard_characters=SHARD_CHARACTERS, runner=refuse)
    assert report.shards_kept == len(report.manifest.shards)
    assert not report.counters
    assert content(out) == before


def refuse(job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
    raise AssertionError("nothing was to be encoded")


def test_a_run_that_failed_continues_from_its_finished_shards(
    encoded: tuple[Path, EncodingReport], atlas: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "vectors"

    def fill_the_disk(job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
        run_locally(job, shards[:2])
        (out / f".{shards[2].name}.12345678.partial").mkdir()
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        encode_corpus(atlas, model, out, shard_characters=SHARD_CHARACTERS, runner=fill_the_disk)
    with pytest.raises(InputError, match="not a finished directory"):
        TokenVectors.open(out)
    report = encode_corpus(atlas, model, out, shard_characters=SHARD_CHARACTERS)
    assert report.shards_kept == 2
    kept = sum(shard.documents for shard in report.manifest.shards[:2])
    assert report.counters["documents_encoded"] == 300 - kept
    assert content(out) == content(encoded[0])


def test_a_truncated_shard_is_encoded_again(
    encoded: tuple[Path, EncodingReport], atlas: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "vectors"
    shutil.copytree(encoded[0], out)
    victim = next(out.glob("shard-00001-*")) / "vectors.npy"
    victim.write_bytes(victim.read_bytes()[:-1])
    report = encode_corpus(atlas, model, out, shard_characters=SHARD_CHARACTERS)
    assert report.counters["documents_encoded"] == report.manifest.shards[1].documents
    assert content(out) == content(encoded[0])


@pytest.mark.slow
def test_a_killed_process_continues(
    encoded: tuple[Path, EncodingReport], atlas: Path, model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "vectors"
    command = [XTR_TF, "encode", str(atlas), "--model", str(model)]
    command += ["--out", str(out), "--shard-characters", str(SHARD_CHARACTERS)]
    process = subprocess.Popen(command)
    while process.poll() is None and not any(out.glob("shard-*")):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = len(list(out.glob("shard-*")))
    assert kept < len(TokenVectors.open(encoded[0]).shards)
    finished = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"{kept} shards kept" in finished
    assert content(out) == content(encoded[0])


def test_only_what_changed_is_encoded_again(
    encoded: tuple[Path, EncodingReport], atlas: Path, model: Path, tmp_path: Path
) -> None:
    lines = (atlas / "corpus.jsonl").read_text().splitlines()
    changed = json.loads(lines[100])
    changed["text"] += " One more sentence."
    retitled = {**json.loads(lines[5]), "language": "xx"}
    lines[100], lines[5] = json.dumps(changed), json.dumps(retitled)
    lines.insert(0, json.dumps({"_id": "new", "text": "A new document."}))
    del lines[200]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    report = encode_corpus(
        tmp_path / "corpus.jsonl",
        model,
        tmp_path / "vectors",
        shard_characters=SHARD_CHARACTERS,
        reuse=encoded[0],
    )
    assert report.counters["documents_encoded"] == 2
    assert report.counters["documents_reused"] == 298
    refreshed, earlier = TokenVectors.open(tmp_path / "vectors"), TokenVectors.open(encoded[0])
    assert list(refreshed.documents())[6].language == "xx"
    before = {identifier: ordinal for ordinal, identifier in enumerate(earlier.document_ids)}
    for ordinal, identifier in enumerate(refreshed.document_ids):
        if identifier in ("new", changed["_id"]):
            continue
        ranges = [
            (corpus, np.arange(*corpus.document_offsets[[place, place + 1]]))
            for corpus, place in ((refreshed, ordinal), (earlier, before[identifier]))
        ]
        (_, ours), (_, theirs) = ranges
        np.testing.assert_array_equal(refreshed.take(ours), earlier.take(theirs))
        for name in ("pieces", "spans", "positions"):
            np.testing.assert_array_equal(getattr(refreshed, name)[ours], getattr(earlier, name)[theirs])


def test_vectors_of_another_encoder_or_other_settings_are_not_reused(
    encoded: tuple[Path, EncodingReport], atlas: Path, model: Path, tmp_path: Path
) -> None:
    from xtr_tf.model.encoder import Encoder
    from xtr_tf.model.folder import save_encoder

    encoder, tokenizer = load_encoder(model)
    save_encoder(tmp_path / "other", Encoder(encoder.config, seed=2), tokenizer)
    with pytest.raises(InputError, match="with the encoder that made them"):
        encode_corpus(atlas, tmp_path / "other", tmp_path / "out", reuse=encoded[0])
    with pytest.raises(InputError, match=r"with the settings that made them.*max_tokens"):
        encode_corpus(atlas, model, tmp_path / "out", EncodingConfig(max_tokens=9), reuse=encoded[0])
    assert not (tmp_path / "out").exists()


def test_texts_can_be_left_out(atlas: Path, model: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join((atlas / "corpus.jsonl").read_text().splitlines()[:3]))
    encode_corpus(corpus, model, tmp_path / "out", EncodingConfig(keep_text=False, dtype="bfloat16"))
    vectors = TokenVectors.open(tmp_path / "out")
    assert [record.text for record in vectors.documents()] == [None] * 3
    assert vectors.dtype == "bfloat16"


def test_a_finished_directory_of_something_else_is_not_touched(
    encoded: tuple[Path, EncodingReport], model: Path, tmp_path: Path
) -> None:
    out = encoded[0]
    before = content(out)
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "text": "another corpus"}\n')
    with pytest.raises(InputError, match="finished vectors of another corpus"):
        encode_corpus(tmp_path / "corpus.jsonl", model, out)
    assert content(out) == before


def test_a_folder_of_something_else_is_refused(atlas: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match=r"directory of their own.*thesis\.tex"):
        encode_corpus(atlas, model, tmp_path)
    assert content(tmp_path) == {"thesis.tex": b"precious"}


def test_two_jobs_cannot_write_one_directory(atlas: Path, model: Path, tmp_path: Path) -> None:
    def start_another(job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
        with pytest.raises(InputError, match="Another process"):
            encode_corpus(atlas, model, job.out)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode_corpus(atlas, model, tmp_path / "out", runner=start_another)


def test_bad_input_leaves_nothing_behind(model: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "1"}\n')
    with pytest.raises(InputError, match="no document that can be encoded"):
        encode_corpus(tmp_path / "corpus.jsonl", model, tmp_path / "out")
    with pytest.raises(InputError, match=r"encoder\.json"):
        encode_corpus(tmp_path / "corpus.jsonl", tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_partial_job_of_another_corpus_is_kept(atlas: Path, model: Path, tmp_path: Path) -> None:
    lines = (atlas / "corpus.jsonl").read_text().splitlines()
    for name, chosen in (("first", lines[:20]), ("other", lines[20:40])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(chosen))

    def stop_after_one(job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
        run_locally(job, shards[:1])
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        encode_corpus(tmp_path / "first.jsonl", model, out, shard_characters=2000, runner=stop_after_one)
    with pytest.raises(
        InputError, match=r"another corpus, encoder or settings that was not encoded completely"
    ):
        encode_corpus(tmp_path / "other.jsonl", model, out, shard_characters=2000)
    report = encode_corpus(tmp_path / "first.jsonl", model, out, shard_characters=2000)
    assert report.shards_kept == 1


def test_a_strict_job_refuses_bad_records_before_it_encodes(atlas: Path, model: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text((atlas / "corpus.jsonl").read_text().splitlines()[0] + '\n{"id": "x"}\n')
    with pytest.raises(InputError, match=r"not documents; .*Received: 1 with empty \(first at .*:2\)"):
        encode_corpus(corpus, model, tmp_path / "out", strict=True)
    assert not (tmp_path / "out").exists()


def test_a_full_disk_is_named(small_disk: Path, model: Path, atlas: Path) -> None:
    with pytest.raises(StorageError) as error:
        encode_corpus(atlas, model, small_disk / "vectors")
    assert f"Received: '{small_disk / 'vectors'}" in str(error.value)


def test_progress_ends_with_everything(atlas: Path, model: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join((atlas / "corpus.jsonl").read_text().splitlines()[:20]) + '\n{"id": "x"}')
    report = encode_corpus(corpus, model, tmp_path / "out", shard_characters=2000, on_progress=seen.append)
    last = seen[-1]
    assert last.shards == last.all_shards == len(report.manifest.shards) > 1
    assert last.documents == last.all_documents == 20
    assert last.tokens == report.manifest.num_tokens
    assert last.seconds_left == 0
    assert report.manifest.skipped == {"empty": 1}
    assert report.first_skipped == {"empty": "corpus.jsonl:21"}
