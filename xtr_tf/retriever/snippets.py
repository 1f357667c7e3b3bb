"""Cuts long texts to snippets around the best matches with the query.

Uses stock string ops, so that any server can run it, and runs only if a caller requests texts. Knows nothing
about searching.
"""

from __future__ import annotations

import tensorflow as tf

#: Maximum number of characters in a snippet, including the ellipses.
LENGTH = 300
# Characters before the first match, and the maximum length of a cut word that is removed.
_LEAD, _WORD = 50, 30
_INNER = LENGTH - 2


def cut_snippets(
    texts: tf.Tensor, titles: tf.Tensor, starts: tf.Tensor, limits: tf.Tensor, scores: tf.Tensor
) -> tf.Tensor:
    """Cuts texts to the snippets with the best matches, by the sum of their scores.

    A snippet begins a little before a match, at the beginning of a word if words are separated by spaces. `…`
    stands for the text that was cut. Without matches, the snippet is the beginning of the text.

    Args:
        texts: `[queries, documents]` strings.
        titles: `[queries, documents]` strings.
        starts: `[queries, documents, matches]` int32, the first character of each match in
            `"{title} {text}"`; -1 for none.
        limits: `[queries, documents, matches]` int32, the character after the last. Empty matches, such as of
            the end-of-sequence token, do not count.
        scores: `[queries, documents, matches]` float32. Negative scores do not count.

    Returns:
        `[queries, documents]` strings of at most `LENGTH` characters.
    """
    length = tf.strings.length(texts, unit="UTF8_CHAR")
    before = tf.where(titles == "", 0, tf.strings.length(titles, unit="UTF8_CHAR") + 1)[..., tf.newaxis]
    counts = (starts >= before) & (limits > starts) & (scores > 0)
    starts, limits = starts - before, limits - before
    # For every match, the matches in a snippet that begins a little before it.
    begins = starts[..., tf.newaxis]
    holds = (starts[..., tf.newaxis, :] >= begins) & (
        limits[..., tf.newaxis, :] <= begins - _LEAD + _INNER - _WORD
    )
    weights = tf.where(counts, scores, 0.0)[..., tf.newaxis, :]
    held = tf.where(counts, tf.reduce_sum(tf.where(holds, weights, 0.0), axis=-1), -1.0)
    # A document without any match must not make the others fail.
    held = tf.pad(held, [[0, 0], [0, 0], [0, 1]], constant_values=-1.0)
    starts = tf.pad(tf.where(counts, starts, 0), [[0, 0], [0, 0], [0, 1]])
    first = tf.gather(starts, tf.argmax(held, axis=-1), batch_dims=2)
    begin = tf.clip_by_value(first - _LEAD, 0, tf.maximum(length - _INNER, 0))
    return tf.where(length <= LENGTH, texts, _cut(texts, begin, length))


def needed_part(text: str, title: str, limit: int) -> str:
    """Returns the beginning of a text that snippets can show. Its snippets are those of the whole text.

    Args:
        text: The text.
        title: Title of the same document.
        limit: End of the last token of the document that can match, in `"{title} {text}"`; 0 for none.

    Returns:
        The beginning of the text.
    """
    before = len(title) + 1 if title else 0
    # One more character than in a snippet, which shows that something was cut.
    return text[: max(limit - before, 0) + LENGTH + 1]


def _cut(texts: tf.Tensor, begin: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    piece = tf.strings.substr(texts, begin, tf.fill(tf.shape(begin), _INNER), unit="UTF8_CHAR")
    trimmed = tf.strings.regex_replace(piece, rf"^\S{{0,{_WORD}}}\s+", "")
    piece = tf.where(begin > 0, tf.strings.join(["…", trimmed]), piece)
    trimmed = tf.strings.regex_replace(piece, rf"\s+\S{{0,{_WORD}}}$", "")
    return tf.where(begin + _INNER < length, tf.strings.join([trimmed, "…"]), piece)
