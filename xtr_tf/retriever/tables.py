"""What the model returns for ordinals: of documents (ids, titles, languages, texts, fields) and of tokens.

Kept in variables, so that a corpus of millions is restored from the checkpoint and never part
of the graph. Knows nothing of vectors or searching.
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
    """Looks up what is returned for a document, and which documents a filter lets pass.

    Args:
        documents: In the order of their ordinals. Titles and texts are kept only if any document
            has one; a table without them answers "".
        fields: Types of the documents' fields by name; `language` is one of them in any case.
        snippets: Whether searches show of a text only where the query matched it.

    Raises:
        InputError: There is no document, or two have the same id, or one has none.
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
        """Bytes that fields take, all documents together."""
        return sum(column.num_bytes for column in self.filter.columns.values())

    def look_up(self, ordinals: tf.Tensor) -> dict[str, tf.Tensor]:
        """What is known of documents.

        Args:
            ordinals: int32 of any shape, -1 for no document.

        Returns:
            `document_ids`, `titles` and `languages`: strings of the same shape, "" for no document.
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
        """What can be shown of documents, of what is kept: `texts`, and `fields` as JSON."""
        contents = {}
        if self.texts.shape[0]:
            contents["texts"] = self.look_up_texts(ordinals)
        if self.has_fields:
            rows = tf.maximum(ordinals, 0)
            contents["fields"] = tf.where(ordinals >= 0, tf.gather(self.fields, rows), "")
        return contents

    def look_up_ids(self, ordinals: tf.Tensor) -> tf.Tensor:
        """Only document ids, "" where an ordinal is -1."""
        return tf.where(ordinals >= 0, tf.gather(self.ids, tf.maximum(ordinals, 0)), "")

    def look_up_texts(self, ordinals: tf.Tensor) -> tf.Tensor:
        """Texts, "" where an ordinal is -1 or texts are not kept."""
        return tf.where(ordinals >= 0, self._optional(self.texts, tf.maximum(ordinals, 0)), "")

    def allowed(self, text: tf.Tensor) -> tf.Tensor:
        """Which documents pass what `joined_filters` made of a filter and languages; `[documents]` bool."""
        parts = tf.strings.split(text, _BETWEEN)
        listed = tf.strings.strip(tf.strings.split(parts[1], ","))
        condition = Condition(tf.constant("="), listed, tf.zeros(tf.shape(listed), tf.bool))
        in_languages = self.language.allows(condition) | tf.reduce_all(listed == "")
        return in_languages & self.filter.allowed(parts[0])

    def _optional(self, table: tf.Variable, rows: tf.Tensor) -> tf.Tensor:
        if table.shape[0] == 0:
            return tf.fill(tf.shape(rows), "")
        return tf.gather(table, rows)


# No filter and no language has this character.
_BETWEEN = "\0"


def joined_filters(filters: tf.Tensor, languages: tf.Tensor) -> tf.Tensor:
    """`[queries]` filters and languages, or `[1]` for all, as one string each; "" where there is neither.

    Args:
        filters: `[queries]` or `[1]` strings.
        languages: `[queries]` or `[1]` strings, names between commas.

    Returns:
        `[queries]` or `[1]` strings.
    """
    shape = tf.broadcast_dynamic_shape(tf.shape(filters), tf.shape(languages))
    filters, languages = tf.broadcast_to(filters, shape), tf.broadcast_to(languages, shape)
    either = (tf.strings.strip(filters) != "") | (tf.strings.strip(languages) != "")
    return tf.where(either, tf.strings.join([filters, languages], _BETWEEN), "")


def _strings(values: Iterable[str], name: str) -> tf.Variable:
    """A variable of strings, empty if all of them are."""
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
    """Of tokens, in the shape that was asked for; -1 where not known.

    Attributes:
        piece_ids: int32, ids of the vocabulary.
        starts: int32, first character in `"{title} {text}"`.
        limits: int32, the character after the last.
    """

    piece_ids: tf.Tensor
    starts: tf.Tensor
    limits: tf.Tensor


class TokenTable(tf.Module):
    """Looks up pieces and character spans of document tokens.

    Args:
        pieces: `[tokens]` integers, ids of the vocabulary.
        spans: `[tokens, 2]` integers, first character and the one after the last.
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
        """Origins of token ordinals of any shape, -1 for no token."""
        origins = tf.gather(self.origins, tf.maximum(tokens, 0))
        origins = tf.where((tokens >= 0)[..., tf.newaxis], origins, -1)
        return TokenOrigins(*tf.unstack(origins, axis=-1))
