"""Building an index on many machines: each shard of the vectors becomes a part, then parts are joined.

Cells and codebooks are trained once, on a sample of all shards. The result is, file for file, what
`build_index` makes in one process.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

from xtr_tf.config.schema import IndexConfig
from xtr_tf.corpus.files import directory_aside, write_aside
from xtr_tf.corpus.manifest import MANIFEST_FILE
from xtr_tf.corpus.shard_task import Runner
from xtr_tf.corpus.token_vectors import TokenVectors
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.token_index import TokenIndex
from xtr_tf.index.token_quantizer import TokenQuantizer, train_quantizer
from xtr_tf.refresh.join_indexes import IndexPart, join_indexes
from xtr_tf.refresh.trained_quantizer import trained_quantizer

_IDENTITY_FILE = "identity"


@dataclasses.dataclass(frozen=True)
class IndexingJob:
    """What a worker must know, as a task for a runner; paths are the same on every machine.

    Attributes:
        vectors: The directory of token vectors.
        parts: Folder for the parts; that of `trained_part` must be there.
        config: Of the index.
        trained_part: The shard whose part was built first and holds what was trained.
    """

    vectors: str
    parts: str
    config: IndexConfig
    trained_part: int

    def load(self) -> TokenQuantizer | None:
        """Cells and codebooks; once a process."""
        return trained_quantizer(TokenIndex.open(self.part(self.trained_part)))

    def run(self, shard: int, quantizer: TokenQuantizer | None) -> dict[str, int]:
        """Makes sure that a shard's part is built."""
        if not self.part(shard).exists():
            source = TokenVectors.open(self.vectors).part(shard, shard + 1)
            build_index(source, self.part(shard), self.config, quantizer)
        return {"tokens_indexed": TokenIndex.open(self.part(shard)).num_tokens}

    def part(self, shard: int) -> Path:
        """The folder of a shard's part; it appears when it is whole."""
        return Path(self.parts) / f"part-{shard:05d}"


def build_in_parts(
    vectors: str | Path, directory: str | Path, config: IndexConfig, runner: Runner
) -> TokenIndex:
    """Builds an index with a runner.

    A build that was killed continues when it is called again: parts that were finished from the
    same vectors and configuration are kept, beside the directory, until the end.

    Args:
        vectors: The directory of token vectors.
        directory: A new directory, which appears when it is whole.
        config: The kind of index and its parameters.
        runner: What builds the parts.
    """
    corpus, directory = TokenVectors.open(vectors), Path(directory)
    filled = [index for index, shard in enumerate(corpus.shards) if shard.entry.tokens]
    if not filled:
        raise InputError(
            "An index needs at least one token; encode a corpus with text first. Received: 0 tokens."
        )
    parts = directory.with_name(f".{directory.name}.parts")
    _prepare(parts, corpus, config)
    job = IndexingJob(str(vectors), str(parts), config, trained_part=filled[0])
    if not job.part(filled[0]).exists():
        quantizer = None if config.kind == "exact" else train_quantizer(corpus, config)
        build_index(corpus.part(filled[0], filled[0] + 1), job.part(filled[0]), config, quantizer)
    pending = [index for index in filled if not job.part(index).exists()]
    if pending:
        runner(job, pending)
    with directory_aside(directory) as aside:
        joined = [IndexPart(TokenIndex.open(job.part(index))) for index in filled]
        join_indexes(joined, corpus.document_offsets, aside)
    shutil.rmtree(parts)
    return TokenIndex.open(directory)


def _prepare(parts: Path, corpus: TokenVectors, config: IndexConfig) -> None:
    """Makes the folder of parts, without those of other vectors or another configuration."""
    content = (corpus.directory / MANIFEST_FILE).read_bytes()
    settings = json.dumps(dataclasses.asdict(config), sort_keys=True).encode()
    identity = hashlib.sha256(content + settings).hexdigest().encode()
    file = parts / _IDENTITY_FILE
    if parts.exists() and not (file.is_file() and file.read_bytes() == identity):
        shutil.rmtree(parts)
    parts.mkdir(parents=True, exist_ok=True)
    write_aside(file, identity)
