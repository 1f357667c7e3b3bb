"""Typed fields of documents, which a corpus declares: their names, and how a record's values are read.

A declared field that a record does not have is absent; one of another type is an error, not a document less,
because a filter on it would lie. Knows nothing of how fields are kept or asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from xtr_tf.collections.document import ID_FIELDS, LANGUAGE_FIELDS, TEXT_FIELDS, TITLE_FIELDS
from xtr_tf.errors import InputError

#: A text, several texts, and numbers.
KINDS = ("keyword", "keywords", "int", "float", "bool")
#: Where BEIR keeps what is neither title nor text.
METADATA = "metadata"
# What stands between several texts in a format that has no lists.
_SEPARATOR = "|"
_RESERVED = frozenset({*ID_FIELDS, *TEXT_FIELDS, *TITLE_FIELDS, *LANGUAGE_FIELDS, METADATA})
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_INT64 = range(-(2**63) + 1, 2**63)

Fields = Mapping[str, str]


def check_fields(fields: Fields) -> None:
    """Raises `InputError` unless names and kinds can be declared."""
    for name, kind in fields.items():
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise InputError(
                "A field's name has letters, digits and underscores, and is none of a document's own "
                f"({', '.join(sorted(_RESERVED))}). Received: {name!r}."
            )
        if kind not in KINDS:
            raise InputError(f"A field's type is one of {', '.join(KINDS)}. Received: {kind!r} for `{name}`.")


def parse_declarations(declarations: list[str]) -> dict[str, str]:
    """Reads `name:type` as a command line gives them.

    Raises:
        InputError: One is something else, or declares a field again.
    """
    fields: dict[str, str] = {}
    for declaration in declarations:
        name, colon, kind = declaration.partition(":")
        if not colon or name in fields:
            raise InputError(
                f"Fields are declared once each, as name:type, such as year:int. Received: {declaration!r}."
            )
        fields[name] = kind
    check_fields(fields)
    return fields


def read_fields(record: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The declared fields of a record.

    Args:
        record: As a format's reader gives it; what is not in it is looked for in its `metadata`.
        fields: Names and types.

    Returns:
        Values by name: `str`, a sorted list of them, `int`, `float` or `bool`; absent ones are left out.

    Raises:
        InputError: A value is of another type.
    """
    metadata = record.get(METADATA)
    inner = metadata if isinstance(metadata, Mapping) else {}
    values = {}
    for name, kind in fields.items():
        value = record.get(name)
        value = inner.get(name) if value is None else value
        if value is None or (value == "" and kind not in ("keyword", "keywords")):
            continue
        try:
            values[name] = _READERS[kind](value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"The field `{name}` is declared as {kind}. Received: {value!r:.80}.") from None
    return values


def _keyword(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()
    return value


def _keywords(value: Any) -> list[str]:
    if isinstance(value, str):
        value = [part for part in value.split(_SEPARATOR) if part]
    if not isinstance(value, list | tuple):
        raise TypeError
    return sorted({_keyword(part) for part in value})


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    number = int(value)
    if number not in _INT64:
        raise OverflowError
    return number


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    number = float(value)
    if not math.isfinite(number) or abs(number) > 3.4e38:
        raise OverflowError
    return number


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "1": True, "false": False, "0": False}
    if isinstance(value, int | str) and str(value).lower() in known:
        return known[str(value).lower()]
    raise TypeError


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "keyword": _keyword,
    "keywords": _keywords,
    "int": _int,
    "float": _float,
    "bool": _bool,
}
