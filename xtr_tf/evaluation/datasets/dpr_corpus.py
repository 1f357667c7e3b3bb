"""Wikipedia in 100-word passages, as DPR published it: `psgs_w100.tsv`, quoted, with a header."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xtr_tf.corpus.document import Document
from xtr_tf.evaluation.datasets.records import bad_line, find_file, read_quoted

_FILE = "psgs_w100.tsv"
_HEADER = ["id", "text", "title"]


class DprCorpus:
    """Iterates over the passages of a file, read as they are asked for.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Document]:
        for number, row in read_quoted(self.path):
            if number == 1 and row == _HEADER:
                continue
            if len(row) != len(_HEADER):
                raise bad_line(self.path, number, f"must have {len(_HEADER)} columns, not {len(row)}")
            identifier, text, title = row
            yield Document(identifier, text, title, "en")

    @classmethod
    def find(cls, folder: Path) -> DprCorpus | None:
        """The corpus in `folder`, in the folder above it, or in a `dpr` folder beside it; or None."""
        for place in (folder, folder.parent, folder.parent / "dpr"):
            if path := find_file(place, _FILE):
                return cls(path)
        return None
