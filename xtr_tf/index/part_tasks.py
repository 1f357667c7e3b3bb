"""Makes a part of an index from one shard of the vectors, in the same way for every runner.

A task may run any number of times for a shard, on any machine (see `ShardTask`). It reads only its shard, and
says which files it reads and writes, so that a `StagedRunner` can run it where those are not. `parts.py` is
the whole build.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TypeVar

import numpy as np

from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.files import atomic_directory
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.quantizer import TokenQuantizer
from xtr_tf.vectors.folders import Folder
from xtr_tf.vectors.store import TokenVectors

#: The folder next to the parts with the arrays that all of them share.
TRAINED_FOLDER = "trained"


@dataclasses.dataclass(frozen=True)
class _PartTask:
    """A task on the shards of token vectors, which are given by their numbers.

    Attributes:
        vectors: The directory of token vectors.
        parts: Folder for the parts, and for what they are made from.
        identity: Hash of all that the results depend on.
    """

    vectors: Folder
    parts: str
    identity: str

    @property
    def directory(self) -> str:
        """The directory that the files of shards are in."""
        return self.parts

    def within(self: Task, folder: Path) -> Task:
        """Returns the same task with its files in a folder of a worker.

        Args:
            folder: The folder.

        Returns:
            The task.
        """
        return dataclasses.replace(self, parts=str(folder))

    def shared(self) -> dict[str, str]:
        """Returns the folders that `load` reads, by their places in the folder of a worker."""
        return {}

    def place(self, shard: int) -> str:
        """Returns a name for the files of a shard that those of other vectors or settings do not have.

        Args:
            shard: Number of the shard.

        Returns:
            The name.
        """
        return f"index-{self.identity}"

    def inputs(self, shard: int) -> list[str]:
        """Returns the files that `run` reads, below the folder of parts.

        Args:
            shard: Number of the shard.

        Returns:
            Their paths.
        """
        return []

    def source(self, shard: int) -> TokenVectors:
        """Returns the vectors of a shard.

        Args:
            shard: Number of the shard.

        Returns:
            The vectors. Only the files that are read are copied from a remote file system.
        """
        return TokenVectors.open(self.vectors.without_copies()).part(shard, shard + 1)


Task = TypeVar("Task", bound=_PartTask)


@dataclasses.dataclass(frozen=True)
class SampleReading(_PartTask):
    """The task that reads the vectors of sampled tokens: `[sampled tokens, dim]` float32."""

    def load(self) -> None:
        """Loads nothing."""

    def run(self, shard: int, loaded: None) -> dict[str, int]:
        """Reads the sampled vectors of a shard.

        Args:
            shard: Number of the shard.
            loaded: Nothing.

        Returns:
            `tokens_sampled`.
        """
        tokens = np.load(Path(self.parts, self.inputs(shard)[0]))
        np.save(Path(self.parts, self.output(shard)), self.source(shard).take(tokens), allow_pickle=False)
        return {"tokens_sampled": len(tokens)}

    def inputs(self, shard: int) -> list[str]:
        """Returns the file with the sampled tokens, counted from the first one of the shard."""
        return [f"tokens-{shard:05d}.npy"]

    def output(self, shard: int) -> str:
        """Returns the file with their vectors."""
        return f"sample-{shard:05d}.npy"


@dataclasses.dataclass(frozen=True)
class IndexingJob(_PartTask):
    """The task that makes parts of the index. The folder of parts already has the trained arrays.

    Attributes:
        config: Configuration of the index.
    """

    config: IndexConfig

    def shared(self) -> dict[str, str]:
        """Returns the folder of leaves and codebooks, by its place in the folder of a worker."""
        return {} if self.config.kind == "exact" else {TRAINED_FOLDER: f"{self.parts}/{TRAINED_FOLDER}"}

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
            build_index(self.source(shard), self.part(shard), self.config, quantizer, is_part=True)
        return {"tokens_indexed": TokenIndex.open(self.part(shard)).num_tokens}

    def output(self, shard: int) -> str:
        """Returns the folder of a shard's part, below the folder of parts."""
        return f"part-{shard:05d}"

    def part(self, shard: int) -> Path:
        """Returns the folder of a shard's part. It appears when it is complete.

        Args:
            shard: Number of the shard.

        Returns:
            The path of the folder.
        """
        return Path(self.parts) / self.output(shard)


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
