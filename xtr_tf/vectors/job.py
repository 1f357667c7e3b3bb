"""Encodes one shard, in the same way for every runner: reads its plan, reuses or encodes vectors, writes it.

This is idempotent: it may run any number of times, on any machine, and the shard is finished exactly once. So
progress is measured by looking at finished shards, and it does not matter where the workers are.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xtr_tf.collections.document import DocumentRecord
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.progress import track
from xtr_tf.vectors.manifest import ShardEntry
from xtr_tf.vectors.plan import WORK_FOLDER, ShardPlan, documents_file, reuse_file
from xtr_tf.vectors.shard import Shard, assemble, read_shard_entry, write_shard
from xtr_tf.vectors.store import TokenVectors

if TYPE_CHECKING:
    from xtr_tf.vectors.document_encoder import DocumentEncoder


@dataclasses.dataclass(frozen=True)
class EncodingJob:
    """A task for a runner, with all that a worker needs to know. Paths are the same on every machine.

    Attributes:
        model: The directory of the encoder.
        out: The directory to write.
        reuse: An earlier directory to copy from, or "".
        config: Settings, resolved.
    """

    model: str
    out: str
    reuse: str
    config: EncodingConfig

    def load(self) -> DocumentEncoder:
        """Loads the encoder, once per process.

        Returns:
            The document encoder.
        """
        from xtr_tf.vectors.document_encoder import DocumentEncoder

        return DocumentEncoder.load(self.model, self.config)

    def run(self, shard: ShardPlan, encoder: DocumentEncoder) -> dict[str, int]:
        """Encodes a shard, unless it is finished.

        Args:
            shard: The plan of the shard.
            encoder: The document encoder.

        Returns:
            Counters of the shard.
        """
        entry = encode_shard(self, shard, encoder)
        counts = {"documents": entry.documents, "passages": entry.passages, "tokens": entry.tokens}
        return {**counts, **entry.counters}

    def finished(self, shard: ShardPlan) -> ShardEntry | None:
        """Returns the entry of a finished shard.

        Args:
            shard: The plan of the shard.

        Returns:
            The entry, or None unless the shard was written from exactly this plan and its files are complete.
        """
        entry = read_shard_entry(Path(self.out), shard.name)
        if entry is None or entry.key != shard.key:
            return None
        try:
            return Shard(Path(self.out) / shard.name, entry).entry
        except InputError:
            return None


def encode_shard(job: EncodingJob, shard: ShardPlan, encoder: DocumentEncoder) -> ShardEntry:
    """Encodes a shard, unless it is finished.

    Args:
        job: The directories and settings.
        shard: The plan of the shard.
        encoder: The document encoder.

    Returns:
        The entry of the finished shard.
    """
    finished = job.finished(shard)
    if finished is not None:
        return finished
    folder = Path(job.out) / WORK_FOLDER
    with documents_file(folder, shard.index).open(encoding="utf-8") as file:
        records = [DocumentRecord.from_json(line) for line in file]
    ordinals = np.load(reuse_file(folder, shard.index)) if job.reuse else np.full(len(records), -1)
    fresh = np.flatnonzero(ordinals < 0)
    encoded = dict(zip(fresh, encoder.encode([records[index].full_text for index in fresh]), strict=True))
    documents = [
        encoded[index] if ordinal < 0 else _open_once(job.reuse).encoded_document(int(ordinal))
        for index, ordinal in enumerate(ordinals)
    ]
    counters = {
        "documents_encoded": len(fresh),
        "documents_reused": len(records) - len(fresh),
        "tokens_encoded": sum(len(document.pieces) + document.pruned for document in encoded.values()),
        "tokens_pruned": sum(document.pruned for document in encoded.values()),
    }
    kept = [record if job.config.keep_text else dataclasses.replace(record, text=None) for record in records]
    arrays = assemble(kept, documents)
    return write_shard(Path(job.out), shard.name, arrays, job.config.dtype, shard.key, counters)


@functools.lru_cache(maxsize=1)
def _open_once(directory: str) -> TokenVectors:
    return TokenVectors.open(directory)


_SECONDS_BETWEEN = 1.0


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a job. Counts are of this run.

    Attributes:
        shards: Number of finished shards.
        all_shards: Number of shards to finish.
        documents: Number of finished documents.
        all_documents: Number of documents to finish.
        tokens: Number of encoded tokens.
        seconds: Time since the start.
    """

    shards: int
    all_shards: int
    documents: int
    all_documents: int
    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Mean number of tokens encoded per second so far."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated time left, by the mean time per document; None before the first shard is finished."""
        if not self.documents:
            return None
        return self.seconds * (self.all_documents - self.documents) / self.documents


@contextmanager
def watching(
    job: EncodingJob, shards: Sequence[ShardPlan], on_progress: Callable[[Progress], None] | None
) -> Iterator[None]:
    """Counts finished documents in a separate thread, and once more at the end.

    Args:
        job: The job to watch.
        shards: The shards of this run.
        on_progress: Called after each count, if not None.

    Yields:
        Nothing; the thread runs until the context ends.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(job, shards, on_progress, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(
    job: EncodingJob,
    shards: Sequence[ShardPlan],
    on_progress: Callable[[Progress], None] | None,
    ended: threading.Event,
) -> None:
    started = time.monotonic()
    waiting = list(shards)
    every = sum(shard.documents for shard in shards)
    finished = documents = tokens = 0
    last = False
    with track("encode", every, "documents") as shown:
        while not last:
            last = ended.wait(_SECONDS_BETWEEN)
            present = {path.name for path in Path(job.out).iterdir()}
            for shard in [shard for shard in waiting if shard.name in present]:
                entry = job.finished(shard)
                if entry is not None:
                    waiting.remove(shard)
                    finished += 1
                    documents += entry.documents
                    tokens += entry.counters.get("tokens_encoded", 0)
            moment = Progress(finished, len(shards), documents, every, tokens, time.monotonic() - started)
            shown.update(done=documents, note=f"{moment.tokens_per_second:,.0f} tokens/s" if tokens else "")
            if on_progress is not None:
                on_progress(moment)
