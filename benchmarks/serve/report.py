"""The report of a benchmark: printed immediately, and kept in a file to quote from."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType


class Report:
    """Prints lines and keeps them; the file of an earlier run stays until this one is complete.

    Args:
        file: The file to write.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines: list[str] = []

    def say(self, line: str) -> None:
        """Prints a line and adds it to the report."""
        print(line, flush=True)
        self._lines.append(line)

    def show_progress(self, line: str) -> None:
        """Prints a line about the progress, which is not part of the report."""
        print(line, flush=True)

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            partial = self._file.with_suffix(".partial")
            partial.write_text("\n".join([*self._lines, ""]), encoding="utf-8")
            partial.rename(self._file)
