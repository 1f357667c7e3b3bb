"""Loads a version from its directory, so that it is ready for requests, or says why it cannot.

Runs on a thread and does not know which versions are wanted. While other versions answer requests, TensorFlow
loads the new one on separate threads with low priority, to slow the others down as little as possible.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from serving.server.models.directory import check_room_for, check_whole, needed_bytes
from serving.server.models.warm_up import warm_up
from serving.server.status import Code, RequestError
from xtr_tf.errors import InputError
from xtr_tf.runtime import (
    SavedModelSession,
    SessionOptions,
    StatusError,
    release_free_memory,
    release_unused_code,
)


def load_session(
    directory: Path, options: SessionOptions, while_serving: bool
) -> tuple[SavedModelSession, int]:
    """Loads a version and warms it up.

    Args:
        directory: Directory of the version.
        options: How TensorFlow runs the version.
        while_serving: Whether the server is answering requests at the same time.

    Returns:
        The model, and the number of warm-up requests that it answered.

    Raises:
        RequestError: The version is incomplete, too large for the free memory, or failed its warm-up.
        StatusError: TensorFlow cannot load the version.
        InputError: The directory is not a SavedModel that this server can run.
    """
    check_whole(directory)
    check_room_for(needed_bytes(directory))
    if while_serving:
        options = dataclasses.replace(options, loading_threads=1)
    session = SavedModelSession(directory, options=options)
    try:
        warmed = warm_up(session, background=while_serving)
    except Exception as error:
        session.close()
        reason = as_request_error(error)
        raise RequestError(reason.code, f"Warm-up failed: {reason.message}") from None
    # The first run of each signature leaves tens of megabytes of freed scratch memory.
    release_free_memory()
    if not while_serving:
        # Loading uses code that requests do not. Requests in progress would have to page theirs in again.
        release_unused_code()
    return session, warmed


def as_request_error(error: Exception) -> RequestError:
    """Converts an error of loading into the error that the status of the version shows."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, StatusError):
        return RequestError(Code(error.code), error.message)
    if isinstance(error, InputError):
        return RequestError(Code.INVALID_ARGUMENT, str(error))
    return RequestError(Code.INTERNAL, f"{type(error).__name__}: {error}")
