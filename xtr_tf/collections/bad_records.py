"""What happens to a record that cannot be used: a broken line, a document without an id, a bad grade.

Readers never decide that themselves: they call an `OnBadRecord` with the file, the line and the
reason, and read on if it returns.

- The documents of a corpus are left out and counted by reason: see `CorpusReader.skipped`, which
  `xtr-tf encode` prints and the manifest of the vectors keeps.
- Training and development sets skip up to `data.max_bad_records` of anything: `BadRecords`.
- Queries and judgements of an evaluation are never skipped: `refuse`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from xtr_tf.errors import InputError

_LOGGER = logging.getLogger(__name__)
_SHOWN = 5

#: Told the file, the line (or record) from 1, and what is wrong with it.
OnBadRecord = Callable[[Path, int, str], None]


def refuse(path: Path, line: int, reason: str) -> NoReturn:
    """Ends the reading."""
    raise InputError(
        f"A record of a dataset cannot be used ({reason}); fix the file. Received: {path!s}, line {line}."
    )


def ignore(path: Path, line: int, reason: str) -> None:
    """Leaves the record out and says nothing."""


class BadRecords:
    """The records skipped so far, of which there may be only this many.

    Args:
        limit: How many may be skipped before reading stops; between 0 and 1, which share of all records,
            looked at when all are read.

    Attributes:
        count: Records skipped.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._is_share = 0 < limit < 1
        self._first = ""
        self.count = 0

    def skip(self, path: str | Path, line: int, reason: str) -> None:
        """Notes that a record is left out; an `OnBadRecord`.

        Raises:
            InputError: The limit is passed.
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
        """Notes that a judged document is not in its corpus: a bad record, unless a subclass knows better."""
        self.skip(dataset, number, f"document {document!r} of query {query!r} is absent")

    def report(self, usable: int) -> None:
        """Logs how many were skipped, if any were.

        Args:
            usable: Records that were not.

        Raises:
            InputError: The share that may be skipped is passed.
        """
        every = self.count + usable
        if self._is_share and self.count > self._limit * every:
            raise InputError(
                f"{self.count} of {every} records are bad, more than {self._limit:.1%}; fix the data, or "
                f"raise `data.max_bad_records`. Received: {self._first}."
            )
        if self.count:
            _LOGGER.warning("Skipped %d bad records in all.", self.count)
