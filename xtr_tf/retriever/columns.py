"""The fields of documents as columns, and which documents meet a condition on one of them.

Columns are stored in variables: texts as numbers in a dictionary, numbers as they are. A document without a
value meets no condition except `!=`. Knows nothing about how conditions are written (`filters.py`).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")


@dataclasses.dataclass(frozen=True)
class Condition:
    """One clause of a filter.

    Attributes:
        operator: Scalar string, one of `OPERATORS`.
        values: `[any]` strings, one of which must match.
        prefixes: `[any]` bool, which of them match every text that begins with them.
    """

    operator: tf.Tensor
    values: tf.Tensor
    prefixes: tf.Tensor


class Column(tf.Module, abc.ABC):
    """The values of one field."""

    #: The supported operators.
    operators: tuple[str, ...]
    #: A regular expression that all values of a condition must match; "" for any values.
    pattern = ""
    description = ""

    @abc.abstractmethod
    def allows(self, condition: Condition) -> tf.Tensor:
        """Returns where a condition holds.

        Args:
            condition: A condition that has been checked.

        Returns:
            `[documents]` bool.
        """

    @property
    def num_bytes(self) -> int:
        """Size of all arrays in bytes. Texts count by their length."""
        return sum(_bytes_of(variable) for variable in self.variables)


class KeywordColumn(Column):
    """One text per document, or any number of them.

    Args:
        values: A list of texts for each document.
        name: Name of the field.
    """

    operators = ("=", "!=")
    description = "texts, compared by = and !="

    def __init__(self, values: Sequence[Sequence[str]], name: str) -> None:
        super().__init__(name=f"field_{name}")
        names = sorted({text for texts in values for text in texts})
        codes = {text: code for code, text in enumerate(names)}
        counts = np.array([len(texts) for texts in values])
        self._num_documents = len(values)
        self._single = bool((counts == 1).all())
        self.names = tf.Variable(
            np.array([text.encode() for text in names], object), dtype=tf.string, trainable=False, name=name
        )
        self.codes = tf.Variable(
            np.array([codes[text] for texts in values for text in texts], np.int32),
            trainable=False,
            name=name,
        )
        if not self._single:
            owners = np.repeat(np.arange(len(values), dtype=np.int32), counts)
            self.owners = tf.Variable(owners, trainable=False, name=f"{name}_owners")

    def allows(self, condition: Condition) -> tf.Tensor:
        """Returns where one of the document's texts is one of the condition's.

        Args:
            condition: A condition that has been checked.

        Returns:
            `[documents]` bool, inverted for `!=`.
        """
        names, values = self.names[:, tf.newaxis], condition.values[tf.newaxis, :]
        lengths = tf.where(condition.prefixes, tf.strings.length(condition.values), 1 << 30)
        shown = tf.broadcast_to(names, [tf.shape(names)[0], tf.size(condition.values)])
        starts = tf.strings.substr(
            shown, tf.zeros_like(shown, tf.int32), tf.broadcast_to(lengths, tf.shape(shown))
        )
        wanted = tf.reduce_any(starts == values, axis=1)
        of_values = tf.gather(wanted, self.codes)
        if self._single:
            found = of_values
        else:
            found = (
                tf.math.unsorted_segment_max(tf.cast(of_values, tf.int32), self.owners, self._num_documents)
                > 0
            )
        return found ^ (condition.operator == "!=")


class NumberColumn(Column):
    """One number per document: int64, float32 or a truth value.

    Args:
        values: A number for each document, or None.
        kind: `int`, `float` or `bool`.
        name: Name of the field.
    """

    operators = OPERATORS

    def __init__(self, values: Sequence[Any], kind: str, name: str) -> None:
        super().__init__(name=f"field_{name}")
        self._kind = kind
        dtype = np.float32 if kind == "float" else np.int64
        self.pattern = {
            "int": r"[+-]?[0-9]{1,18}",
            "float": r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?",
            "bool": r"true|false|1|0",
        }[kind]
        self.description = {"int": "whole numbers", "float": "numbers", "bool": "true or false"}[kind]
        present = np.array([value is not None for value in values], bool)
        numbers = np.array([value if value is not None else 0 for value in values], dtype)
        self.numbers = tf.Variable(numbers, trainable=False, name=name)
        self.present = tf.Variable(present, trainable=False, name=f"{name}_present")

    def allows(self, condition: Condition) -> tf.Tensor:
        """Returns where the number is one of the condition's, or above or below the first of them.

        Args:
            condition: A condition that has been checked.

        Returns:
            `[documents]` bool.
        """
        texts = condition.values
        if self._kind == "bool":
            texts = tf.where(texts == "true", "1", tf.where(texts == "false", "0", texts))
        values = tf.strings.to_number(texts, self.numbers.dtype)
        first = values[0]
        operator = condition.operator
        compared = tf.switch_case(
            tf.argmax(tf.stack([operator == known for known in OPERATORS]), output_type=tf.int32),
            [
                lambda: tf.reduce_any(self.numbers[:, tf.newaxis] == values, axis=1),
                lambda: tf.reduce_all(self.numbers[:, tf.newaxis] != values, axis=1),
                lambda: self.numbers < first,
                lambda: self.numbers <= first,
                lambda: self.numbers > first,
                lambda: self.numbers >= first,
            ],
        )
        return tf.where(self.present, compared, operator == "!=")


def make_columns(records: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> dict[str, Column]:
    """Creates the columns of some fields.

    Args:
        records: Values by field, one record per document. Absent values are left out.
        fields: Types by field name.

    Returns:
        Columns by field name.
    """
    columns: dict[str, Column] = {}
    for name, kind in fields.items():
        values = [record.get(name) for record in records]
        if kind == "keyword":
            columns[name] = KeywordColumn([[] if value is None else [value] for value in values], name)
        elif kind == "keywords":
            columns[name] = KeywordColumn([value or [] for value in values], name)
        else:
            columns[name] = NumberColumn(values, kind, name)
    return columns


def _bytes_of(variable: tf.Variable) -> int:
    if variable.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(variable))) if variable.shape[0] else 0
    return int(np.prod(variable.shape)) * variable.dtype.size
