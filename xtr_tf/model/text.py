"""Text in the graph: lower-casing, and offsets of the lower-cased text in the original.

Lower-casing equals `str.lower` in every locale.

`tf.strings.lower` follows the default locale of the process. In Turkish, Azerbaijani and
Lithuanian some letters have other small forms, and a server would answer differently from the
machine that trained its model. Those letters are replaced first.
"""

from __future__ import annotations

import tensorflow as tf

# The capitals that Unicode's SpecialCasing gives another small form in tr, az or lt.
_LOCALE_DEPENDENT = "IJÌÍĨĮİ"
_REPLACEMENT_CHARACTER = "\ufffd"


def lowercase(strings: tf.Tensor) -> tf.Tensor:
    """Lower-cases UTF-8 strings as Python's `str.lower` does.

    This includes the Greek final sigma and the Turkish dotted capital İ, which becomes two code
    points. Only what is not text differs: a NUL character, at which TensorFlow would end the string,
    becomes U+FFFD, and so do bytes that are not UTF-8. The tables are TensorFlow's own, Unicode 13
    in TensorFlow 2.16 to 2.20, and may differ from Python's.

    Args:
        strings: String tensor of any shape.

    Returns:
        A string tensor of the same shape.
    """
    strings = tf.strings.regex_replace(strings, r"\x00", _REPLACEMENT_CHARACTER)
    for capital in _LOCALE_DEPENDENT:
        strings = tf.strings.regex_replace(strings, capital, capital.lower())
    return tf.strings.lower(strings, encoding="utf-8")


class CharacterMap:
    """Translates byte offsets of prepared strings to characters and bytes of the originals.

    Args:
        strings: `[batch]` original strings.
        lowered: Whether the prepared strings are the lower-cased originals, or the originals.
    """

    def __init__(self, strings: tf.Tensor, lowered: bool) -> None:
        characters, starts = tf.strings.unicode_decode_with_offsets(strings, "UTF-8")
        ends = tf.strings.length(strings)[:, tf.newaxis]
        boundaries = tf.concat([tf.cast(starts, tf.int32), ends], axis=1)
        self._original_bytes = _to_dense(boundaries)
        if not lowered:
            self._prepared_bytes = self._original_bytes
            return
        # A text has far fewer distinct characters than characters.
        distinct, places = tf.unique(characters.values)
        lowered_characters = lowercase(tf.strings.unicode_encode(distinct[:, tf.newaxis], "UTF-8"))
        widths = tf.gather(tf.strings.length(lowered_characters), places)
        ends = tf.cumsum(characters.with_values(widths).to_tensor(0), axis=1)
        starts_and_end = tf.pad(ends, [[0, 0], [1, 0]])
        self._prepared_bytes = _to_dense(
            tf.RaggedTensor.from_tensor(starts_and_end, lengths=boundaries.row_lengths())
        )

    def characters(self, prepared_offsets: tf.RaggedTensor) -> tf.RaggedTensor:
        """Byte offsets in the prepared text to character offsets, `[batch, (tokens)]` int32.

        An offset inside a character counts as that character's start.
        """
        dense = tf.cast(prepared_offsets.to_tensor(0), tf.int32)
        found = tf.searchsorted(self._prepared_bytes, dense, side="right") - 1
        return tf.RaggedTensor.from_tensor(found, lengths=prepared_offsets.row_lengths())

    def bytes(self, characters: tf.RaggedTensor) -> tf.RaggedTensor:
        """Character offsets to byte offsets in the original text, `[batch, (tokens)]` int32."""
        found = tf.gather(self._original_bytes, characters.to_tensor(0), batch_dims=1)
        return tf.RaggedTensor.from_tensor(found, lengths=characters.row_lengths())


def _to_dense(boundaries: tf.RaggedTensor) -> tf.Tensor:
    """Byte offsets of every character and of the end; shorter rows are padded beyond any offset."""
    return boundaries.to_tensor(tf.int32.max)
