"""Encodes and codes a corpus in one pass, so that the float vectors of all tokens are never stored.

    1. The tokens of all documents are counted: the number of leaves and the sample depend on it.
    2. The documents of the sample are encoded, and leaves and codebooks are trained on it.
    3. Every shard is encoded and becomes a part of the index in the same step. Its vectors are dropped.
    4. The parts are joined.

Steps 1 to 3 are a `OnePass`, a runner for `encode_corpus`. Each of them is work on shards, for any runner,
and continues where it was interrupted. The files of the index are those that `build_index` makes from stored
vectors with the same leaves and codebooks. The sample is encoded in other batches than the corpus, so its
vectors are those that would be stored up to rounding.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory, write_atomically
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex, stored_config
from xtr_tf.index.joining import IndexPart, join_indexes
from xtr_tf.index.part_tasks import read_trained, write_trained
from xtr_tf.index.parts import checked_part
from xtr_tf.index.quantizer import TokenQuantizer, sample_of, train_on_sample
from xtr_tf.index.rules import with_kind
from xtr_tf.index.vector_source import ArrayVectors
from xtr_tf.model.folder import read_manifest
from xtr_tf.vectors.folders import Folder, folder_of
from xtr_tf.vectors.job import EncodingJob, JobTask, counts_of, encode_documents
from xtr_tf.vectors.plan import CODING_FOLDER, WORK_FOLDER, ShardPlan, planned_documents, read_plan
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.shard import ShardArrays, write_shard
from xtr_tf.vectors.store import TokenVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xtr_tf.vectors.document_encoder import DocumentEncoder, TokenCounter

_CONFIG_FILE = "index.json"


@dataclasses.dataclass(frozen=True)
class OnePass:
    """Runs an encoding job so that its shards hold parts of an index in place of vectors.

    Attributes:
        runner: The runner of the work on shards.
        config: The kind of index and its parameters.
        quantizer: Leaves and codebooks of an earlier index, to use instead of training new ones.

    Example:
        >>> one_pass = OnePass(run_locally, IndexConfig(kind="scann"))
        >>> encode_corpus("corpus.jsonl", "model", "out/vectors", runner=one_pass, coding=one_pass.settings)
        >>> join_coded("out/vectors", "out/index")
    """

    runner: Runner
    config: IndexConfig
    quantizer: TokenQuantizer | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the codes, the `coding` of `encode_corpus`."""
        trained = {"trained": self.quantizer.fingerprint} if self.quantizer else {}
        return {**stored_config(self.config), **trained}

    def __call__(self, job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
        """Encodes and codes the shards.

        Args:
            job: The encoding job.
            shards: The shards to encode.

        Raises:
            InputError: If tokens cannot be counted before they are encoded.
        """
        folder = Path(job.out) / CODING_FOLDER
        plan = read_plan(Path(job.out) / WORK_FOLDER)
        identity = hashlib.sha256(" ".join(shard.key for shard in plan).encode()).hexdigest()
        found = _read_config(folder)
        if found is None or found[0] != identity:
            shutil.rmtree(folder, ignore_errors=True)
            with atomic_directory(folder) as aside:
                config = self._prepare(job, plan, aside)
                content = {"identity": identity, "config": dataclasses.asdict(config)}
                write_atomically(aside / _CONFIG_FILE, json.dumps(content).encode())
        self.runner(CodedEncoding(job), shards)

    def _prepare(self, job: EncodingJob, plan: Sequence[ShardPlan], folder: Path) -> IndexConfig:
        """Writes leaves and codebooks, and returns the configuration with its kind."""
        if self.quantizer is not None:
            write_trained(folder, self.quantizer)
            return self.config
        if job.config.min_norm:
            raise InputError(
                "Without stored vectors, tokens are counted before they are encoded, so none can be left out "
                f"by its norm; keep vectors, or leave out `min_norm`. Received: {job.config.min_norm}."
            )
        counts = self._results(TokenCount(job), plan)
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        config = with_kind(self.config, int(offsets[-1]))
        if config.kind != "exact":
            sample = self._sample(job, plan, counts, sample_of(offsets, config))
            write_trained(folder, train_on_sample(sample, int(offsets[-1]), config))
        return config

    def _sample(
        self, job: EncodingJob, plan: Sequence[ShardPlan], counts: list[np.ndarray], tokens: np.ndarray
    ) -> np.ndarray:
        """Encodes the sampled tokens, given by their ordinals."""
        task = SampleEncoding(job)
        ends = np.cumsum([count.sum() for count in counts])
        sampled = []
        by_shard = np.split(tokens, np.searchsorted(tokens, ends[:-1]))
        for shard, count, own in zip(plan, counts, by_shard, strict=True):
            if len(own):
                chosen = np.zeros(int(count.sum()), bool)
                chosen[own - (ends[shard.index] - len(chosen))] = True
                np.save(task.chosen(shard), chosen)
                sampled.append(shard)
        return np.concatenate(self._results(task, sampled))

    def _results(self, task: _ArrayTask, shards: Sequence[ShardPlan]) -> list[np.ndarray]:
        """Runs a task on the shards that have no result yet, and loads the results of all."""
        pending = [shard for shard in shards if not task.result(shard).exists()]
        if pending:
            self.runner(task, pending)
        return [np.load(task.result(shard)) for shard in shards]


@dataclasses.dataclass(frozen=True)
class _ArrayTask(JobTask):
    """A task whose result is one array per shard.

    Attributes:
        kind: What the array holds, a part of its file's name.
    """

    kind: ClassVar[str]

    def output(self, shard: ShardPlan) -> str:
        """Returns the file of the result, below the directory of the job."""
        return _name(self.kind, shard)

    def result(self, shard: ShardPlan) -> Path:
        """Returns the path of the result.

        Args:
            shard: The plan of the shard.

        Returns:
            The path.
        """
        return Path(self.job.out) / self.output(shard)


@dataclasses.dataclass(frozen=True)
class TokenCount(_ArrayTask):
    """The task that counts the tokens of each document: `[documents]` int64."""

    kind = "counts"

    def load(self) -> TokenCounter:
        """Loads the tokenizer, once per process.

        Returns:
            The counter.
        """
        from xtr_tf.vectors.document_encoder import TokenCounter

        return TokenCounter.load(self.job.model, self.job.config)

    def run(self, shard: ShardPlan, counter: TokenCounter) -> dict[str, int]:
        """Counts the tokens of a shard.

        Args:
            shard: The plan of the shard.
            counter: The counter.

        Returns:
            `tokens_counted`.
        """
        records = planned_documents(Path(self.job.out) / WORK_FOLDER, shard.index)
        counts = counter.count([record.full_text for record in records])
        _save(self.result(shard), counts)
        return {"tokens_counted": int(counts.sum())}


@dataclasses.dataclass(frozen=True)
class SampleEncoding(_ArrayTask):
    """The task that encodes the sampled tokens: `[sampled tokens, dim]` float32."""

    kind = "sample"

    def load(self) -> DocumentEncoder:
        """Loads the encoder, once per process.

        Returns:
            The document encoder.
        """
        return self.job.load()

    def run(self, shard: ShardPlan, encoder: DocumentEncoder) -> dict[str, int]:
        """Encodes the documents of a shard that have sampled tokens, and keeps the vectors of these tokens.

        Args:
            shard: The plan of the shard.
            encoder: The document encoder.

        Returns:
            `tokens_sampled`.
        """
        records = planned_documents(Path(self.job.out) / WORK_FOLDER, shard.index)
        counts, chosen = np.load(Path(self.job.out) / _name("counts", shard)), np.load(self.chosen(shard))
        by_document = np.split(chosen, np.cumsum(counts)[:-1])
        sampled = [index for index, tokens in enumerate(by_document) if tokens.any()]
        encoded = encoder.encode([records[index].full_text for index in sampled])
        vectors = [
            document.vectors[by_document[index]].astype(np.float32)
            for index, document in zip(sampled, encoded, strict=True)
        ]
        _save(self.result(shard), np.concatenate(vectors))
        return {"tokens_sampled": int(chosen.sum())}

    def inputs(self, shard: ShardPlan) -> list[str]:
        """Returns the files that `run` reads, below the directory of the job."""
        return [*super().inputs(shard), _name("counts", shard), _name("chosen", shard)]

    def chosen(self, shard: ShardPlan) -> Path:
        """Returns the file that says which tokens are sampled: `[tokens]` bool.

        Args:
            shard: The plan of the shard.

        Returns:
            The path.
        """
        return Path(self.job.out) / _name("chosen", shard)


class _Coder(NamedTuple):
    """What a worker needs to encode and code a shard."""

    encoder: DocumentEncoder
    fingerprint: str
    config: IndexConfig
    quantizer: TokenQuantizer | None


@dataclasses.dataclass(frozen=True)
class CodedEncoding(JobTask):
    """The task that encodes a shard and makes it a part of the index.

    The directory of the job already has the trained leaves and codebooks.
    """

    def shared(self) -> dict[str, str]:
        """Returns the folders that `load` reads, by their places in the folder of a worker."""
        return {**super().shared(), f"out/{CODING_FOLDER}": f"{self.job.out}/{CODING_FOLDER}"}

    def load(self) -> _Coder:
        """Loads the encoder, and leaves and codebooks, once per process.

        Returns:
            The second argument of `run`.
        """
        fingerprint = read_manifest(Path(self.job.model)).fingerprint
        return _Coder(self.job.load(), fingerprint, *coding_of(Path(self.job.out)))

    def run(self, shard: ShardPlan, coder: _Coder) -> dict[str, int]:
        """Encodes and codes a shard, unless it is finished.

        Args:
            shard: The plan of the shard.
            coder: The result of `load`.

        Returns:
            Counters of the shard.
        """
        finished = self.job.finished(shard)
        if finished is not None:
            return counts_of(finished)
        arrays, counters = encode_documents(self.job, shard, coder.encoder)

        def code(folder: Path, vectors: np.ndarray) -> None:
            if len(vectors):
                source = _Source(arrays, vectors, coder.fingerprint)
                build_index(source, folder, coder.config, coder.quantizer, is_part=True)

        return counts_of(
            write_shard(
                Path(self.job.out), shard.name, arrays, self.job.config.dtype, shard.key, counters, code
            )
        )


class _Source(ArrayVectors):
    """The vectors of a shard in memory, with their pieces."""

    def __init__(self, arrays: ShardArrays, vectors: np.ndarray, encoder_fingerprint: str) -> None:
        super().__init__(vectors, arrays.document_of_token, len(arrays.documents), encoder_fingerprint)
        self.pieces = arrays.pieces


def join_coded(vectors: str | Path | Folder, directory: str | Path) -> TokenIndex:
    """Joins the parts of a corpus that was encoded and coded in one pass.

    Args:
        vectors: The directory of the corpus.
        directory: The directory to write, which appears when it is complete. An existing one is replaced.

    Returns:
        The opened index.

    Raises:
        InputError: If a shard has no part, or if a part is damaged.
    """
    corpus, directory = TokenVectors.open(vectors), Path(directory)
    _, quantizer = coding_of(corpus.files)
    parts = coded_parts(corpus)
    with atomic_directory(directory, overwrite=True) as aside:
        join_indexes(parts, corpus, aside, quantizer)
    return TokenIndex.open(directory)


def coded_parts(corpus: TokenVectors) -> list[IndexPart]:
    """Returns the parts of a corpus that was encoded and coded in one pass.

    Args:
        corpus: The corpus.

    Returns:
        The parts of all shards with tokens, in order.

    Raises:
        InputError: If a shard has no part, or if a part is damaged.
    """
    return [IndexPart(checked_part(shard.codes())) for shard in corpus.shards if shard.entry.tokens]


def is_coded(vectors: Path | Folder) -> bool:
    """Returns whether all documents of a corpus were encoded and coded in one pass.

    Args:
        vectors: The directory of the corpus.

    Returns:
        True if `join_coded` can make its index.
    """
    return (folder_of(vectors).folder(CODING_FOLDER) / _CONFIG_FILE).is_file()


def coding_of(vectors: Path | Folder) -> tuple[IndexConfig, TokenQuantizer | None]:
    """Reads how the tokens of a corpus were coded.

    Args:
        vectors: The directory of a corpus that was encoded and coded in one pass.

    Returns:
        The configuration of the index, and its quantiser; None for an exact index.

    Raises:
        InputError: If the corpus was not coded.
    """
    corpus = folder_of(vectors)
    folder = corpus.folder(CODING_FOLDER)
    found = _read_config(folder)
    if found is None:
        raise InputError(
            "This corpus was not coded while it was encoded; build its index from vectors. "
            f"Received: {corpus.address!r}."
        )
    return found[1], read_trained(folder, found[1])


def _read_config(folder: Path) -> tuple[str, IndexConfig] | None:
    path = folder / _CONFIG_FILE
    if not path.is_file():
        return None
    content = json.loads(path.read_bytes())
    return content["identity"], IndexConfig(**content["config"])


def _name(kind: str, shard: ShardPlan) -> str:
    return f"{WORK_FOLDER}/{kind}-{shard.key}.npy"


def _save(path: Path, array: np.ndarray) -> None:
    """Writes an array completely or not at all."""
    aside = path.with_suffix(".partial.npy")
    np.save(aside, array, allow_pickle=False)
    aside.replace(path)
