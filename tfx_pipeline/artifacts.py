"""The artifact types that only a token retriever needs, beside TFX's own.

Vertex asks for names of the form `namespace.Type` and for no declared properties: what is worth
recording goes into custom properties.
"""

from __future__ import annotations

from tfx.types.artifact import Artifact


class TokenVectors(Artifact):
    """A corpus encoded to token vectors: the folder that `xtr-tf encode` writes."""

    TYPE_NAME = "xtr.TokenVectors"


class TokenIndex(Artifact):
    """A search index over token vectors: the folder that `xtr-tf index` writes."""

    TYPE_NAME = "xtr.TokenIndex"


class DataGate(Artifact):
    """Data that may be trained on and served: its statistics, which the next data are compared with."""

    TYPE_NAME = "xtr.DataGate"


#: All of them, for those who must find a type by its name.
OWN_TYPES = (TokenVectors, TokenIndex, DataGate)
