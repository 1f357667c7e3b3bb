"""Turns SIGTERM and Ctrl-C into a flag, so that a step is finished and a checkpoint written first."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class TrainingInterruptedError(Exception):
    """Training stopped on request; running it again continues.

    Attributes:
        step: Updates made, all of them in the latest checkpoint.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped at step {step}; run the same command to continue.")
        self.step = step


class InterruptionFlag:
    """A context that notes signals instead of ending the process. A second signal ends it.

    Attributes:
        raised: Whether a signal came.
    """

    def __init__(self) -> None:
        self.raised = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> InterruptionFlag:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.raised = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}
