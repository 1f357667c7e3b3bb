from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from xtr_tf.model.text import lowercase

# Turkish dotted and dotless i, Greek sigma at ends of words and not, German sharp s, and letters
# whose small forms take another number of bytes.
WORDS = [
    "ISPARTA İSTANBUL ILIK IŞIK ÇİĞ",
    "ΟΔΟΣ ΣΑΣ. ΑΣ'Α Σ Σ1 ΑΣ.Α ΑΣ\u00adΑ ΟΔΥΣΣΕΥΣ",
    "STRASSE STRAßE GRÖẞE ÄÖÜ",
    "Ⱥ ẞ Ω K Å",
    "JĮ Ì Í Ĩ J\u0307 I\u0307 Į\u0301",
]
# TensorFlow's tables are Unicode 13's. These capitals came with 14, and no others until 15.1, the newest
# tables of the interpreters in use. TensorFlow does not know them as letters and leaves them unchanged.
SINCE_13 = [
    *"\u2c2f\ua7c0\ua7d0\ua7d6\ua7d8",
    *map(chr, {*range(0x10570, 0x10596)} - {0x1057B, 0x1058B, 0x10593}),
]
SNIPPET = """
import json, sys, tensorflow as tf
from xtr_tf.model.text import lowercase
words = json.loads(sys.stdin.read())
tensor = tf.constant([word.encode() for word in words])
plain = tf.strings.lower(tensor, encoding="utf-8")
print(json.dumps([[text.decode() for text in row.numpy()] for row in (lowercase(tensor), plain)]))
"""


def lower(texts: list[str]) -> list[str]:
    strings = tf.constant([text.encode() for text in texts], tf.string)
    return [text.decode() for text in lowercase(strings).numpy()]


def test_every_character_becomes_what_python_makes_of_it():
    characters = {chr(code) for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF}
    known = sorted(characters.difference(SINCE_13))
    assert lower(known) == [character.lower() for character in known]
    assert lower(SINCE_13) == SINCE_13


def test_words_whose_small_forms_depend_on_neighbours():
    assert lower(WORDS) == [word.lower() for word in WORDS]


@settings(max_examples=50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=["\0", *SINCE_13]))))
def test_any_text(texts):
    assert lower(texts) == [text.lower() for text in texts]


def test_what_is_not_text_becomes_the_replacement_character():
    strings = tf.constant([b"A\0B", b"A\xff\xfeB", b"\0"])
    assert lowercase(strings).numpy().tolist() == [
        "a\ufffdb".encode(),
        "a\ufffd\ufffdb".encode(),
        "\ufffd".encode(),
    ]


@pytest.mark.parametrize("locale", ["tr_TR", pytest.param("lt_LT", marks=pytest.mark.slow)])
def test_the_locale_of_the_process_changes_nothing(locale):
    characters = [chr(code) for code in range(1, 0x250)]
    texts = WORDS + characters
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SNIPPET],
        input=json.dumps(texts),
        env={**os.environ, "LC_ALL": f"{locale}.UTF-8", "LANG": f"{locale}.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    )
    ours, plain = json.loads(result.stdout)
    expected = [text.lower() for text in texts]
    assert ours == expected
    assert plain != expected, "TensorFlow no longer follows the locale: lowercase() can be simplified"
