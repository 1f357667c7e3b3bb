"""Replays the warm-up requests of a model before it receives traffic.

`assets.extra/tf_serving_warmup_requests` is a TFRecord file of `PredictionLog` messages, which TensorFlow
Serving reads as well. A model without it is served without warm-up. A model that fails on it is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import google_crc32c
from google.protobuf.message import DecodeError

from serving.server.protos import prediction_log_pb2
from serving.server.requests.call import decode_request
from serving.server.status import Code, RequestError, invalid_argument
from xtr_tf.runtime import SavedModelSession

REQUESTS_FILE = Path("assets.extra") / "tf_serving_warmup_requests"
MAX_REQUESTS = 1000
_MAX_ELEMENTS = 1 << 24


def warm_up(session: SavedModelSession, background: bool = False) -> int:
    """Runs all warm-up requests of a loaded model.

    The first call of a signature takes seconds on one core, so signatures are warmed up in parallel. The
    requests of each run in order.

    Args:
        session: The loaded model.
        background: Whether to warm up one signature at a time, on the threads for loading.

    Returns:
        The number of requests.

    Raises:
        RequestError: The file is damaged or has too many requests, or a request fails.
    """
    file = session.directory / REQUESTS_FILE
    if not file.is_file():
        return 0
    requests = [_parse(record, file) for record in islice(read_records(file), MAX_REQUESTS + 1)]
    if len(requests) > MAX_REQUESTS:
        raise invalid_argument(f"Number of warmup records exceeds the maximum ({MAX_REQUESTS}) at {file}")
    by_signature: dict[str, list[Any]] = {}
    for request in requests:
        by_signature.setdefault(request.model_spec.signature_name, []).append(request)
    threads_wanted = 1 if background else len(by_signature) or 1
    with ThreadPoolExecutor(threads_wanted, thread_name_prefix="warm-up") as threads:
        for _ in threads.map(partial(_replay, session, background), by_signature.values()):
            pass  # raises what a thread raised
    return len(requests)


def _parse(record: bytes, file: Path) -> Any:
    try:
        log = prediction_log_pb2.PredictionLog.FromString(record)
    except DecodeError:
        raise invalid_argument(f"Failed to parse warmup record from {file}") from None
    kind = log.WhichOneof("log_type")
    if kind != "predict_log":
        raise RequestError(Code.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind}")
    return log.predict_log.request


def _replay(session: SavedModelSession, background: bool, requests: Sequence[Any]) -> None:
    for request in requests:
        call = decode_request(request, session, _MAX_ELEMENTS)
        session.run_checked(call.signature, call.inputs, background=background)


def read_records(file: Path) -> Iterator[bytes]:
    """Reads the records of a TFRecord file.

    Args:
        file: The file to read.

    Yields:
        The bytes of each record.

    Raises:
        RequestError: DATA_LOSS, if a checksum is wrong or the file ends in the middle of a record.
    """
    with file.open("rb") as stream:
        while header := stream.read(12):
            length_bytes, checksum = header[:8], header[8:]
            if len(checksum) < 4 or _masked_crc(length_bytes) != checksum:
                raise _damaged(file)
            (length,) = struct.unpack("<Q", length_bytes)
            data = stream.read(length)
            if len(data) < length or _masked_crc(data) != stream.read(4):
                raise _damaged(file)
            yield data


def _damaged(file: Path) -> RequestError:
    return RequestError(
        Code.DATA_LOSS,
        f"corrupted record in {file}. Please verify your warmup data is in TFRecord format.",
    )


def _masked_crc(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    # TFRecord masks checksums, because a CRC of data that contains CRCs is weak.
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked)
