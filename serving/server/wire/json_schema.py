"""Schemas of the server's own endpoints, in a subset of JSON Schema, and the check of a request.

`/openapi.json` shows the same schemas that requests are checked against, so the two cannot disagree.
Knows nothing about models or searching.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from serving.server.status import RequestError, invalid_argument

Schema = dict[str, Any]

_INT32 = 2**31 - 1


def text(description: str, *choices: str) -> Schema:
    """Returns the schema of a string.

    Args:
        description: What the string means.
        *choices: Values to choose from. Without any, every string is valid.
    """
    return {"type": "string", "description": description, **({"enum": list(choices)} if choices else {})}


def whole(description: str, least: int, most: int = _INT32) -> Schema:
    """Returns the schema of an integer.

    Args:
        description: What the integer means.
        least: Smallest valid value.
        most: Largest valid value.
    """
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}


def number(description: str, least: float, most: float) -> Schema:
    """Returns the schema of a number.

    Args:
        description: What the number means.
        least: Smallest valid value.
        most: Largest valid value.
    """
    return {"type": "number", "minimum": least, "maximum": most, "description": description}


def flag(description: str) -> Schema:
    """Returns the schema of a boolean that defaults to false."""
    return {"type": "boolean", "default": False, "description": description}


def many(description: str, items: Schema, least: int = 0, most: int | None = None) -> Schema:
    """Returns the schema of a list.

    Args:
        description: What the list means.
        items: Schema of its elements.
        least: Smallest valid length.
        most: Largest valid length. None sets no limit.
    """
    bound = {} if most is None else {"maxItems": most}
    return {"type": "array", "items": items, "minItems": least, **bound, "description": description}


def record(properties: Mapping[str, Schema], required: tuple[str, ...] = (), closed: bool = True) -> Schema:
    """Returns the schema of an object.

    Args:
        properties: Schemas by property name.
        required: Names of the properties that must be present.
        closed: Whether other properties are refused.
    """
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False} if closed else schema


def check_body(document: Mapping[str, Any], schema: Schema) -> None:
    """Checks a request against its schema.

    Args:
        document: The request.
        schema: Schema of an object.

    Raises:
        RequestError: INVALID_ARGUMENT, with one sentence about the first error.
    """
    known = schema["properties"]
    for name, value in document.items():
        if name not in known:
            raise invalid_argument(
                f"A request may have {', '.join(known)}{did_you_mean(name, known)} Received: `{name:.40}`."
            )
        if not _fits(value, known[name]):
            raise _wrong(name, known[name], value)
    for name in schema.get("required", ()):
        if name not in document:
            raise invalid_argument(
                f"A request needs `{name}`, {said(known[name])}. Received: {names_in(document)}."
            )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns the end of a sentence about an unknown name.

    Args:
        name: The unknown name.
        known: The names to choose from.

    Returns:
        A question with the most similar name, or a full stop if none is similar.

    Example:
        >>> did_you_mean("topk", ["query", "top_k"])
        '; did you mean `top_k`?'
    """
    nearest = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean `{nearest[0]}`?" if nearest else "."


def names_in(document: Mapping[str, Any]) -> str:
    """Returns the property names of a request, for an error about one that is missing."""
    return f"{', '.join(document) or 'an empty object':.80}"


def _wrong(name: str, schema: Schema, value: Any) -> RequestError:
    if isinstance(value, list) and schema["type"] == "array" and _has_length(value, schema):
        place = next(place for place, item in enumerate(value) if not _fits(item, schema["items"]))
        return invalid_argument(
            f"`{name}` must be {said(schema)}. Received: {value[place]!r:.80} at position {place}."
        )
    received = f"{len(value)} of them" if isinstance(value, list) and value else f"{value!r:.80}"
    return invalid_argument(f"`{name}` must be {said(schema)}. Received: {received}.")


def _fits(value: Any, schema: Schema) -> bool:
    if "anyOf" in schema:
        return any(_fits(value, option) for option in schema["anyOf"])
    kind = schema["type"]
    if kind == "string":
        return isinstance(value, str) and value in schema.get("enum", (value,))
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "array":
        return (
            isinstance(value, list)
            and _has_length(value, schema)
            and all(_fits(item, schema["items"]) for item in value)
        )
    if kind == "object":
        properties, required = schema["properties"], schema.get("required", ())
        return (
            isinstance(value, dict)
            and all(name in value for name in required)
            and all(_fits(value[name], part) for name, part in properties.items() if name in value)
        )
    return _is_number(value, kind) and schema["minimum"] <= value <= schema["maximum"]


def _is_number(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    # 2.0 is an integer in JSON Schema.
    return math.isfinite(value) and (kind == "number" or isinstance(value, int) or value.is_integer())


def _has_length(value: list[Any], schema: Schema) -> bool:
    return bool(schema["minItems"] <= len(value) <= schema.get("maxItems", len(value)))


def said(schema: Schema) -> str:
    """Returns what a value must be, in words.

    Args:
        schema: Schema of the value.

    Returns:
        A phrase that fits after "must be".
    """
    if "anyOf" in schema:
        return " or ".join(said(option) for option in schema["anyOf"])
    kind = schema["type"]
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if kind == "array":
        most = f"{schema['minItems']} to {schema['maxItems']}" if "maxItems" in schema else "any number"
        return f"a list of {most}, each {said(schema['items'])}"
    if kind == "object":
        return f"an object with {', '.join(f'`{name}`' for name in schema['properties'])}"
    if kind in ("integer", "number"):
        name = "a whole number" if kind == "integer" else "a number"
        return f"{name} between {schema['minimum']:g} and {schema['maximum']:.10g}"
    return {"string": "a string", "boolean": "true or false"}[kind]
