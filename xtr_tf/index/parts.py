"""Builds an index on many machines: each shard of the vectors becomes a part, then the parts are joined.

Leaves and codebooks are trained once, on a sample of all shards. The files of the result are the same as
those that `build_index` makes in one process. Knows nothing about how a runner reaches its workers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory, write_atomically
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex, stored_config
from xtr_tf.index.joining import IndexPart, join_indexes
from xtr_tf.index.quantizer import TokenQuantizer, train_quantizer
from xtr_tf.index.rules import with_kind
from xtr_tf.index.vector_source import require_tokens
from xtr_tf.vectors.manifest import MANIFEST_FILE
from xtr_tf.vectors.runners import Runner
from xtr_tf.vectors.store import TokenVectors

_IDENTITY_FILE = "identity"
#: The folder next to the parts with the arrays that all of them share.
TRAINED_FOLDER = "trained"


@dataclasses.dataclass(frozen=True)
class IndexingJob:
    """A task for a runner, with all that a worker needs to know. Paths are the same on every machine.

    Attributes:
        vectors: The directory of token vectors.
        parts: Folder for the parts. It already has the trained leaves and codebooks.
        config: Configuration of the index.
    """

    vectors: str
    parts: str
    config: IndexConfig

    def load(self) -> TokenQuantizer | None:
        """Loads leaves and codebooks, once per process.

        Returns:
            The quantiser; None for an exact index.
        """
        return read_trained(Path(self.parts), self.config)

    def run(self, shard: int, quantizer: TokenQuantizer | None) -> dict[str, int]:
        """Builds the part of a shard, unless it exists.

        Args:
            shard: Number of the shard.
            quantizer: Leaves and codebooks that all parts share; None for an exact index.

        Returns:
            `tokens_indexed`, to be summed over shards.
        """
        if not self.part(shard).exists():
            source = TokenVectors.open(self.vectors).part(shard, shard + 1)
            build_index(source, self.part(shard), self.config, quantizer, is_part=True)
        return {"tokens_indexed": TokenIndex.open(self.part(shard)).num_tokens}

    def part(self, shard: int) -> Path:
        """Returns the folder of a shard's part. It appears when it is complete.

        Args:
            shard: Number of the shard.

        Returns:
            The path of the folder.
        """
        return Path(self.parts) / f"part-{shard:05d}"


def build_in_parts(
    vectors: str | Path, directory: str | Path, config: IndexConfig, runner: Runner
) -> TokenIndex:
    """Builds an index with a runner.

    A build that was killed continues when it is called again. Until the end, finished parts are kept next to
    the directory, and reused if they were built from the same vectors and configuration.

    Args:
        vectors: The directory of token vectors.
        directory: The directory to write, which appears when it is complete. An existing one is replaced.
        config: The kind of index and its parameters.
        runner: The runner that builds the parts.

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
    _prepare(parts, corpus, config)
    job = IndexingJob(str(vectors), str(parts), config)
    if config.kind != "exact" and not (parts / TRAINED_FOLDER).exists():
        write_trained(parts, train_quantizer(corpus, config))
    pending = [index for index in filled if not job.part(index).exists()]
    if pending:
        runner(job, pending)
    joined = [IndexPart(checked_part(job.part(index))) for index in filled]
    with atomic_directory(directory, overwrite=True) as aside:
        join_indexes(joined, corpus, aside, job.load())
    shutil.rmtree(parts)
    return TokenIndex.open(directory)


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


def write_trained(parts: Path, quantizer: TokenQuantizer) -> None:
    """Writes leaves and codebooks next to the parts that will share them.

    Args:
        parts: Folder of the parts.
        quantizer: Leaves and codebooks.
    """
    with atomic_directory(parts / TRAINED_FOLDER, overwrite=True) as folder:
        quantizer.write(folder)


def read_trained(parts: Path, config: IndexConfig) -> TokenQuantizer | None:
    """Reads what `write_trained` wrote.

    Args:
        parts: Folder of the parts.
        config: Configuration of the index.

    Returns:
        Leaves and codebooks; None for an exact index.
    """
    return None if config.kind == "exact" else TokenQuantizer.read(parts / TRAINED_FOLDER, config)


def _prepare(parts: Path, corpus: TokenVectors, config: IndexConfig) -> None:
    """Creates the folder of parts, and removes parts of other vectors or another configuration."""
    content = (corpus.directory / MANIFEST_FILE).read_bytes()
    settings = json.dumps(stored_config(config), sort_keys=True).encode()
    identity = hashlib.sha256(content + settings).hexdigest().encode()
    file = parts / _IDENTITY_FILE
    if parts.exists() and not (file.is_file() and file.read_bytes() == identity):
        shutil.rmtree(parts)
    parts.mkdir(parents=True, exist_ok=True)
    write_atomically(file, identity)
