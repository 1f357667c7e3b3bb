"""Keys of terms, found in whole arrays, against the terms as strings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtr_tf.lexical import keys
from xtr_tf.lexical.keys import find_terms, key_of
from xtr_tf.lexical.terms import character_ngrams, characters, words

#: Texts in many scripts, with what is hard in them: case, marks, digits, several scripts in one word.
TEXTS = [
    "The Nile's length: 6,650 km, a_b x",
    "Straße ẞ İstanbul ΟΔΟΣ οδός ǅ Å e\u0301 ﬁ",
    "हिन्दी में है। कि",
    "ภาษาไทย ๑๒๓ ฿ กก็",
    "東大寺 JR東日本 カタカナー・ア 𠀋字 한국어",
    "العربيّة والقُرآن ٣٤",
    "ភាសាខ្មែរ မြန်မာ ລາວ አማርኛ עִבְרִית",
    "",
    " ?! \u200b…",
    "x" * 1500,
]


def expect_keys_of_terms(texts: list[str]) -> None:
    for lexical, analyse in (("words", words), ("ngrams", character_ngrams)):
        found = find_terms(texts, lexical)
        expected = [[key_of(term) for term in analyse(text)] for text in texts]
        assert found.keys.tolist() == [key for terms in expected for key in terms]
        assert found.texts.tolist() == [place for place, terms in enumerate(expected) for _ in terms]


def test_keys_are_those_of_the_terms() -> None:
    expect_keys_of_terms(TEXTS)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=4))
def test_keys_are_those_of_the_terms_of_any_text(texts: list[str]) -> None:
    expect_keys_of_terms(texts)


def test_punctuation_is_not_part_of_a_word() -> None:
    assert words("वह घर गया। क्यों॥ डॉ॰") == ["वह", "घर", "गया", "क्यों", "डॉ"]
    assert words("මම ගියා෴ ខ្ញុំទៅ។ သွားသည်။") == ["මම", "ගියා", "ខ្ញុំទៅ", "သွားသည်"]
    assert words("བོད་ཡིག") == ["བོད", "ཡིག"]
    assert character_ngrams("गया।") == character_ngrams("गया")


def test_texts_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_BLOCK", 20)
    expect_keys_of_terms(TEXTS)


def test_different_terms_have_different_keys() -> None:
    terms = {term for text in TEXTS for term in (*words(text), *character_ngrams(text))}
    assert len({key_of(term) for term in terms}) == len(terms) > 100


def test_ranges_say_the_same_as_the_table() -> None:
    starts, ranges = characters().ranges()
    codes = np.arange(0x110000)
    places = np.searchsorted(starts, codes, side="right") - 1
    assert (ranges.kinds[places] == characters().kinds).all()
    assert (codes + ranges.folded[places] == characters().folded).all()
