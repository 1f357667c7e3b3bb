"""The artifact types that only a token retriever needs, beside TFX's own.

Vertex asks for names of the form `namespace.Type` and for no declared properties: what is worth
recording goes into custom properties.
"""

from __future__ import annotations

from tfx.v1 import dsl


class TokenVectors(dsl.Artifact):
    """A corpus encoded to token vectors: the folder that `xtr-tf encode` writes."""

    TYPE_NAME = "xtr.TokenVectors"


class TokenIndex(dsl.Artifact):
    """A search index over token vectors: the folder that `xtr-tf index` writes."""

    TYPE_NAME = "xtr.TokenIndex"
