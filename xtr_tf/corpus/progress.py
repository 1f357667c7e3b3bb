"""How far a job is, seen from its finished shards: the same for every runner."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from xtr_tf.corpus.encoding_job import EncodingJob
from xtr_tf.corpus.encoding_plan import ShardPlan

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
    """Calls `on_progress` from a thread of its own, and once more at the end."""
    if on_progress is None:
        yield
        return
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
    on_progress: Callable[[Progress], None],
    ended: threading.Event,
) -> None:
    started = time.monotonic()
    waiting = list(shards)
    finished = documents = tokens = 0
    last = False
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
        on_progress(
            Progress(
                finished,
                len(shards),
                documents,
                sum(shard.documents for shard in shards),
                tokens,
                time.monotonic() - started,
            )
        )
