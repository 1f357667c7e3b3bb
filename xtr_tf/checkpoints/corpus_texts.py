"""The texts of a corpus, for finding out which pieces of a vocabulary they use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xtr_tf.corpus.corpus_reader import CorpusReader

_BEIR_QUERIES = "queries.jsonl"


def corpus_texts(path: str | Path) -> Iterator[str]:
    """Yields documents as they are encoded and, if a BEIR folder has them, its queries.

    Args:
        path: Any corpus that `CorpusReader` takes; a file of queries is one too.

    Raises:
        InputError: There is no such corpus, or nothing in it.
    """
    path = Path(path)
    sources = [path, path / _BEIR_QUERIES] if (path / _BEIR_QUERIES).is_file() else [path]
    for source in sources:
        for document in CorpusReader(source):
            yield document.full_text
