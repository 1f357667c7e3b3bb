"""The definition of terms, for both analysers. Baselines, indexes and models all use this one.

A character is a separator, part of a spaced word, or part of a script written without spaces. Its kind and
the character it is folded to depend only on the character, not on its neighbours. So a graph can find the
same terms with a table. Knows nothing about documents or scores.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from xtr_tf.errors import InputError

# Python's \w does not match the vowel signs of Indic and South-East Asian scripts and would split words at
# them. So all characters of their blocks count as letters (Devanagari to Sinhala, Thai and Lao, Tibetan and
# Myanmar, Khmer), except punctuation such as the danda, which directly follows a word.
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
# All scripts with upper and lower case are below this code point.
_CASED_LIMIT = 0x20000
_CODE_POINTS = 0x110000

#: Languages that do not separate words by spaces.
UNSPACED_LANGUAGES = frozenset({"ja", "km", "lo", "my", "th", "zh"})

Analyser = Callable[[str], list[str]]


def words(text: str) -> list[str]:
    """Splits a text into lower-case words.

    Words of one character are kept. There is no stemming and there are no stop words.

    Args:
        text: Any string.

    Returns:
        The words, in order.

    Example:
        >>> words("The Nile's length")
        ['the', 'nile', 's', 'length']
    """
    return _WORD.findall(fold(text))


def character_ngrams(text: str) -> list[str]:
    """Splits the words of a text into overlapping n-grams.

    N-grams have two characters in scripts written without spaces, and four in others. There, a space is added
    at both ends of the word: `the` becomes ` the`, `the `.

    Args:
        text: Any string.

    Returns:
        The n-grams, in order.

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


#: Analysers by their names in reports.
ANALYSERS: dict[str, Analyser] = {"words": words, "character n-grams": character_ngrams}


def analyser_of(lexical: str) -> str:
    """Returns the name of the analyser for a `lexical` setting of an index.

    Args:
        lexical: `words` or `ngrams`.

    Returns:
        A key of `ANALYSERS`.

    Raises:
        InputError: If `lexical` has another value.
    """
    names = {"words": "words", "ngrams": "character n-grams"}
    if lexical not in names:
        raise InputError(f"BM25 counts {' or '.join(names)}. Received: {lexical!r}.")
    return names[lexical]


def analyser_for(language: str) -> str:
    """Returns the name of the analyser that suits a language.

    Args:
        language: A language code, such as `en` or `zh-TW`.

    Returns:
        A key of `ANALYSERS`.
    """
    return "character n-grams" if language.partition("-")[0] in UNSPACED_LANGUAGES else "words"


def fold(text: str) -> str:
    """Returns the text in lower case, of the same length.

    Every character stays one character. A final sigma becomes a normal sigma.

    Args:
        text: Any string.

    Returns:
        The folded text.
    """
    return text.translate(_folded_characters())


SEPARATOR, SPACED, UNSPACED = 0, 1, 2


class Characters(NamedTuple):
    """A table of all code points, with arrays of `[0x110000]`.

    Attributes:
        kinds: int8, `SEPARATOR`, `SPACED` or `UNSPACED`.
        folded: int32, the code point that it is folded to.
    """

    kinds: np.ndarray
    folded: np.ndarray

    def ranges(self) -> tuple[np.ndarray, Characters]:
        """Returns the table in a short form, as ranges of code points with the same entries.

        Returns:
            `[ranges]` int32, the first code points of the ranges, ascending from 0. Then `[ranges]` arrays,
            in which `folded` is the difference to add to a code point to fold it.
        """
        added: np.ndarray = self.folded - np.arange(_CODE_POINTS, dtype=np.int32)
        changes = (np.diff(self.kinds) != 0) | (np.diff(added) != 0)
        starts = np.concatenate([[0], 1 + np.flatnonzero(changes)]).astype(np.int32)
        return starts, Characters(self.kinds[starts], added[starts])


@lru_cache(maxsize=1)
def characters() -> Characters:
    """Returns the table of all characters, as the functions above treat them."""
    # Surrogates are not characters. A separator takes the place of each.
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
    """Returns the code points that change when folded, and what they change to.

    Each one folds to exactly one other, so that no word changes its length.
    """
    found = {}
    for code in range(_CASED_LIMIT):
        character = chr(code)
        folded = character.casefold()
        if len(folded) > 1:
            folded = character.lower()[0]
        if folded != character:
            found[code] = ord(folded)
    return found
