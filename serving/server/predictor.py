"""Answers prediction and model requests, whichever API they came by.

The one place where a request meets a model: it is checked against the limits, given a version, and run.
Knows nothing of protocols.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from serving.server.models.versions import Version
from serving.server.requests.call import ModelCall, Signatures
from serving.server.requests.limits import Limits
from serving.server.requests.observer import RequestRecord
from serving.server.status import invalid_argument, not_found


@dataclasses.dataclass(frozen=True)
class Target:
    """Which model a request means: by version, by label, or the latest."""

    name: str
    version: int | None = None
    label: str | None = None

    @classmethod
    def from_proto(cls, message: Any) -> Target:
        """Reads the `ModelSpec` of a request message."""
        if not message.HasField("model_spec"):
            raise invalid_argument("Missing ModelSpec")
        spec = message.model_spec
        if not spec.name:
            raise invalid_argument("ModelSpec has no name specified.")
        choice = spec.WhichOneof("version_choice")
        return cls(
            spec.name,
            spec.version.value if choice == "version" else None,
            spec.version_label if choice == "version_label" else None,
        )


@dataclasses.dataclass(frozen=True)
class Prediction:
    """A model's answer, and who gave it."""

    outputs: dict[str, np.ndarray]
    name: str
    version: int
    signature: str


class Answering(Protocol):
    """A version that takes requests: a loaded model, or a collection of them."""

    name: str
    version: int

    @property
    def session(self) -> Signatures:
        """What it takes."""

    async def run(self, call: ModelCall) -> dict[str, np.ndarray]:
        """Answers."""


class Models(Protocol):
    """What knows which version answers."""

    def lease(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> AbstractContextManager[Answering]:
        """Finds the version that is to answer and keeps it for the length of a request."""

    def states(self, name: str) -> list[Version]:
        """Returns all versions of a model that are known, lowest first."""

    def labelled(self, name: str, label: str) -> int:
        """Returns the version that a label stands for."""


class Predictor:
    """Runs requests on the right version within the limits.

    Args:
        manager: The loaded models.
        limits: Bounds on a request.
    """

    def __init__(self, manager: Models, limits: Limits) -> None:
        self._manager = manager
        self._limits = limits

    async def predict(
        self,
        target: Target,
        decode: Callable[[Signatures, int], ModelCall],
        record: RequestRecord,
    ) -> Prediction:
        """Runs one request.

        Args:
            target: Which model.
            decode: Makes the checked call for the version that was chosen, given the model and the
                number of elements that an input may have.
            record: Told what was asked of whom.
        """
        record.model = target.name
        with self._manager.lease(target.name, target.version, target.label) as servable:
            record.version = servable.version
            decoded = decode(servable.session, self._limits.max_message_bytes)
            call = dataclasses.replace(decoded, deadline=record.deadline)
            record.signature = call.signature.name
            record.rows = self._limits.check(call.inputs)
            outputs = await servable.run(call)
        return Prediction(outputs, servable.name, servable.version, call.signature.name)

    def signature_defs(self, target: Target, record: RequestRecord) -> tuple[int, Mapping[str, Any]]:
        """Returns the version that answers and its `SignatureDef`s by name."""
        record.model = target.name
        with self._manager.lease(target.name, target.version, target.label) as servable:
            record.version = servable.version
            return servable.version, servable.session.signature_defs

    def states(self, target: Target, record: RequestRecord) -> list[Version]:
        """Returns the states of one version or of all of a model."""
        record.model = target.name
        versions = self._manager.states(target.name)
        number = target.version
        if target.label is not None:
            number = self._manager.labelled(target.name, target.label)
        if number is not None:
            versions = [version for version in versions if version.number == number]
            if not versions:
                raise not_found(f"Could not find version {number} of model {target.name}")
        if not versions:
            raise not_found(f"Could not find any versions of model {target.name}")
        return versions
