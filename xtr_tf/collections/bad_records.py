"""Counts records that cannot be used, and stops when there are too many."""

from __future__ import annotations

import logging
from pathlib import Path

from xtr_tf.errors import InputError

_LOGGER = logging.getLogger(__name__)
_SHOWN = 5


class BadRecords:
    """The records skipped so far.

    Args:
        limit: How many may be skipped before reading stops.

    Attributes:
        count: Records skipped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.count = 0

    def skip(self, path: str | Path, line: int, reason: str) -> None:
        """Notes that a record is left out.

        Args:
            path: The file.
            line: Line (or record) number, from 1.
            reason: What is wrong with it.

        Raises:
            InputError: The limit is passed.
        """
        self.count += 1
        if self.count > self._limit:
            raise InputError(
                f"More than {self._limit} bad records; mend the data, or raise `data.max_bad_records`. "
                f"Received: {path}, line {line}: {reason}."
            )
        if self.count <= _SHOWN:
            _LOGGER.warning("Skipped %s, line %d: %s.", path, line, reason)

    def report(self) -> None:
        """Logs how many were skipped, if any were."""
        if self.count:
            _LOGGER.warning("Skipped %d bad records in all.", self.count)
