"""Encodes one shard, in the same way for every runner: reads its plan, reuses or encodes vectors, writes it.

This is idempotent: it may run any number of times, on any machine, and the shard is finished exactly once. So
progress is measured by looking at finished shards, and it does not matter where the workers are.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.progress import track
from xtr_tf.vectors.folders import Folder
from xtr_tf.vectors.manifest import MANIFEST_FILE, ShardEntry, VectorsManifest
from xtr_tf.vectors.plan import WORK_FOLDER, ShardPlan, documents_file, planned_documents, reuse_file
from xtr_tf.vectors.shard import EncodedDocument, Shard, ShardArrays, assemble, read_shard_entry, write_shard

if TYPE_CHECKING:
    from xtr_tf.vectors.document_encoder import DocumentEncoder


@dataclasses.dataclass(frozen=True)
class EncodingJob:
    """A task for a runner, with all that a worker needs to know. Paths are the same on every machine.

    Attributes:
        model: The directory of the encoder.
        out: The directory to write.
        reuse: An earlier directory to copy from, or None.
        config: Settings, resolved.
    """

    model: str
    out: str
    reuse: Folder | None
    config: EncodingConfig

    @property
    def directory(self) -> str:
        """The directory that the files of shards are in."""
        return self.out

    @property
    def job(self) -> EncodingJob:
        """The job itself, as of every `JobTask`."""
        return self

    def with_job(self, job: EncodingJob) -> EncodingJob:
        """Returns the task of another job."""
        return job

    def within(self, folder: Path) -> EncodingJob:
        """Returns the same job with its model and shards in a folder of a worker.

        Args:
            folder: The folder.

        Returns:
            The job.
        """
        return dataclasses.replace(self, model=str(folder / "model"), out=str(folder / "out"))

    def shared(self) -> dict[str, str]:
        """Returns the folders that `load` reads, by their places in the folder of a worker."""
        return {"model": self.model}

    def place(self, shard: ShardPlan) -> str:
        """Returns a name for the files of a shard that no other shard of any job has.

        Args:
            shard: The plan of the shard.

        Returns:
            The name.
        """
        return f"{shard.name}-{shard.key}"

    def inputs(self, shard: ShardPlan) -> list[str]:
        """Returns the files of `out` that `run` reads.

        Args:
            shard: The plan of the shard.

        Returns:
            Paths below `out`.
        """
        files = [documents_file, reuse_file] if self.reuse else [documents_file]
        return [file(Path(WORK_FOLDER), shard.index).as_posix() for file in files]

    def output(self, shard: ShardPlan) -> str:
        """Returns the folder of `out` that `run` writes.

        Args:
            shard: The plan of the shard.

        Returns:
            A path below `out`.
        """
        return shard.name

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
        return counts_of(encode_shard(self, shard, encoder))

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


@dataclasses.dataclass(frozen=True)
class JobTask:
    """A task on the shards of an encoding job. `EncodingJob` itself is one, too.

    Attributes:
        job: The job.
    """

    job: EncodingJob

    @property
    def directory(self) -> str:
        """The directory that the files of shards are in."""
        return self.job.directory

    def within(self, folder: Path) -> JobTask:
        """Returns the same task with the files of its job in a folder of a worker."""
        return self.with_job(self.job.within(folder))

    def shared(self) -> dict[str, str]:
        """Returns the folders that `load` reads, by their places in the folder of a worker."""
        return self.job.shared()

    def place(self, shard: ShardPlan) -> str:
        """Returns a name for the files of a shard that no other shard of any job has."""
        return self.job.place(shard)

    def with_job(self, job: EncodingJob) -> JobTask:
        """Returns the same task of another job.

        Args:
            job: The other job.

        Returns:
            The task.
        """
        return dataclasses.replace(self, job=job)

    def inputs(self, shard: ShardPlan) -> list[str]:
        """Returns the files that `run` reads, below the directory of the job."""
        return self.job.inputs(shard)

    def output(self, shard: ShardPlan) -> str:
        """Returns the file or folder that `run` writes, below the directory of the job."""
        return self.job.output(shard)


def counts_of(entry: ShardEntry) -> dict[str, int]:
    """Returns the counters of a finished shard.

    Args:
        entry: The entry of the shard.

    Returns:
        Counters by name.
    """
    counts = {"documents": entry.documents, "passages": entry.passages, "tokens": entry.tokens}
    return {**counts, **entry.counters}


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
    arrays, counters = encode_documents(job, shard, encoder)
    return write_shard(Path(job.out), shard.name, arrays, job.config.dtype, shard.key, counters)


def encode_documents(
    job: EncodingJob, shard: ShardPlan, encoder: DocumentEncoder
) -> tuple[ShardArrays, dict[str, int]]:
    """Encodes the documents of a shard, except those whose vectors are reused.

    Args:
        job: The directories and settings.
        shard: The plan of the shard.
        encoder: The document encoder.

    Returns:
        The arrays of the shard, and its counters.
    """
    folder = Path(job.out) / WORK_FOLDER
    records = planned_documents(folder, shard.index)
    ordinals = np.load(reuse_file(folder, shard.index)) if job.reuse else np.full(len(records), -1)
    earlier = EarlierVectors(job.reuse.without_copies()) if job.reuse else None
    fresh = np.flatnonzero(ordinals < 0)
    encoded = dict(zip(fresh, encoder.encode([records[index].full_text for index in fresh]), strict=True))
    documents = [
        encoded[index] if earlier is None or ordinal < 0 else earlier.encoded_document(int(ordinal))
        for index, ordinal in enumerate(ordinals)
    ]
    counters = {
        "documents_encoded": len(fresh),
        "documents_reused": len(records) - len(fresh),
        "tokens_encoded": sum(len(document.pieces) + document.pruned for document in encoded.values()),
        "tokens_pruned": sum(document.pruned for document in encoded.values()),
    }
    kept = [record if job.config.keep_text else dataclasses.replace(record, text=None) for record in records]
    return assemble(kept, documents), counters


class EarlierVectors:
    """Documents of an earlier directory of token vectors, of which only the shards that are read must exist.

    Args:
        directory: The directory.
    """

    def __init__(self, directory: Folder) -> None:
        self._directory = directory
        self._entries = VectorsManifest.read(directory.file(MANIFEST_FILE).parent).shards
        self._ends = np.cumsum([entry.documents for entry in self._entries])
        self._shards: dict[int, Shard] = {}

    def encoded_document(self, ordinal: int) -> EncodedDocument:
        """Returns the tokens of a document, with exactly the stored vectors.

        Args:
            ordinal: Ordinal of the document.

        Returns:
            The tokens.
        """
        index = int(np.searchsorted(self._ends, ordinal, side="right"))
        entry = self._entries[index]
        if index not in self._shards:
            self._shards[index] = Shard(self._directory.below(entry.name), entry)
        return self._shards[index].encoded_document(ordinal - int(self._ends[index]) + entry.documents)

    def shards_of(self, ordinals: np.ndarray) -> list[str]:
        """Returns the names of the shards of documents.

        Args:
            ordinals: `[documents]` integers, -1 for documents that are not in the directory.

        Returns:
            Names of folders, each once.
        """
        found = np.unique(np.searchsorted(self._ends, ordinals[ordinals >= 0], side="right"))
        return [self._entries[index].name for index in found]


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
