"""Unicode lower-casing in the graph, equal to `str.lower` in whatever locale the process runs.

`tf.strings.lower` follows the default locale of the process: where that is Turkish,
Azerbaijani or Lithuanian, some letters have other small forms, and a server would answer
differently from the machine that trained its model. Those letters are replaced first.
"""

from __future__ import annotations

import tensorflow as tf

# The capitals that Unicode's SpecialCasing gives another small form in tr, az or lt.
_LOCALE_DEPENDENT = "IJÌÍĨĮİ"
_REPLACEMENT_CHARACTER = "\ufffd"


def lowercase(strings: tf.Tensor) -> tf.Tensor:
    """Lower-cases UTF-8 strings as Python's `str.lower` does.

    Greek final sigma and the Turkish dotted capital İ (which becomes two code points)
    included. Two things differ, neither of which is text: a NUL character, at which TensorFlow
    would end the string, becomes U+FFFD, and so do bytes that are not UTF-8. The tables are
    TensorFlow's own, Unicode 13 from TensorFlow 2.16 to 2.20, whatever Python's are.

    Args:
        strings: String tensor of any shape.

    Returns:
        A string tensor of the same shape.
    """
    strings = tf.strings.regex_replace(strings, r"\x00", _REPLACEMENT_CHARACTER)
    for capital in _LOCALE_DEPENDENT:
        strings = tf.strings.regex_replace(strings, capital, capital.lower())
    return tf.strings.lower(strings, encoding="utf-8")
