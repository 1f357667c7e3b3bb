"""Makes examples from passages without questions: a sentence is the query for the passage it was cut from.

The inverse cloze task of [Lee et al.](https://arxiv.org/abs/1906.00300). Any corpus is training data for it,
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

# A full stop ends a sentence only before a space, in all scripts that use it. The other marks always do.
_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？｡।۔؟])\s*")
_SHORTEST = 12
# In one of this many examples the sentence stays in the passage, because exact matches are worth learning.
_KEPT_ONE_OF = 10


def sentences(text: str) -> list[str]:
    """Splits a text into sentences without changing them.

    Args:
        text: The text.

    Returns:
        The sentences.

    Example:
        >>> sentences("The Nile flows north. 東京は首都です。人口は多い。")
        ['The Nile flows north.', '東京は首都です。', '人口は多い。']
    """
    return [sentence for sentence in _END.split(text.strip()) if sentence]


class ClozeSource:
    """Examples with every sentence of a passage as a query, and the passage without it as the positive.

    Passages of one sentence and sentences of a few characters give no examples. The corpus is kept in memory.

    Args:
        config: Source of the corpus: a file or folder that `CorpusReader` reads.

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
    """Returns the position of a sentence, even if its words occur twice."""
    position = 0
    for part in parts[:place]:
        position = text.index(part, position) + len(part)
    return text.index(parts[place], position)
