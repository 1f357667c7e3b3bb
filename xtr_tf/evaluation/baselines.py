"""BM25 over a dataset's corpus, by `bm25s`: the baseline that every report shows.

First the search, then the analysers that cut a text into terms. Knows nothing of judgements or metrics.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xtr_tf.collections.dataset import Query
from xtr_tf.collections.document import Document
from xtr_tf.errors import InputError
from xtr_tf.evaluation.run import Run


class BM25:
    """An index of documents by their terms, in memory.

    Scores are [Lucene's BM25](https://arxiv.org/abs/2407.03618) of title and text together.

    Args:
        documents: What is searched.
        analyser: One of `ANALYSERS`.
        k1: How soon a term's repetition stops counting.
        b: How much long documents are held back.

    Example:
        >>> BM25(documents).search(queries, depth=100).documents("q1")[:3]
    """

    def __init__(
        self, documents: Sequence[Document], analyser: str = "words", k1: float = 0.9, b: float = 0.4
    ) -> None:
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it begins by asking for more
        if analyser not in ANALYSERS:
            raise InputError(f"An analyser is one of {', '.join(ANALYSERS)}. Received: {analyser!r}.")
        self.name = f"BM25 ({analyser})"
        self._analyse = ANALYSERS[analyser]
        self._ids = [document.id for document in documents]
        self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
        terms = [self._analyse(document.full_text) for document in documents]
        self._is_empty = not any(terms)  # bm25s cannot index nothing
        if not self._is_empty:
            self._index.index(terms, show_progress=False)

    def search(self, queries: Sequence[Query], depth: int) -> Run:
        """Finds the documents that share a term with each query, at most `depth` of them."""
        terms = [[] if self._is_empty else self._known(query.text) for query in queries]
        asked = [row for row, known in enumerate(terms) if known]
        depth = min(depth, len(self._ids))
        ordinals = np.full((len(queries), depth), -1)
        scores = np.zeros((len(queries), depth), np.float32)
        if asked:
            results, values = self._index.retrieve(
                [terms[row] for row in asked], k=depth, show_progress=False
            )
            ordinals[asked], scores[asked] = np.where(values > 0, results, -1), values
        return Run.from_arrays(self.name, [query.id for query in queries], self._ids, ordinals, scores)

    def _known(self, text: str) -> list[str]:
        return [term for term in self._analyse(text) if term in self._index.vocab_dict]


# Python's \w leaves out the vowel signs of Indic and South-East Asian scripts and would cut words at them,
# so their blocks are taken whole (Devanagari to Sinhala, Thai and Lao, Tibetan and Myanmar, Khmer).
_ALPHABETS = r"\u0900-\u0dff\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[\w{_ALPHABETS}]+")
# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, kana, Han.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    r"\uf900-\ufaff\U00020000-\U000323af"
)
_RUN = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")

#: Languages whose words are not parted by spaces.
UNSPACED_LANGUAGES = frozenset({"ja", "km", "lo", "my", "th", "zh"})

Analyser = Callable[[str], list[str]]


def words(text: str) -> list[str]:
    """Lower-cased words, of one character too; nothing is stemmed or left out.

    Example:
        >>> words("The Nile's length")
        ['the', 'nile', 's', 'length']
    """
    return _WORD.findall(text.lower())


def character_ngrams(text: str) -> list[str]:
    """Overlapping pieces of words.

    Two characters in scripts written without spaces, four elsewhere, there with a space at either end
    of the word: `the` becomes ` the`, `the `.

    Example:
        >>> character_ngrams("東大寺 is")
        ['東大', '大寺', ' is ']
    """
    return [
        piece
        for word in words(text)
        for run in _RUN.findall(word)
        for piece in (_ngrams(run, 2) if _IS_UNSPACED.match(run) else _ngrams(f" {run} ", 4))
    ]


def _ngrams(run: str, size: int) -> Iterator[str]:
    for start in range(max(len(run) - size, 0) + 1):
        yield run[start : start + size]


#: Analysers by the name that reports print.
ANALYSERS: dict[str, Analyser] = {"words": words, "character n-grams": character_ngrams}


def analyser_for(language: str) -> str:
    """The analyser that suits a language: a key of `ANALYSERS`."""
    return "character n-grams" if language.partition("-")[0] in UNSPACED_LANGUAGES else "words"
