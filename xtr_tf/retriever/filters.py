"""Filters: a small language for conditions on fields, parsed and evaluated inside the graph.

    filter  = clause ";" clause ...       all of them must hold; an empty filter allows every document
    clause  = field operator value "|" value ...
    operator: = != for all fields, < <= > >= for numbers, with one value

The comparison of texts is case-sensitive. A value that ends with `*` matches every text that begins with it.
Within a value, `%3B` stands for `;`, `%7C` for `|`, `%2A` for `*` and `%25` for `%`. Spaces around fields,
operators and values are ignored. A field with several texts is equal to a value if one of them is.

    year>=2020;source=wiki|faq;tags!=draft;language=de

Uses only stock TensorFlow ops, so that any client of TensorFlow Serving can send filters. Knows nothing about
searching.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from xtr_tf.retriever.columns import Column, Condition

#: Maximum number of bytes in a filter.
MAX_LENGTH = 8192
_CLAUSE = r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=|!=|<=|>=|<|>)((?s:.*))"
_MANY = 64


class DocumentFilter(tf.Module):
    """Evaluates filters.

    Args:
        columns: Columns by field.
        num_documents: Number of all documents.
    """

    def __init__(self, columns: Mapping[str, Column], num_documents: int) -> None:
        super().__init__(name="document_filter")
        self.columns = dict(columns)
        self._num_documents = num_documents

    def allowed(self, text: tf.Tensor) -> tf.Tensor:
        """Returns which documents meet a filter.

        Args:
            text: Scalar string, a filter.

        Returns:
            `[documents]` bool.

        Raises:
            tf.errors.InvalidArgumentError: If the filter is invalid. The message says where, and lists the
                fields. Inside a graph, it is raised when the graph runs.
        """
        known = ", ".join(sorted(self.columns)) or "none"
        short = tf.debugging.Assert(
            tf.strings.length(text) <= MAX_LENGTH,
            [f"A filter may have {MAX_LENGTH} bytes. Received:", tf.strings.length(text)],
        )
        with tf.control_dependencies([short] if short is not None else []):
            clauses = tf.strings.split(tf.identity(text), ";")
        count = tf.size(clauses)
        few = tf.debugging.Assert(count <= _MANY, [f"A filter may have {_MANY} clauses. Received:", count])
        # The start of each clause, for messages.
        starts = tf.cumsum(tf.strings.length(clauses) + 1, exclusive=True)

        def narrow(number: tf.Tensor, passing: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            clause = clauses[number]
            blank = tf.strings.strip(clause) == ""
            return number + 1, passing & tf.cond(
                blank,
                lambda: tf.ones([self._num_documents], tf.bool),
                lambda: self._clause(clause, starts[number], known),
            )

        with tf.control_dependencies([few] if few is not None else []):
            _, passing = tf.while_loop(
                lambda number, _: number < count,
                narrow,
                (tf.constant(0), tf.ones([self._num_documents], tf.bool)),
                parallel_iterations=1,
            )
        return passing

    def _clause(self, clause: tf.Tensor, start: tf.Tensor, known: str) -> tf.Tensor:
        where = ["at byte", start, f"(the fields are {known}). Received:", clause]
        parsed = tf.debugging.Assert(
            tf.strings.regex_full_match(clause, _CLAUSE),
            ["A clause of a filter has the form field=value, with =, !=, <, <=, > or >=,", *where],
        )
        with tf.control_dependencies([parsed] if parsed is not None else []):
            name, operator, rest = (
                tf.strings.regex_replace(clause, f"^{_CLAUSE}$", rf"\{group}") for group in (1, 2, 3)
            )
        fields = list(self.columns)
        matches = tf.stack([name == field for field in fields] or [tf.constant(False)])
        exists = tf.debugging.Assert(tf.reduce_any(matches), ["A filter names an unknown field", *where])
        with tf.control_dependencies([exists] if exists is not None else []):
            field = tf.argmax(tf.cast(matches, tf.int32), output_type=tf.int32)
        raw = tf.strings.strip(tf.strings.split(rest, "|"))
        prefixes = tf.strings.regex_full_match(raw, r"(?s).*\*")
        values = _unescaped(tf.strings.regex_replace(raw, r"(?s)^(.*)\*$", r"\1"))
        condition = Condition(operator, values, prefixes)
        if not fields:
            return tf.ones([self._num_documents], tf.bool)
        branches = [
            lambda column=column: _answer(column, condition, raw, where) for column in self.columns.values()
        ]
        return tf.switch_case(field, branches)


def _answer(column: Column, condition: Condition, raw: tf.Tensor, where: list[object]) -> tf.Tensor:
    checks = [
        tf.debugging.Assert(
            tf.reduce_any(condition.operator == tf.constant(column.operators)),
            [f"A filter compares a field of {column.description} in another way", *where],
        )
    ]
    if column.pattern:
        checks.append(
            tf.debugging.Assert(
                tf.reduce_all(tf.strings.regex_full_match(raw, column.pattern)),
                [f"A filter compares a field of {column.description} with something else", *where],
            )
        )
        single = tf.reduce_any(condition.operator == tf.constant(["=", "!="])) | (tf.size(raw) == 1)
        checks.append(
            tf.debugging.Assert(single, ["A filter compares numbers by < and > with one value only,", *where])
        )
    with tf.control_dependencies([check for check in checks if check is not None]):
        checked = Condition(*(tf.identity(value) for value in vars(condition).values()))
        return column.allows(checked)


def _unescaped(values: tf.Tensor) -> tf.Tensor:
    for escaped, character in (("%3B", ";"), ("%7C", "|"), ("%2A", "*"), ("%25", "%")):
        values = tf.strings.regex_replace(values, f"(?i){escaped}", character)
    return values
