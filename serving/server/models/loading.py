"""From a version's directory to a model that is ready for requests, or the reason why there is none.

Runs on a thread, and knows nothing of which versions are wanted. While others answer requests, it keeps
out of their way: it has threads of its own for TensorFlow, of low priority.
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
    directory: Path, options: SessionOptions, beside_others: bool
) -> tuple[SavedModelSession, int]:
    """Loads a version and warms it up.

    Args:
        directory: The version.
        options: How TensorFlow runs it.
        beside_others: Whether requests are being answered meanwhile.

    Returns:
        The model, and how many warm-up requests it has answered.
    """
    check_whole(directory)
    check_room_for(needed_bytes(directory))
    if beside_others:
        options = dataclasses.replace(options, loading_threads=1)
    session = SavedModelSession(directory, options=options)
    try:
        warmed = warm_up(session, background=beside_others)
    except Exception as error:
        session.close()
        reason = as_request_error(error)
        raise RequestError(reason.code, f"Warm-up failed: {reason.message}") from None
    # The first run of each signature leaves tens of megabytes of scratch behind.
    release_free_memory()
    if not beside_others:
        # Loading runs code that requests do not; those in progress would have to fetch theirs again.
        release_unused_code()
    return session, warmed


def as_request_error(error: Exception) -> RequestError:
    """Returns what a request would be told of an error while loading."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, StatusError):
        return RequestError(Code(error.code), error.message)
    if isinstance(error, InputError):
        return RequestError(Code.INVALID_ARGUMENT, str(error))
    return RequestError(Code.INTERNAL, f"{type(error).__name__}: {error}")
