"""One line on standard error that says how far a job is: redrawn on a terminal, rare elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xtr_tf.vectors.job import Progress


_SECONDS_BETWEEN_LINES = 30.0


class ProgressLine:
    """Shows `Progress`; use as a context manager, which ends the line."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown_at = time.monotonic()
        self._open = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open:
            sys.stderr.write("\n")

    def show(self, progress: Progress) -> None:
        """Draws the line anew, or adds one if the last is old."""
        line = describe(progress)
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{line}")
            self._open = True
        elif time.monotonic() - self._shown_at >= _SECONDS_BETWEEN_LINES:
            sys.stderr.write(f"{line}\n")
            self._shown_at = time.monotonic()
        sys.stderr.flush()


def describe(progress: Progress) -> str:
    """The line, such as `encode 3/40 shards, 3,072/40,960 documents, 5,120 tokens/s, 4 min left`."""
    line = (
        f"encode {progress.shards}/{progress.all_shards} shards, "
        f"{progress.documents:,}/{progress.all_documents:,} documents, "
        f"{progress.tokens_per_second:,.0f} tokens/s"
    )
    left = progress.seconds_left
    if left is None:
        return line
    return f"{line}, {left / 60:.0f} min left" if left >= 60 else f"{line}, {left:.0f} s left"
