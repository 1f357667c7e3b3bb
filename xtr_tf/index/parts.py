"""Builds an index on many machines: each shard of the vectors becomes a part, then the parts are joined.

Leaves and codebooks are trained once, on a sample of all shards. The files of the result are the same as
those that `build_index` makes in one process. Vectors on a remote file system are read by the workers only,
one shard at a time. Knows nothing about how a runner reaches its workers.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory, write_atomically
from xtr_tf.index.folder import TokenIndex, stored_config
from xtr_tf.index.joining import IndexPart, join_indexes
from xtr_tf.index.part_tasks import (
    TRAINED_FOLDER,
    IndexingJob,
    SampleReading,
    read_trained,
    write_trained,
)
from xtr_tf.index.quantizer import sample_of, train_on_sample
from xtr_tf.index.rules import with_kind
from xtr_tf.index.vector_source import require_tokens
from xtr_tf.vectors.folders import Folder
from xtr_tf.vectors.manifest import MANIFEST_FILE
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.store import TokenVectors

_IDENTITY_FILE = "identity"


def build_in_parts(
    vectors: str | Path | Folder, directory: str | Path, config: IndexConfig, runner: Runner
) -> TokenIndex:
    """Builds an index with a runner.

    A build that was killed continues when it is called again. Until the end, finished parts are kept next to
    the directory, and reused if they were built from the same vectors and configuration.

    Args:
        vectors: The directory of token vectors.
        directory: The directory to write, which appears when it is complete. An existing one is replaced.
        config: The kind of index and its parameters.
        runner: The runner that builds the parts; a `StagedRunner` if the vectors are remote.

    Returns:
        The opened index.

    Raises:
        InputError: If there are no tokens, or if a part is damaged.
    """
    corpus, directory = TokenVectors.open(vectors), Path(directory)
    filled = [index for index, shard in enumerate(corpus.shards) if shard.entry.tokens]
    require_tokens(len(filled))
    config = with_kind(config, corpus.num_tokens)
    parts = directory.with_name(f".{directory.name}.parts")
    identity = _prepare(parts, corpus, config)
    if config.kind != "exact" and not (parts / TRAINED_FOLDER).exists():
        sample = take_with(runner, corpus, sample_of(corpus.document_offsets, config))
        write_trained(parts, train_on_sample(sample, corpus.num_tokens, config))
    quantizer = read_trained(parts, config)
    coded = hashlib.sha256(f"{identity} {quantizer.fingerprint if quantizer else ''}".encode()).hexdigest()
    job = IndexingJob(corpus.files, str(parts), coded, config)
    pending = [index for index in filled if not job.part(index).exists()]
    if pending:
        runner(job, pending)
    joined = [IndexPart(checked_part(job.part(index))) for index in filled]
    with atomic_directory(directory, overwrite=True) as aside:
        join_indexes(joined, corpus, aside, quantizer)
    shutil.rmtree(parts)
    return TokenIndex.open(directory)


def take_with(runner: Runner, corpus: TokenVectors, tokens: np.ndarray) -> np.ndarray:
    """Returns the vectors of some tokens. Those of remote shards are read by workers.

    Args:
        runner: The runner of the workers.
        corpus: The vectors.
        tokens: `[count]` integers, token ordinals, ascending.

    Returns:
        `[count, dim]` float32.
    """
    if corpus.files.is_here:
        return corpus.take(tokens)
    digest = hashlib.sha256(corpus.files.file(MANIFEST_FILE).read_bytes())
    digest.update(np.ascontiguousarray(tokens).data)
    ends = np.cumsum([shard.entry.tokens for shard in corpus.shards])
    sampled = []
    with tempfile.TemporaryDirectory() as folder:
        task = SampleReading(corpus.files, folder, digest.hexdigest())
        for shard, own in enumerate(np.split(tokens, np.searchsorted(tokens, ends[:-1]))):
            if len(own):
                first = ends[shard] - corpus.shards[shard].entry.tokens
                np.save(Path(folder, task.inputs(shard)[0]), own - first)
                sampled.append(shard)
        runner(task, sampled)
        return np.concatenate([np.load(Path(folder, task.output(shard))) for shard in sampled])


def checked_part(part: Path) -> TokenIndex:
    """Opens a part. A damaged part is removed, so that the next run builds it again.

    Args:
        part: The folder of the part.

    Returns:
        The part.

    Raises:
        InputError: If a file of the part is damaged.
    """
    try:
        index = TokenIndex.open(part)
        index.verify()
    except InputError as error:
        shutil.rmtree(part)
        raise InputError(
            "A part of the index was damaged, and was removed; run the build again, which writes the missing "
            f"part. Received: {str(part)!r}."
        ) from error
    return index


def _prepare(parts: Path, corpus: TokenVectors, config: IndexConfig) -> str:
    """Creates the folder of parts, and removes parts of other vectors or another configuration.

    Returns a hash of vectors and configuration.
    """
    content = corpus.files.file(MANIFEST_FILE).read_bytes()
    settings = json.dumps(stored_config(config), sort_keys=True).encode()
    identity = hashlib.sha256(content + settings).hexdigest()
    file = parts / _IDENTITY_FILE
    if parts.exists() and not (file.is_file() and file.read_text() == identity):
        shutil.rmtree(parts)
    parts.mkdir(parents=True, exist_ok=True)
    write_atomically(file, identity.encode())
    return identity
