"""From places in a lower-cased text back to places in the original.

Lower-casing can change how many bytes a character has (İ: 2 to 3, Ⱥ: 2 to 3, ẞ: 3 to 2), so
SentencePiece's byte offsets, which count in the text it was given, are translated.
"""

from __future__ import annotations

import tensorflow as tf

from xtr_tf.tokenizer.lowercase import lowercase


class CharacterMap:
    """Translates byte offsets of prepared strings to characters and bytes of the originals.

    Args:
        strings: `[batch]` original strings.
        lowered: Whether the prepared strings are the lower-cased originals, or the originals.
    """

    def __init__(self, strings: tf.Tensor, lowered: bool) -> None:
        characters, starts = tf.strings.unicode_split_with_offsets(strings, "UTF-8")
        ends = tf.strings.length(strings)[:, tf.newaxis]
        boundaries = tf.concat([tf.cast(starts, tf.int32), ends], axis=1)
        self._original_bytes = _to_dense(boundaries)
        if not lowered:
            self._prepared_bytes = self._original_bytes
            return
        widths = tf.strings.length(lowercase(characters.values))
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
    """Byte offsets of every character and of the end; shorter rows end in numbers no offset reaches."""
    return boundaries.to_tensor(tf.int32.max)
