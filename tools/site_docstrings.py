"""A griffe extension for the documentation site that shows `Example:` sections of docstrings as code.

griffe calls the section `Examples:` and shows sections with other names as text, in which `[(8, 128)]` would
become a link.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section for griffe if it contains a doctest."""

    def on_object(self, *, obj: griffe.Object, loader: Any, **kwargs: Any) -> None:
        """Called for every function, class and module."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:(?=\n\s+>>>)", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
