"""What of a long text is shown: a snippet where most of what the query found stands.

Stock ops on strings, so that any server can do it; runs only if a caller asks for texts. Knows nothing of
searching.
"""

from __future__ import annotations

import tensorflow as tf

#: Characters of a snippet at most, the ellipses included.
LENGTH = 300
# Characters before the first match, and how much of them a word may be that was cut.
_LEAD, _WORD = 50, 30
_INNER = LENGTH - 2


def cut_snippets(
    texts: tf.Tensor, titles: tf.Tensor, starts: tf.Tensor, limits: tf.Tensor, scores: tf.Tensor
) -> tf.Tensor:
    """Cuts texts to the snippets that hold most of the matches, by the sum of their scores.

    A snippet begins a little before a match, at the beginning of a word where words are parted by spaces; `…`
    stands for what was cut. Without matches it is the beginning of the text.

    Args:
        texts: `[queries, documents]` strings.
        titles: Likewise.
        starts: `[queries, documents, matches]` int32, first characters in `"{title} {text}"`; -1 for none.
        limits: Likewise, the characters after the last. Empty matches, as of the end of sequence, do not
            count.
        scores: Likewise, float32; negative ones do not count.

    Returns:
        `[queries, documents]` strings of at most `LENGTH` characters.
    """
    length = tf.strings.length(texts, unit="UTF8_CHAR")
    before = tf.where(titles == "", 0, tf.strings.length(titles, unit="UTF8_CHAR") + 1)[..., tf.newaxis]
    counts = (starts >= before) & (limits > starts) & (scores > 0)
    starts, limits = starts - before, limits - before
    # Of every match: what a snippet holds that begins a little before it.
    begins = starts[..., tf.newaxis]
    holds = (starts[..., tf.newaxis, :] >= begins) & (
        limits[..., tf.newaxis, :] <= begins - _LEAD + _INNER - _WORD
    )
    weights = tf.where(counts, scores, 0.0)[..., tf.newaxis, :]
    held = tf.where(counts, tf.reduce_sum(tf.where(holds, weights, 0.0), axis=-1), -1.0)
    # A document without a match at all must not fail the others.
    held = tf.pad(held, [[0, 0], [0, 0], [0, 1]], constant_values=-1.0)
    starts = tf.pad(tf.where(counts, starts, 0), [[0, 0], [0, 0], [0, 1]])
    first = tf.gather(starts, tf.argmax(held, axis=-1), batch_dims=2)
    begin = tf.clip_by_value(first - _LEAD, 0, tf.maximum(length - _INNER, 0))
    return tf.where(length <= LENGTH, texts, _cut(texts, begin, length))


def needed_part(text: str, title: str, limit: int) -> str:
    """The beginning of a text, as far as snippets can show it: they are the same as those of the whole.

    Args:
        text: The text.
        title: Of the same document.
        limit: Where the last token of the document that can match ends, in `"{title} {text}"`; 0 for none.
    """
    before = len(title) + 1 if title else 0
    # One more than a snippet has, which tells that something was cut.
    return text[: max(limit - before, 0) + LENGTH + 1]


def _cut(texts: tf.Tensor, begin: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    piece = tf.strings.substr(texts, begin, tf.fill(tf.shape(begin), _INNER), unit="UTF8_CHAR")
    trimmed = tf.strings.regex_replace(piece, rf"^\S{{0,{_WORD}}}\s+", "")
    piece = tf.where(begin > 0, tf.strings.join(["…", trimmed]), piece)
    trimmed = tf.strings.regex_replace(piece, rf"\s+\S{{0,{_WORD}}}$", "")
    return tf.where(begin + _INNER < length, tf.strings.join([trimmed, "…"]), piece)
