"""An extension of griffe for the documentation site: what follows `Example:` in a docstring is code.

griffe knows the section as `Examples:` and shows any other name as text, in which `[(8, 128)]` is a link.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Names the section as griffe does, wherever it holds a doctest."""

    def on_object(self, *, obj: griffe.Object, loader: Any, **kwargs: Any) -> None:
        """Called for every function, class and module."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:(?=\n\s+>>>)", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
