"""A version of a collection. The rest of the server uses it like any loaded model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from serving.server.collection.request import OF_ANY, SearchRequest, collection_signatures, default_values
from serving.server.collection.search import CollectionSearch
from serving.server.models.servable import Leased
from serving.server.requests.call import ModelCall
from xtr_tf.runtime import Signature


class CollectionSession:
    """The signatures of a collection.

    Args:
        definitions: `SignatureDef`s of its partitions' models, by name.
        partial: Default of the parameter `partial`: `refuse` or `allow`.

    Raises:
        RequestError: The models lack a signature, or have a default that cannot be merged.
    """

    def __init__(self, definitions: Mapping[str, Any], partial: str) -> None:
        self.signature_defs = collection_signatures(definitions, partial)
        self.signatures = {
            name: Signature.from_proto(name, definition) for name, definition in self.signature_defs.items()
        }
        self.defaults = default_values(self.signature_defs["search"], partial)


class CollectionServable(Leased):
    """A version that accepts requests.

    Args:
        name: Name of the collection in requests.
        version: Number of the version.
        session: Signatures of the collection.
        search: Search over the partitions.
        timeout_seconds: Timeout of requests in seconds. An earlier deadline of a request applies instead.
    """

    #: Number of waiting requests. Collections do not batch, so there are none.
    depth = 0

    def __init__(
        self,
        name: str,
        version: int,
        session: CollectionSession,
        search: CollectionSearch,
        timeout_seconds: float,
    ) -> None:
        super().__init__()
        self.name = name
        self.version = version
        self.session = session
        self._search = search
        self._timeout = timeout_seconds

    async def run(self, call: ModelCall) -> dict[str, np.ndarray]:
        """Answers a checked call.

        Args:
            call: The call.

        Returns:
            The outputs by name.

        Raises:
            RequestError: The request cannot be answered. See `SearchRequest.read` and `CollectionSearch`.
        """
        latest = time.monotonic() + self._timeout
        deadline = latest if call.deadline is None else min(call.deadline, latest)
        name = call.signature.name
        if name in OF_ANY:
            return await self._search.ask_any(name, call.inputs, call.outputs, deadline)
        request = SearchRequest.read(name, call.inputs, self.session.defaults)
        return await self._search.run(request, call.outputs, deadline)
