"""Examples from passages without questions: a sentence asks for the passage that it was cut out of.

The inverse cloze task of [Lee et al.](https://arxiv.org/abs/1906.00300): any corpus is training data for it,
in any language that ends its sentences with a mark.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.document import Document
from xtr_tf.config.training import SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.examples import TrainingExample

# A full stop ends a sentence where a space follows, as in all scripts that use it; the others always do.
_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？｡।۔؟])\s*")
_SHORTEST = 12
# In one of this many examples the sentence stays in the passage: finding the exact words is worth learning.
_KEPT_ONE_OF = 10


def sentences(text: str) -> list[str]:
    """The sentences of a text, as they are there.

    Example:
        >>> sentences("The Nile flows north. 東京は首都です。人口は多い。")
        ['The Nile flows north.', '東京は首都です。', '人口は多い。']
    """
    return [sentence for sentence in _END.split(text.strip()) if sentence]


class ClozeSource:
    """Every sentence of every passage as a query, its passage without it as the positive.

    Passages of one sentence give nothing, nor do sentences of a few characters. The corpus is held in memory.

    Args:
        config: Where the corpus is: a file or folder that `CorpusReader` reads.

    Raises:
        InputError: There is no passage of two sentences.
    """

    def __init__(self, config: SourceConfig) -> None:
        self.name = config.path
        self.max_positives = 1
        self._documents: list[Document] = []
        self._places: list[tuple[int, int]] = []
        for document in CorpusReader(config.path, config.language):
            parts = sentences(document.text)
            places = [place for place, sentence in enumerate(parts) if len(sentence) >= _SHORTEST]
            if len(parts) < 2 or not places:
                continue
            self._places += [(len(self._documents), place) for place in places]
            self._documents.append(document)
        if not self._places:
            raise InputError(
                "A corpus for the inverse cloze task needs passages of two sentences or more. "
                f"Received: {config.path!r}."
            )
        self.languages = np.array([self._documents[number].language for number, _ in self._places])

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> TrainingExample:
        number, place = self._places[index]
        document = self._documents[number]
        parts = sentences(document.text)
        rest = document.text
        if index % _KEPT_ONE_OF:
            start = _start(document.text, parts, place)
            rest = (rest[:start] + rest[start + len(parts[place]) :].lstrip()).strip()
        return TrainingExample(
            id=f"{document.id}#{place}",
            query=parts[place],
            positives=(dataclasses.replace(document, text=rest),),
            language=document.language,
        )


def _start(text: str, parts: list[str], place: int) -> int:
    """Where a sentence is, even if its words occur twice."""
    position = 0
    for part in parts[:place]:
        position = text.index(part, position) + len(part)
    return text.index(parts[place], position)
