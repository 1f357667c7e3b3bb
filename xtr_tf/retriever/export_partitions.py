"""Exports one model per partition of an index, and `collection.json` next to them: all of it, or nothing.

All of them have the same encoder, leaves, codebooks and document frequencies. So their token hits can be
merged into the result of one index (`xtr_tf/scoring/merging.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from xtr_tf.config.retrieval import SearchDefaults
from xtr_tf.errors import InputError
from xtr_tf.files import writing
from xtr_tf.index.folder import TokenIndex
from xtr_tf.model.folder import load_encoder, read_manifest
from xtr_tf.progress import track
from xtr_tf.retriever.assembly import assemble, check_origin
from xtr_tf.retriever.collection_file import Collection, PartitionEntry
from xtr_tf.retriever.export import export_retriever
from xtr_tf.retriever.model_card import MODEL_CARD_FILE
from xtr_tf.retriever.partitions import split
from xtr_tf.retriever.versions import versions_in
from xtr_tf.vectors.folders import Folder
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.store import TokenVectors


@dataclasses.dataclass(frozen=True)
class PartitionExport:
    """All that the export of a partition needs to know. It may run in its own process.

    Attributes:
        encoder: Directory of the encoder.
        vectors: Token vectors of the whole corpus.
        index: Their index.
        count: Number of all partitions.
        defaults: Default parameters of requests.
        store_text: Which texts the models return, as for `assemble`.
        keep_spans: Whether they store pieces and spans of tokens.
    """

    encoder: str
    vectors: str | Folder
    index: str | Folder
    count: int
    defaults: SearchDefaults | None = None
    store_text: str = "full"
    keep_spans: bool = True

    def run(self, number: int, base: Path, version: int) -> PartitionEntry:
        """Writes `<base>/<version>/` with one partition, if it passes the gate.

        Args:
            number: Number of the partition, from 0.
            base: Base directory of its model.
            version: Version number.

        Returns:
            The entry of the partition in `collection.json`.

        Raises:
            InputError: If the partition cannot be exported.
        """
        index = TokenIndex.open(self.index)
        assembly = assemble(
            read_manifest(Path(self.encoder)),
            *load_encoder(self.encoder),
            TokenVectors.open(self.vectors),
            index,
            self.defaults,
            self.store_text,
            self.keep_spans,
            partition=split(index.document_offsets, self.count)[number],
        )
        export_retriever(assembly.retriever, base, assembly.card, version)
        corpus = assembly.card.corpus
        return PartitionEntry(
            base.name,
            version,
            assembly.retriever.identity.partition,
            corpus["documents"],
            corpus["tokens"],
            corpus["languages"],
        )


@dataclasses.dataclass(frozen=True)
class ExportTask:
    """The partitions of an export as a task for a runner. Its workers must see the same folders.

    Attributes:
        job: What to export.
        staging: Folder for finished partitions.
        version: Version number of all partitions.
    """

    job: PartitionExport
    staging: str
    version: int

    def load(self) -> None:
        """Loads nothing: a model takes several times the memory of the parts that partitions share."""

    def run(self, number: int, loaded: None) -> dict[str, int]:
        """Exports a partition, unless it exists. It appears when it is complete, with its entry.

        Args:
            number: Number of the partition, from 0.
            loaded: Not used.

        Returns:
            `partitions_exported`, to be summed over partitions.
        """
        final = self.folder(number)
        if not final.exists():
            with tempfile.TemporaryDirectory(dir=self.staging, prefix=".partition-") as work:
                base = Path(work) / final.name
                entry = self.job.run(number, base, self.version)
                (base / _ENTRY_FILE).write_text(json.dumps(dataclasses.asdict(entry)), encoding="utf-8")
                try:
                    base.rename(final)
                except OSError:
                    if not final.exists():  # otherwise another worker exported the same partition first
                        raise
        return {"partitions_exported": 1}

    def folder(self, number: int) -> Path:
        """Returns the folder of a finished partition.

        Args:
            number: Number of the partition, from 0.

        Returns:
            The path of the folder.
        """
        return Path(self.staging) / partition_name(number)

    def entry(self, number: int) -> PartitionEntry:
        """Returns the entry of a finished partition for `collection.json`.

        Args:
            number: Number of the partition, from 0.

        Returns:
            The entry.
        """
        return PartitionEntry(**json.loads((self.folder(number) / _ENTRY_FILE).read_bytes()))


_ENTRY_FILE = "entry.json"


def export_partitions(
    job: PartitionExport,
    base: str | Path,
    version: int | None = None,
    processes: int = 1,
    runner: Runner | None = None,
) -> Collection:
    """Writes `<base>/partition-0/<version>/` and so on, and `<base>/collection.json` last.

    Args:
        job: What to export.
        base: Folder of the collection.
        version: Version number; one more than the largest of any partition if None.
        processes: Number of partitions to export at the same time. Each needs several times the memory of its
            model.
        runner: A runner to export them instead, whose workers see the folders of `job` and `base`.

    Returns:
        The content of `collection.json`.

    Raises:
        InputError: If the inputs do not belong together, a partition would be empty or too large, the version
            exists, or a partition did not pass the gate. Nothing is left behind.

    Example:
        >>> job = PartitionExport("models/mxtr_tiny", "out/vectors", "out/index", count=4)
        >>> export_partitions(job, "out/collection", processes=2).documents
    """
    base = Path(base)
    manifest, index = read_manifest(Path(job.encoder)), TokenIndex.open(job.index)
    check_origin(manifest.fingerprint, TokenVectors.open(job.vectors), index)
    split(index.document_offsets, job.count)
    numbers, version = range(job.count), _free_version(base, version)
    with writing(base):
        base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=base, prefix=".export-") as staging:
        task = ExportTask(job, str(Path(staging).resolve()), version)
        with track("export partitions", job.count, "partitions") as progress:
            if runner is not None:
                runner(task, numbers)
            else:
                for _ in _run_all(task, numbers, processes):
                    progress.advance(1)
        folders = [task.folder(number) for number in numbers]
        entries = tuple(task.entry(number) for number in numbers)
        card = json.loads((folders[0] / str(version) / MODEL_CARD_FILE).read_bytes())
        collection = Collection(version, manifest.fingerprint, card["index"]["quantizer"], entries)
        with _moved(folders, base, version):
            collection.write(base)
    return collection


def partition_name(number: int) -> str:
    """Returns the folder name of a partition's model, next to `collection.json`.

    Args:
        number: Number of the partition, from 0.

    Returns:
        The name.
    """
    return f"partition-{number}"


def _run_all(task: ExportTask, numbers: Sequence[int], processes: int) -> Iterator[Any]:
    if processes == 1:
        yield from (task.run(number, None) for number in numbers)
        return
    # TensorFlow must not be forked after its threads have started.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context) as pool:
        yield from pool.map(task.run, numbers, [None] * len(numbers))


def _free_version(base: Path, version: int | None) -> int:
    taken = {number for folder in base.glob("partition-*") for number in versions_in(folder)}
    if version is None:
        return max(taken, default=0) + 1
    if version in taken:
        raise InputError(
            f"This version exists; choose another number, or none for the next. Received: {version} in "
            f"{str(base)!r}."
        )
    return version


@contextlib.contextmanager
def _moved(folders: Sequence[Path], base: Path, version: int) -> Iterator[None]:
    """Moves all versions to where servers look for them, and removes them again if what follows fails."""
    moved: list[Path] = []
    try:
        for folder in folders:
            final = base / folder.name / str(version)
            final.parent.mkdir(exist_ok=True)
            (folder / str(version)).rename(final)
            moved.append(final)
        yield
    except BaseException:
        for final in moved:
            shutil.rmtree(final, ignore_errors=True)
        raise
