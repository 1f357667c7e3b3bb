"""Typed document fields that a corpus declares: their names, and how to read their values.

A record may lack a declared field. A value of another type is an error: skipping the document would make
filters on the field wrong. Knows nothing about how fields are stored or queried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from xtr_tf.collections.document import ID_FIELDS, LANGUAGE_FIELDS, TEXT_FIELDS, TITLE_FIELDS
from xtr_tf.errors import InputError

#: The types of fields: a text, several texts, and numbers.
KINDS = ("keyword", "keywords", "int", "float", "bool")
#: Where BEIR keeps all fields other than title and text.
METADATA = "metadata"
# Separates several texts in formats without lists.
_SEPARATOR = "|"
_RESERVED = frozenset({*ID_FIELDS, *TEXT_FIELDS, *TITLE_FIELDS, *LANGUAGE_FIELDS, METADATA})
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_INT64 = range(-(2**63) + 1, 2**63)

Fields = Mapping[str, str]


def check_fields(fields: Fields) -> None:
    """Raises `InputError` unless all names and types are valid."""
    for name, kind in fields.items():
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise InputError(
                "The name of a field has letters, digits and underscores, and must not be one of "
                f"{', '.join(sorted(_RESERVED))}. Received: {name!r}."
            )
        if kind not in KINDS:
            raise InputError(f"A field's type is one of {', '.join(KINDS)}. Received: {kind!r} for `{name}`.")


def parse_declarations(declarations: list[str]) -> dict[str, str]:
    """Parses field declarations of the form `name:type`.

    Args:
        declarations: The declarations, such as `["year:int"]`.

    Returns:
        Types by name.

    Raises:
        InputError: A declaration has another form, or declares a field twice.
    """
    fields: dict[str, str] = {}
    for declaration in declarations:
        name, colon, kind = declaration.partition(":")
        if not colon or name in fields:
            raise InputError(
                f"Declare each field once, as name:type, such as year:int. Received: {declaration!r}."
            )
        fields[name] = kind
    check_fields(fields)
    return fields


def read_fields(record: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """Reads the declared fields of a record.

    Args:
        record: The record. Fields that it lacks are looked up in its `metadata`.
        fields: Names and types of the fields.

    Returns:
        Values by name: `str`, a sorted list of `str`, `int`, `float` or `bool`. Missing fields are left out.

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
