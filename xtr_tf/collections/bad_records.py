"""What happens to a record that cannot be used: a broken line, a document without an id, a bad grade.

Readers do not decide this themselves. They call an `OnBadRecord` with the file, the line and the reason,
and continue if it returns.

- Documents of a corpus are skipped and counted by reason, see `CorpusReader.skipped`. `xtr-tf encode`
  prints the counts, and the manifest of the vectors keeps them.
- Training and development sets skip up to `data.max_bad_records` records, see `BadRecords`.
- Queries and judgements of an evaluation are never skipped, see `refuse`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from xtr_tf.errors import InputError

_LOGGER = logging.getLogger(__name__)
_SHOWN = 5

#: Called with the file, the number of the line or record (from 1), and what is wrong with it.
OnBadRecord = Callable[[Path, int, str], None]


def refuse(path: Path, line: int, reason: str) -> NoReturn:
    """Raises `InputError`; an `OnBadRecord`.

    Args:
        path: The file.
        line: Number of the line or record, from 1.
        reason: What is wrong with it.

    Raises:
        InputError: Always.
    """
    raise InputError(
        f"A record of a dataset cannot be used ({reason}); fix the file. Received: {path!s}, line {line}."
    )


def ignore(path: Path, line: int, reason: str) -> None:
    """Skips the record silently; an `OnBadRecord`."""


class BadRecords:
    """Counts skipped records, up to a limit.

    Args:
        limit: Number of records that may be skipped before reading stops. Between 0 and 1 it is a share of
            all records, which is checked at the end.

    Attributes:
        count: Records skipped so far.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._is_share = 0 < limit < 1
        self._first = ""
        self.count = 0

    def skip(self, path: str | Path, line: int, reason: str) -> None:
        """Skips a record; an `OnBadRecord`.

        Args:
            path: The file.
            line: Number of the line or record, from 1.
            reason: What is wrong with it.

        Raises:
            InputError: The limit is exceeded.
        """
        self.count += 1
        self._first = self._first or f"{path}, line {line}: {reason}"
        if self.count > self._limit and not self._is_share:
            raise InputError(
                f"More than {self._limit:g} bad records; fix the data, or raise `data.max_bad_records`. "
                f"Received: {path}, line {line}: {reason}."
            )
        if self.count <= _SHOWN:
            _LOGGER.warning("Skipped %s, line %d: %s.", path, line, reason)

    def miss_document(self, dataset: str, number: int, query: str, document: str) -> None:
        """Skips a judgement whose document is not in the corpus; subclasses may allow it."""
        self.skip(dataset, number, f"document {document!r} of query {query!r} is absent")

    def report(self, usable: int) -> None:
        """Logs the number of skipped records, if there are any.

        Args:
            usable: Number of records that were not skipped.

        Raises:
            InputError: The share of skipped records exceeds the limit.
        """
        every = self.count + usable
        if self._is_share and self.count > self._limit * every:
            raise InputError(
                f"{self.count} of {every} records are bad, more than {self._limit:.1%}; fix the data, or "
                f"raise `data.max_bad_records`. Received: {self._first}."
            )
        if self.count:
            _LOGGER.warning("Skipped %d bad records in all.", self.count)
