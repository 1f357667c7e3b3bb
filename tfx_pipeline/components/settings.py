"""Settings as a component's execution property holds them: one JSON object."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from xtr_tf.config.loading import from_mapping, to_mapping
from xtr_tf.errors import InputError

Settings = TypeVar("Settings")


def settings_to_json(settings: Any) -> str:
    """Writes settings with sorted keys: equal settings are equal text, which caching compares."""
    return json.dumps(to_mapping(settings), sort_keys=True)


def settings_from_json(kind: type[Settings], text: str | None) -> Settings:
    """Reads settings; empty text gives the defaults.

    Raises:
        InputError: The text is not such an object; nothing unknown is passed over.
    """
    try:
        content = json.loads(text or "{}")
    except ValueError as error:
        raise InputError(
            f"Settings of a component are a JSON object ({error}). Received: {text!r}."
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"Settings of a component are a JSON object. Received: {text!r}.")
    return from_mapping(kind, content)
