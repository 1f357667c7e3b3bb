from __future__ import annotations

import itertools
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.model.text import CharacterMap
from xtr_tf.model.tokenizer import Tokenizer

SPACE = "▁"


def spans_of(tokenizer: Tokenizer, texts: list[str], length: int = 1000) -> list[list[tuple]]:
    spans = tokenizer.with_offsets(tf.constant([text.encode() for text in texts]), length)
    return [list(zip(*rows, strict=True)) for rows in zip(*(field.to_list() for field in spans), strict=True)]


def byte_offsets(characters) -> list[int]:
    return list(itertools.accumulate((len(character.encode()) for character in characters), initial=0))


def normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text.lower()).split())


def test_every_piece_of_the_embedded_corpus_is_at_its_offsets(atlas_texts, atlas_tokenizer):
    expected_ids = atlas_tokenizer.ragged(tf.constant(atlas_texts), 1000).to_list()
    for text, spans, ids in zip(
        atlas_texts, spans_of(atlas_tokenizer, atlas_texts), expected_ids, strict=True
    ):
        assert [span[0] for span in spans] == ids
        encoded = text.encode()
        for _, piece, start, limit, byte_start, byte_limit in spans[:-1]:
            assert encoded[byte_start:byte_limit].decode() == text[start:limit]
            if not piece.startswith(b"<0x"):
                assert normalized(text[start:limit]) == piece.decode().replace(SPACE, " ").strip()
        assert spans[-1][1:] == (b"</s>", len(text), len(text), len(encoded), len(encoded))


@pytest.mark.parametrize("lowercase", [True, False])
def test_offsets_count_in_the_original_when_lowering_changes_lengths(atlas_model, lowercase):
    tokenizer = Tokenizer(TokenizerConfig(model=atlas_model, lowercase=lowercase))
    text = "İİİ ȺȺ ẞ the Nile"
    [spans] = spans_of(tokenizer, [text])
    assert text[spans[-2][2] : spans[-2][3]].strip().endswith("e")
    nile = text.index("Nile")
    assert any(start <= nile < limit for _, _, start, limit, _, _ in spans)
    covered = {index for _, _, start, limit, _, _ in spans for index in range(start, limit)}
    assert covered == set(range(len(text)))


def test_offsets_are_cut_as_the_ids_are(atlas_texts, atlas_tokenizer):
    [short], [whole] = (spans_of(atlas_tokenizer, atlas_texts[:1], length) for length in (8, 1000))
    assert short[:-1] == whole[:7]
    assert short[-1] == whole[-1]


@settings(max_examples=50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_boundaries_of_characters_translate_both_ways(texts):
    strings = tf.constant([text.encode() for text in texts])
    lowered = [
        [len(text[:index].lower().replace("\0", "\ufffd").encode()) for index in range(len(text) + 1)]
        for text in texts
    ]
    character_map = CharacterMap(strings, lowered=True)
    characters = character_map.characters(tf.ragged.constant(lowered, tf.int32, ragged_rank=1))
    assert characters.to_list() == [list(range(len(text) + 1)) for text in texts]
    assert character_map.bytes(characters).to_list() == [byte_offsets(text) for text in texts]


def test_characters_are_as_wide_as_each_of_them_lowered_by_itself():
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    changed = [one for one in every if len(one.lower().encode()) != len(one.encode())]
    # Each character twice, with others between them, as in a text.
    texts = ["".join(changed + every[:3000]), "".join([*every[3000:0:-1], *changed])]
    lowered = [byte_offsets(one.lower().replace("\0", "\ufffd") for one in text) for text in texts]
    character_map = CharacterMap(tf.constant([text.encode() for text in texts]), lowered=True)
    characters = character_map.characters(tf.ragged.constant(lowered, tf.int32, ragged_rank=1))
    assert characters.to_list() == [list(range(len(text) + 1)) for text in texts]


def test_bytes_that_are_not_text_have_offsets_too(atlas_tokenizer):
    strings = tf.constant([b"nile \xff\xfe nile", b"nile"])
    spans = atlas_tokenizer.with_offsets(strings, 100)
    assert spans.byte_limits.to_list()[0][-1] == len(b"nile \xff\xfe nile")
    assert max(spans.byte_limits.to_list()[1]) == 4
