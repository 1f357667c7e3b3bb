"""How BM25 cuts text into terms: words, or pieces of words for languages that write without spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

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
