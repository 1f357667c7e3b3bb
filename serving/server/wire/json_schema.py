"""The part of JSON Schema that the server's own endpoints are described in, and its check.

What `/openapi.json` shows of a request is what a request is checked by, so that the two cannot disagree.
Knows nothing of models or searching.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import Any

from serving.server.status import RequestError, invalid_argument

Schema = dict[str, Any]

_INT32 = 2**31 - 1


def text(description: str, *choices: str) -> Schema:
    """A string, one of `choices` if there are any."""
    return {"type": "string", "description": description, **({"enum": list(choices)} if choices else {})}


def whole(description: str, least: int, most: int = _INT32) -> Schema:
    """A whole number."""
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}


def number(description: str, least: float, most: float) -> Schema:
    """A number."""
    return {"type": "number", "minimum": least, "maximum": most, "description": description}


def flag(description: str) -> Schema:
    """True or false; false if left out."""
    return {"type": "boolean", "default": False, "description": description}


def many(description: str, items: Schema, least: int = 0, most: int | None = None) -> Schema:
    """A list."""
    bound = {} if most is None else {"maxItems": most}
    return {"type": "array", "items": items, "minItems": least, **bound, "description": description}


def record(properties: Mapping[str, Schema], required: tuple[str, ...] = (), closed: bool = True) -> Schema:
    """An object; a closed one has no other properties than these."""
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False} if closed else schema


def check_body(document: Mapping[str, Any], schema: Schema) -> None:
    """Checks a request against its schema.

    Raises:
        RequestError: INVALID_ARGUMENT, one sentence about the first thing that is wrong.
    """
    known = schema["properties"]
    for name, value in document.items():
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean `{nearest[0]}`?" if nearest else "."
            raise invalid_argument(f"A request may have {', '.join(known)}{meant} Received: `{name:.40}`.")
        if not _fits(value, known[name]):
            raise _wrong(name, known[name], value)
    for name in schema.get("required", ()):
        if name not in document:
            raise invalid_argument(f"A request needs `{name}`, {said(known[name])}. Received: none.")


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
    # 2.0 is a whole number in JSON Schema.
    return math.isfinite(value) and (kind == "number" or isinstance(value, int) or value.is_integer())


def _has_length(value: list[Any], schema: Schema) -> bool:
    return bool(schema["minItems"] <= len(value) <= schema.get("maxItems", len(value)))


def said(schema: Schema) -> str:
    """What a value must be, in words."""
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
    return {"string": "a text", "boolean": "true or false"}[kind]
