"""Answers prediction and model requests of all APIs.

Only here does a request meet a model: its version is chosen, it is checked against the limits, and it runs.
Knows nothing about protocols.
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
    """The model that a request names.

    Attributes:
        name: Name of the model.
        version: Version of the model. None if `label` is set, or for the latest version.
        label: Label of the version.
    """

    name: str
    version: int | None = None
    label: str | None = None

    @classmethod
    def from_proto(cls, message: Any) -> Target:
        """Reads the `ModelSpec` of a request message.

        Args:
            message: A request with a field `model_spec`.

        Returns:
            The target.

        Raises:
            RequestError: INVALID_ARGUMENT, if the message names no model.
        """
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
    """The answer of a model.

    Attributes:
        outputs: Arrays by output name.
        name: Name of the model that answered.
        version: Its version.
        signature: The signature that was run.
    """

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
        """The signatures that it answers."""

    async def run(self, call: ModelCall) -> dict[str, np.ndarray]:
        """Runs a checked call and returns its outputs by name."""


class Models(Protocol):
    """Knows which version answers a request."""

    def lease(
        self, name: str, version: int | None = None, label: str | None = None
    ) -> AbstractContextManager[Answering]:
        """Finds the version that answers a request and keeps it loaded until the request ends.

        Args:
            name: Name of the model.
            version: Number of the version. Defaults to the newest one that answers.
            label: Label of the version, instead of its number.

        Returns:
            A context with the version.

        Raises:
            RequestError: There is no such model, version or label, or nothing is loaded yet.
        """

    def states(self, name: str) -> list[Version]:
        """Returns all known versions of a model, lowest first."""

    def labelled(self, name: str, label: str) -> int:
        """Returns the version that has a label.

        Args:
            name: Name of the model.
            label: The label.

        Returns:
            Number of the version.

        Raises:
            RequestError: There is no such model or label.
        """


class Predictor:
    """Runs requests on the right version within the limits.

    Args:
        manager: The loaded models.
        limits: Limits of a request.
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
            target: The model to run.
            decode: Returns the checked call, given the signatures of the chosen version and the largest
                number of elements of an input.
            record: Record of the request, completed here.

        Returns:
            The answer.

        Raises:
            RequestError: No such version answers, the request is invalid, or the model failed.
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
        """Returns the signatures of a model.

        Args:
            target: The model.
            record: Record of the request, completed here.

        Returns:
            The version that answers, and its `SignatureDef`s by name.

        Raises:
            RequestError: No such version answers.
        """
        record.model = target.name
        with self._manager.lease(target.name, target.version, target.label) as servable:
            record.version = servable.version
            return servable.version, servable.session.signature_defs

    def states(self, target: Target, record: RequestRecord) -> list[Version]:
        """Returns the states of one version, or of all versions of a model.

        Args:
            target: The model, with or without a version or label.
            record: Record of the request, completed here.

        Returns:
            The versions, lowest first.

        Raises:
            RequestError: NOT_FOUND, if there is no such model or version.
        """
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
