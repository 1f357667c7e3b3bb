"""One server of a partition: calls over gRPC, the known state of the server, and its load.

Knows TensorFlow Serving's messages, but nothing about the content of calls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import grpc
import numpy as np

from serving.server.collection.addresses import Address
from serving.server.protos import (
    MODEL_SERVICE,
    PREDICTION_SERVICE,
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
)
from serving.server.status import Code, RequestError, State
from serving.server.tensor_protos import TensorParsingError, fill_proto, to_array

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_MAX_ELEMENTS = 1 << 31
_STATUS_SECONDS = 2.0
# A server that failed is avoided for this long, twice as long each time, unless there is no other.
_FIRST_REST, _LONGEST_REST = 0.5, 30.0


class ServedVersion(NamedTuple):
    """The state of a version that a server reported.

    Attributes:
        is_available: Whether the version is available.
        error: Error message of the version, or "".
    """

    is_available: bool
    error: str


class Replica:
    """A server with one partition.

    Args:
        address: Address of the server.
        credentials: TLS credentials, or None for plain text.
        token: Bearer token, if the server requires one.

    Attributes:
        outstanding: Number of calls in progress, counted by the caller.
        versions: Last reported state of each version, by number.
        refused: Versions that do not match the collection, with the reason.
        proved: Versions that match the collection.
    """

    def __init__(
        self, address: Address, credentials: grpc.ChannelCredentials | None = None, token: str | None = None
    ) -> None:
        self.address = address
        self.outstanding = 0
        self.versions: dict[int, ServedVersion] = {}
        self.refused: dict[int, str] = {}
        self.proved: set[int] = set()
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._rest = 0.0
        self._rests_until = 0.0
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(address.target, _OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(address.target, credentials, _OPTIONS)
        self._predict = self._channel.unary_unary(f"/{PREDICTION_SERVICE}/Predict")
        self._metadata_of = self._channel.unary_unary(f"/{PREDICTION_SERVICE}/GetModelMetadata")
        self._status = self._channel.unary_unary(f"/{MODEL_SERVICE}/GetModelStatus")

    def may_answer(self, version: int) -> bool:
        """Returns whether the version is available on this server and matches the collection."""
        known = self.versions.get(version)
        return known is not None and known.is_available and version in self.proved

    def release(self) -> None:
        """Counts a call as done."""
        self.outstanding -= 1

    @property
    def is_resting(self) -> bool:
        """Whether a recent call failed, so that the server is avoided for a while."""
        return time.monotonic() < self._rests_until

    async def predict(
        self,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        version: int,
        seconds: float,
    ) -> dict[str, np.ndarray]:
        """Runs a signature of a version.

        Args:
            signature: Name of the signature.
            inputs: Inputs by name.
            outputs: Names of the outputs to return.
            version: Version that must answer.
            seconds: Timeout in seconds.

        Returns:
            The outputs by name.

        Raises:
            RequestError: The server refused the call, with its status code. UNAVAILABLE or DEADLINE_EXCEEDED
                if it did not answer. INTERNAL if the answer cannot be read.
        """
        request = predict_pb2.PredictRequest(output_filter=outputs)
        self._fill(request.model_spec, version)
        request.model_spec.signature_name = signature
        for name, array in inputs.items():
            fill_proto(request.inputs[name], array, as_content=True)
        raw = await self._call(self._predict, request, seconds)
        response = predict_pb2.PredictResponse.FromString(raw)
        try:
            return {name: to_array(response.outputs[name], _MAX_ELEMENTS) for name in outputs}
        except TensorParsingError as error:
            raise RequestError(
                Code.INTERNAL, f"The answer of {self.address} cannot be read: {error}."
            ) from None

    async def signature_defs(self, version: int, seconds: float) -> dict[str, Any]:
        """Returns the `SignatureDef`s of a version by name.

        Args:
            version: Number of the version.
            seconds: Timeout in seconds.

        Returns:
            The signatures.

        Raises:
            RequestError: The server refused the call or did not answer.
        """
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        self._fill(request.model_spec, version)
        raw = await self._call(self._metadata_of, request, seconds)
        response = get_model_metadata_pb2.GetModelMetadataResponse.FromString(raw)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        return dict(signatures.signature_def)

    async def ask_state(self) -> None:
        """Updates `versions`. They become empty if the call fails, but stay if it only times out."""
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self.address.model
        try:
            raw = await self._call(self._status, request, _STATUS_SECONDS)
        except RequestError as error:
            if error.code != Code.DEADLINE_EXCEEDED:
                self.versions = {}
            return
        response = get_model_status_pb2.GetModelStatusResponse.FromString(raw)
        self.versions = {
            status.version: ServedVersion(status.state == State.AVAILABLE, status.status.error_message)
            for status in response.model_version_status
        }
        # A version that was gone is checked again if it comes back, because it may be another one.
        gone = {number for number in (*self.refused, *self.proved) if number not in self.versions}
        for number in gone:
            self.refused.pop(number, None)
            self.proved.discard(number)

    async def close(self) -> None:
        """Closes the connection."""
        await self._channel.close()

    def _fill(self, spec: Any, version: int) -> None:
        spec.name = self.address.model
        spec.version.value = version

    async def _call(self, method: Any, request: Any, seconds: float) -> bytes:
        try:
            answer: bytes = await method(
                request.SerializeToString(), timeout=max(seconds, 0.001), metadata=self._metadata
            )
        except grpc.aio.AioRpcError as error:
            code = Code(error.code().value[0])
            if code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED):
                self._rest = min(_LONGEST_REST, max(_FIRST_REST, 2 * self._rest))
                self._rests_until = time.monotonic() + self._rest
            raise RequestError(code, error.details() or "no reason was given") from None
        self._rest = self._rests_until = 0.0
        return answer
