"""What the terms of a text are, by either analyser. One owner: baselines, indexes and models all use these.

A character is a separator, part of a spaced word, or part of a script written without spaces; what it is,
and what it is folded to, follows from the character only and not from its neighbours. So a graph can find
the same terms with a table. Knows nothing of documents or scores.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from xtr_tf.errors import InputError

# Python's \w leaves out the vowel signs of Indic and South-East Asian scripts and would cut words at them,
# so their blocks are taken whole (Devanagari to Sinhala, Thai and Lao, Tibetan and Myanmar, Khmer), but for
# punctuation such as the danda, which stands right after a word.
_BLOCKS = ((0x0900, 0x0DFF), (0x0E00, 0x0EFF), (0x0F00, 0x109F), (0x1780, 0x17FF))
_ALPHABETS = "".join(
    chr(code)
    for first, last in _BLOCKS
    for code in range(first, last + 1)
    if not unicodedata.category(chr(code)).startswith("P")
)
_WORD = re.compile(rf"[\w{_ALPHABETS}]+")
# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, kana, Han.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff"
    r"\uf900-\ufaff\U00020000-\U000323af"
)
_RUN = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
# All cased scripts lie below.
_CASED_LIMIT = 0x20000
_CODE_POINTS = 0x110000

#: Languages whose words are not parted by spaces.
UNSPACED_LANGUAGES = frozenset({"ja", "km", "lo", "my", "th", "zh"})

Analyser = Callable[[str], list[str]]


def words(text: str) -> list[str]:
    """Words without their case, of one character too; nothing is stemmed or left out.

    Example:
        >>> words("The Nile's length")
        ['the', 'nile', 's', 'length']
    """
    return _WORD.findall(fold(text))


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


def analyser_of(lexical: str) -> str:
    """The analyser of an index with this `lexical`, `words` or `ngrams`: a key of `ANALYSERS`."""
    names = {"words": "words", "ngrams": "character n-grams"}
    if lexical not in names:
        raise InputError(f"BM25 counts {' or '.join(names)}. Received: {lexical!r}.")
    return names[lexical]


def analyser_for(language: str) -> str:
    """The analyser that suits a language: a key of `ANALYSERS`."""
    return "character n-grams" if language.partition("-")[0] in UNSPACED_LANGUAGES else "words"


def fold(text: str) -> str:
    """The text with every character in place of its lower case, and final sigma as any other."""
    return text.translate(_folded_characters())


SEPARATOR, SPACED, UNSPACED = 0, 1, 2


class Characters(NamedTuple):
    """What every code point is, `[0x110000]` each.

    Attributes:
        kinds: int8, `SEPARATOR`, `SPACED` or `UNSPACED`.
        folded: int32, the code point that takes its place.
    """

    kinds: np.ndarray
    folded: np.ndarray

    def ranges(self) -> tuple[np.ndarray, Characters]:
        """The same in short: first code points of ranges, and of each its kind and what is added to fold it.

        Returns:
            `[ranges]` int32, ascending from 0, and `[ranges]` arrays in which `folded` is a difference.
        """
        added: np.ndarray = self.folded - np.arange(_CODE_POINTS, dtype=np.int32)
        changes = (np.diff(self.kinds) != 0) | (np.diff(added) != 0)
        starts = np.concatenate([[0], 1 + np.flatnonzero(changes)]).astype(np.int32)
        return starts, Characters(self.kinds[starts], added[starts])


@lru_cache(maxsize=1)
def characters() -> Characters:
    """The table of all characters, as the functions above treat them."""
    # Surrogates are not characters; a separator keeps their places.
    every = "".join(chr(code) if not 0xD800 <= code < 0xE000 else " " for code in range(_CODE_POINTS))
    kinds = np.zeros(_CODE_POINTS, np.int8)
    for word in _WORD.finditer(every):
        for run in _RUN.finditer(word.group()):
            kind = UNSPACED if _IS_UNSPACED.match(run.group()) else SPACED
            kinds[word.start() + run.start() : word.start() + run.end()] = kind
    folded = np.arange(_CODE_POINTS, dtype=np.int32)
    for code, replacement in _folded_characters().items():
        folded[code] = replacement
    return Characters(kinds[folded], folded)


@lru_cache(maxsize=1)
def _folded_characters() -> dict[int, int]:
    """Code points that fold to others, and those; always one for one, so that no word changes its length."""
    found = {}
    for code in range(_CASED_LIMIT):
        character = chr(code)
        folded = character.casefold()
        if len(folded) > 1:
            folded = character.lower()[0]
        if folded != character:
            found[code] = ord(folded)
    return found
