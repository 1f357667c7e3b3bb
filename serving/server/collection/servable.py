"""A version of a collection, to the rest of the server a loaded model like any other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from serving.server.collection.request import SearchRequest, collection_signatures, default_values
from serving.server.collection.search import CollectionSearch
from serving.server.models.servable import Leased
from serving.server.requests.call import ModelCall
from xtr_tf.runtime import Signature


class CollectionSession:
    """What a collection says of its own inputs and outputs.

    Args:
        definitions: `SignatureDef`s of its partitions' models, by name.
        partial: What the server does without a partition, unless a request says otherwise.
    """

    def __init__(self, definitions: Mapping[str, Any], partial: str) -> None:
        self.signature_defs = collection_signatures(definitions, partial)
        self.signatures = {
            name: Signature.from_proto(name, definition) for name, definition in self.signature_defs.items()
        }
        self.defaults = default_values(self.signature_defs["search"], partial)


class CollectionServable(Leased):
    """A version that takes requests.

    Args:
        name: What requests call the collection.
        version: Its version.
        session: Its signatures.
        search: Asks the partitions.
        timeout_seconds: How long a request without a deadline may take.
    """

    #: Nothing waits here for a batch.
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
        """Answers a checked call."""
        request = SearchRequest.read(call.signature.name, call.inputs, self.session.defaults)
        latest = time.monotonic() + self._timeout
        deadline = latest if call.deadline is None else min(call.deadline, latest)
        return await self._search.run(request, call.outputs, deadline)
