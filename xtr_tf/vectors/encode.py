"""A whole encoding job: plans it, encodes unfinished shards, and finishes the directory with its manifest.

`job.py` encodes one shard.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xtr_tf.collections.corpus import Corpus, CorpusReader
from xtr_tf.collections.document import UNKNOWN_LANGUAGE
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.files import is_unfinished, remove_unfinished
from xtr_tf.model.folder import read_manifest
from xtr_tf.vectors.folders import Folder, folder_of
from xtr_tf.vectors.job import EncodingJob, Progress, watching
from xtr_tf.vectors.manifest import MANIFEST_FILE, VectorsManifest
from xtr_tf.vectors.plan import CODING_FOLDER, WORK_FOLDER, EncodingPlan, Reuse, ShardPlan
from xtr_tf.vectors.runners import Runner, run_locally
from xtr_tf.vectors.shard import read_shard_entry

SHARD_CHARACTERS = 1_000_000


@dataclasses.dataclass(frozen=True)
class EncodingReport:
    """The result of a job.

    Attributes:
        manifest: Manifest of the finished directory.
        shards_kept: Number of shards that an earlier run had finished.
        counters: `documents_encoded`, `documents_reused`, `tokens_encoded` and `tokens_pruned` of this run.
        first_skipped: Position of the first skipped record for each reason in `manifest.skipped`.
        seconds: Time spent on encoding.
    """

    manifest: VectorsManifest
    shards_kept: int
    counters: Mapping[str, int]
    first_skipped: Mapping[str, str]
    seconds: float


def encode_corpus(
    corpus: str | Path | Corpus,
    model: str | Path,
    out: str | Path,
    config: EncodingConfig | None = None,
    *,
    language: str = UNKNOWN_LANGUAGE,
    shard_characters: int = SHARD_CHARACTERS,
    reuse: str | Path | Folder | None = None,
    runner: Runner = run_locally,
    on_progress: Callable[[Progress], None] | None = None,
    strict: bool = False,
    coding: Mapping[str, Any] | None = None,
) -> EncodingReport:
    """Encodes a corpus into a directory of token vectors.

    A job that was killed continues when it is called again. Finished shards are kept if the documents, the
    encoder and the settings are the same.

    Args:
        corpus: A path that `CorpusReader` reads, or documents. They are read once.
        model: The directory of an encoder.
        out: The directory to write. It must be new, empty, or of an unfinished job.
        config: How to split, store and prune; the default configuration if None.
        language: Language of documents that name none, if `corpus` is a path.
        shard_characters: Characters per shard, which is the unit of work.
        reuse: An earlier directory. Vectors of unchanged texts are copied from it.
        runner: The runner for the shards: `run_locally`, or a `BeamRunner`.
        on_progress: Called regularly while shards are encoded.
        strict: Whether to refuse a corpus with records that are not documents, before anything is encoded.
        coding: Settings of the codes that the runner stores in place of vectors. None if it stores vectors.

    Returns:
        The manifest of the directory, counters, and the skipped records.

    Raises:
        InputError: If an argument cannot be used. Finished shards are not lost.

    Example:
        >>> encode_corpus("corpus.jsonl", "models/mxtr_tiny", "out/vectors").manifest.num_documents
    """
    encoder = read_manifest(Path(model))
    config = (config or EncodingConfig()).resolved(encoder.tokenizer.document_length)
    settings = config.vector_settings()
    reused = folder_of(reuse) if reuse else None
    earlier = Reuse(reused, encoder.fingerprint, settings) if reused else None
    if isinstance(corpus, str | Path):
        reader: Corpus = CorpusReader(corpus, language, fields=config.fields)
    else:
        reader = corpus
    job = EncodingJob(str(model), str(out), reused, config)
    with _claimed(Path(out)) as directory:
        identity = {"encoder": encoder.fingerprint, "keep_text": config.keep_text, **settings}
        if config.fields:
            identity["fields"] = dict(config.fields)
        if coding is not None:
            identity["coding"] = dict(coding)
        plan = EncodingPlan(directory, identity, shard_characters)
        try:
            shards = plan.write(reader, earlier)
            if strict:
                _check_nothing_skipped(reader)
            _check_not_another_job(directory, shards)
        except BaseException:
            plan.remove()
            raise
        pending = [shard for shard in shards if job.finished(shard) is None]
        started = time.monotonic()
        if pending:
            with watching(job, pending, on_progress):
                runner(job, pending)
        seconds = time.monotonic() - started
        keep = {shard.name for shard in shards} | ({CODING_FOLDER} if coding is not None else set())
        manifest = _close(job, shards, encoder.fingerprint, reader.skipped, language, keep)
    counters: Counter[str] = Counter()
    for shard in pending:
        counters.update(manifest.shards[shard.index].counters)
    return EncodingReport(manifest, len(shards) - len(pending), counters, dict(reader.first_skipped), seconds)


def _close(
    job: EncodingJob,
    shards: Sequence[ShardPlan],
    fingerprint: str,
    skipped: Mapping[str, int],
    language: str,
    keep: Collection[str],
) -> VectorsManifest:
    """Writes the manifest of finished shards and removes all folders except those to keep."""
    directory = Path(job.out)
    entries = []
    for shard in shards:
        entry = job.finished(shard)
        if entry is None:
            raise InputError(
                "A shard was not written although its job ended; run it again, finished shards are kept. "
                f"Received: no {shard.name} in {job.out!r}."
            )
        entries.append(entry)
    for path in directory.iterdir():
        if path.is_dir() and path.name not in keep:
            shutil.rmtree(path)
    manifest = VectorsManifest(
        entries[0].dim,
        entries[0].dtype,
        fingerprint,
        job.config.vector_settings(),
        tuple(entries),
        dict(skipped),
        language,
        dict(job.config.fields),
    )
    manifest.write(directory)
    return manifest


@contextmanager
def _claimed(directory: Path) -> Iterator[Path]:
    """Makes sure that the directory has no other files, and that no other process is writing to it."""
    directory.mkdir(parents=True, exist_ok=True)
    foreign = sorted(path.name for path in directory.iterdir() if not _is_ours(path))
    if foreign:
        raise InputError(
            "Token vectors are written into a directory of their own; choose a new one. "
            f"Received: {str(directory)!r}, which holds {foreign[0]!r}."
        )
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise InputError(
            "Another process is encoding into this directory; wait for it to finish, or choose another one. "
            f"Received: {str(directory)!r}."
        ) from error
    try:
        remove_unfinished(directory)
        yield directory
    finally:
        if not any(directory.iterdir()):
            directory.rmdir()
        os.close(descriptor)


def _check_nothing_skipped(reader: Corpus) -> None:
    if reader.skipped:
        told = "; ".join(
            f"{count} with {reason} (first at {reader.first_skipped[reason]})"
            for reason, count in reader.skipped.items()
        )
        raise InputError(
            "The corpus has records that are not documents; fix them, or encode without --strict. "
            f"Received: {told}."
        )


def _check_not_another_job(directory: Path, shards: Sequence[ShardPlan]) -> None:
    """Refuses to overwrite vectors of other documents, another encoder or other settings, finished or not."""
    planned = {shard.key for shard in shards}
    if not (directory / MANIFEST_FILE).exists():
        for path in sorted(directory.glob("shard-*")):
            entry = read_shard_entry(directory, path.name)
            if entry is not None and entry.key not in planned:
                raise InputError(
                    "This directory holds vectors of another corpus, encoder or settings that was not "
                    "encoded completely; choose a new one, or remove it. "
                    f"Received: {str(directory)!r}, which holds {path.name!r}."
                )
        return
    finished = [shard.key for shard in VectorsManifest.read(directory).shards]
    if finished != [shard.key for shard in shards]:
        raise InputError(
            "This directory holds the finished vectors of another corpus, encoder or settings; choose a new "
            f"one, and give this one as the directory to reuse. Received: {str(directory)!r}."
        )


def _is_ours(path: Path) -> bool:
    own = path.name in (MANIFEST_FILE, WORK_FOLDER, CODING_FOLDER)
    return own or path.name.startswith("shard-") or is_unfinished(path)
