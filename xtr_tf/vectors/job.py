"""How one shard is encoded, the same for every runner: read its plan, reuse or encode, write it.

Idempotent: however often it runs, and where, the shard ends up finished exactly once. So progress
is watched by looking at what is finished, wherever the workers are.
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
    """What a worker must know, as a task for a runner; paths are the same on every machine.

    Attributes:
        model: The encoder's directory.
        out: The directory to write.
        reuse: An earlier directory to copy from, or "".
        config: Settings, resolved.
    """

    model: str
    out: str
    reuse: str
    config: EncodingConfig

    def load(self) -> DocumentEncoder:
        """The encoder; once per process."""
        from xtr_tf.vectors.document_encoder import DocumentEncoder

        return DocumentEncoder.load(self.model, self.config)

    def run(self, shard: ShardPlan, encoder: DocumentEncoder) -> dict[str, int]:
        """Makes sure that a shard is finished, and returns what was counted."""
        entry = encode_shard(self, shard, encoder)
        counts = {"documents": entry.documents, "passages": entry.passages, "tokens": entry.tokens}
        return {**counts, **entry.counters}

    def finished(self, shard: ShardPlan) -> ShardEntry | None:
        """The shard's entry if it has been written from this very plan and is still whole."""
        entry = read_shard_entry(Path(self.out), shard.name)
        if entry is None or entry.key != shard.key:
            return None
        try:
            return Shard(Path(self.out) / shard.name, entry).entry
        except InputError:
            return None


def encode_shard(job: EncodingJob, shard: ShardPlan, encoder: DocumentEncoder) -> ShardEntry:
    """Makes sure that a shard is finished.

    Args:
        job: Where to, and how.
        shard: Which documents.
        encoder: The encoder.

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
    """A moment of a job; counts are of this run.

    Attributes:
        shards: Finished.
        all_shards: To be finished.
        documents: Finished.
        all_documents: To be finished.
        tokens: Encoded.
        seconds: Since the start.
    """

    shards: int
    all_shards: int
    documents: int
    all_documents: int
    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Mean so far."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the pace of documents so far; None before the first shard is finished."""
        if not self.documents:
            return None
        return self.seconds * (self.all_documents - self.documents) / self.documents


@contextmanager
def watching(
    job: EncodingJob, shards: Sequence[ShardPlan], on_progress: Callable[[Progress], None] | None
) -> Iterator[None]:
    """Counts finished documents from a thread of its own, and once more at the end.

    Args:
        job: Which.
        shards: Those of this run.
        on_progress: Called each time, too.
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
