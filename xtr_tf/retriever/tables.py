"""The outputs of the model for ordinals: of documents (ids, titles, languages, texts, fields) and of tokens.

They are stored in variables, so that a corpus of millions is restored from the checkpoint and is never part
of the graph. Knows nothing about vectors or searching.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from xtr_tf.collections.document import DocumentRecord
from xtr_tf.errors import InputError
from xtr_tf.retriever.columns import Condition, KeywordColumn, make_columns
from xtr_tf.retriever.filters import DocumentFilter


class DocumentTable(tf.Module):
    """Looks up the outputs for documents, and evaluates filters.

    Args:
        documents: The documents, in the order of their ordinals. Titles and texts are stored only if any
            document has one. Otherwise, a look-up returns "".
        fields: Types of the documents' fields by name. `language` is always one of the fields.
        snippets: Whether searches return only a snippet of a text, where the query matched it.

    Raises:
        InputError: If there are no documents, if two have the same id, or if one has none.
    """

    def __init__(
        self,
        documents: Iterable[DocumentRecord],
        fields: Mapping[str, str] | None = None,
        snippets: bool = False,
    ) -> None:
        super().__init__(name="document_table")
        records = list(documents)
        _check_ids([record.id for record in records])
        self.num_documents = len(records)
        self.ids = _strings((record.id for record in records), "document_ids")
        self.titles = _strings((record.title for record in records), "document_titles")
        self.texts = _strings((record.text or "" for record in records), "document_texts")
        self.has_fields = bool(fields)
        self.snippets = snippets
        self.fields = _strings(
            (
                json.dumps(dict(record.fields), ensure_ascii=False, sort_keys=True) if fields else ""
                for record in records
            ),
            "document_fields",
        )
        self.language = KeywordColumn([[record.language] for record in records], "language")
        columns = make_columns([record.fields for record in records], fields or {})
        self.filter = DocumentFilter({"language": self.language, **columns}, self.num_documents)

    @property
    def field_bytes(self) -> int:
        """Size of the fields of all documents, in bytes."""
        return sum(column.num_bytes for column in self.filter.columns.values())

    def look_up(self, ordinals: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns ids, titles and languages of documents.

        Args:
            ordinals: int32 in any shape, -1 for no document.

        Returns:
            `document_ids`, `titles` and `languages`: strings in the same shape, "" for no document.
        """
        present = ordinals >= 0
        rows = tf.maximum(ordinals, 0)
        language = tf.gather(self.language.names, tf.gather(self.language.codes, rows))
        return {
            "document_ids": tf.where(present, tf.gather(self.ids, rows), ""),
            "titles": tf.where(present, self._optional(self.titles, rows), ""),
            "languages": tf.where(present, language, ""),
        }

    def look_up_contents(self, ordinals: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns texts and fields of documents, if they are stored.

        Args:
            ordinals: int32 in any shape, -1 for no document.

        Returns:
            `texts`, and `fields` as JSON: strings in the same shape, "" for no document.
        """
        contents = {}
        if self.texts.shape[0]:
            contents["texts"] = self.look_up_texts(ordinals)
        if self.has_fields:
            rows = tf.maximum(ordinals, 0)
            contents["fields"] = tf.where(ordinals >= 0, tf.gather(self.fields, rows), "")
        return contents

    def look_up_ids(self, ordinals: tf.Tensor) -> tf.Tensor:
        """Returns only the ids of documents.

        Args:
            ordinals: int32 in any shape, -1 for no document.

        Returns:
            Strings in the same shape, "" for no document.
        """
        return tf.where(ordinals >= 0, tf.gather(self.ids, tf.maximum(ordinals, 0)), "")

    def look_up_texts(self, ordinals: tf.Tensor) -> tf.Tensor:
        """Returns the texts of documents.

        Args:
            ordinals: int32 in any shape, -1 for no document.

        Returns:
            Strings in the same shape, "" for no document or if texts are not stored.
        """
        return tf.where(ordinals >= 0, self._optional(self.texts, tf.maximum(ordinals, 0)), "")

    def allowed(self, text: tf.Tensor) -> tf.Tensor:
        """Returns which documents meet a filter and have one of some languages.

        Args:
            text: Scalar string, a value of `joined_filters` that is not empty.

        Returns:
            `[documents]` bool.

        Raises:
            tf.errors.InvalidArgumentError: If the filter is invalid. Inside a graph, it is raised when the
                graph runs.
        """
        parts = tf.strings.split(text, _BETWEEN)
        listed = tf.strings.strip(tf.strings.split(parts[1], ","))
        condition = Condition(tf.constant("="), listed, tf.zeros(tf.shape(listed), tf.bool))
        in_languages = self.language.allows(condition) | tf.reduce_all(listed == "")
        return in_languages & self.filter.allowed(parts[0])

    def _optional(self, table: tf.Variable, rows: tf.Tensor) -> tf.Tensor:
        if table.shape[0] == 0:
            return tf.fill(tf.shape(rows), "")
        return tf.gather(table, rows)


# A character that is in no filter and in no language.
_BETWEEN = "\0"


def joined_filters(filters: tf.Tensor, languages: tf.Tensor) -> tf.Tensor:
    """Joins the filter and the languages of each query into one string.

    Args:
        filters: `[queries]` or `[1]` strings.
        languages: `[queries]` or `[1]` strings, names separated by commas.

    Returns:
        `[queries]` or `[1]` strings, "" for queries with neither.
    """
    shape = tf.broadcast_dynamic_shape(tf.shape(filters), tf.shape(languages))
    filters, languages = tf.broadcast_to(filters, shape), tf.broadcast_to(languages, shape)
    either = (tf.strings.strip(filters) != "") | (tf.strings.strip(languages) != "")
    return tf.where(either, tf.strings.join([filters, languages], _BETWEEN), "")


def _strings(values: Iterable[str], name: str) -> tf.Variable:
    """Returns a variable of strings, which has no rows if all of them are empty."""
    encoded = [value.encode() for value in values]
    kept = encoded if any(encoded) else []
    return tf.Variable(np.array(kept, dtype=object), dtype=tf.string, trainable=False, name=name)


def _check_ids(ids: list[str]) -> None:
    if not ids:
        raise InputError("A retriever needs at least one document. Received: an empty corpus.")
    if "" in ids:
        raise InputError(
            "Every document needs an id that is not empty. "
            f"Received: an empty id at position {ids.index('')}."
        )
    seen: set[str] = set()
    for identifier in ids:
        if identifier in seen:
            raise InputError(
                f"Document ids must be unique; remove duplicates. Received: {identifier!r} more than once."
            )
        seen.add(identifier)


class TokenOrigins(NamedTuple):
    """The origins of tokens, in the shape of the ordinals; -1 if they are not known.

    Attributes:
        piece_ids: int32, ids in the vocabulary.
        starts: int32, the first character in `"{title} {text}"`.
        limits: int32, the character after the last.
    """

    piece_ids: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor


class TokenTable(tf.Module):
    """Looks up pieces and character spans of document tokens.

    Args:
        pieces: `[tokens]` integers, ids in the vocabulary.
        spans: `[tokens, 2]` integers, the first character and the one after the last.

    Raises:
        InputError: If the shapes do not match.
    """

    def __init__(self, pieces: np.ndarray, spans: np.ndarray) -> None:
        super().__init__(name="token_table")
        if pieces.ndim != 1 or spans.shape != (len(pieces), 2):
            raise InputError(
                "Every token needs one piece and one span. "
                f"Received: pieces {list(pieces.shape)}, spans {list(spans.shape)}."
            )
        self.num_tokens = len(pieces)
        self.origins = tf.Variable(
            np.concatenate(
                [np.asarray(pieces, np.int32)[:, np.newaxis], np.asarray(spans, np.int32)], axis=1
            ),
            trainable=False,
            name="token_origins",
        )

    def look_up(self, tokens: tf.Tensor) -> TokenOrigins:
        """Returns the origins of tokens.

        Args:
            tokens: Integers in any shape, token ordinals, -1 for no token.

        Returns:
            The origins in the same shape, -1 for no token.
        """
        origins = tf.gather(self.origins, tf.maximum(tokens, 0))
        origins = tf.where((tokens >= 0)[..., tf.newaxis], origins, -1)
        return TokenOrigins(*tf.unstack(origins, axis=-1))
