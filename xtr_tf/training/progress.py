"""Shows a run to its user: a progress bar (or lines without a terminal), curves, and interruption.

Knows steps, metrics by name and signals, but nothing about models or checkpoints.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import tensorflow as tf
from rich.console import Console

from xtr_tf.progress import Tracked, shown, track


class TrainingProgress:
    """Shows loss, tokens per second and time left, and writes curves.

    Args:
        directory: Folder of the TensorBoard files.
        steps: Number of updates of the whole run.
        start: Number of updates made before.
        log_every: Steps between points of the curves.
        enabled: Whether to show and write at all. Only one of several processes does.
        quiet: Whether to write curves without showing progress.
    """

    def __init__(
        self,
        directory: Path,
        steps: int,
        start: int,
        log_every: int,
        enabled: bool = True,
        quiet: bool = False,
    ) -> None:
        self._enabled = enabled
        self._log_every = log_every
        self._steps = steps
        self._start = start
        self._quiet = quiet
        self._console = Console(stderr=True, quiet=quiet or not enabled)
        self._watched = ExitStack()
        self._bar = Tracked()
        self._writer = tf.summary.create_file_writer(str(directory)) if enabled else None
        self._tokens, self._since = 0.0, time.monotonic()

    def __enter__(self) -> TrainingProgress:
        if self._start:
            self._console.print(f"continues after step {self._start} of {self._steps}", highlight=False)
        if self._enabled and self._console.is_terminal:  # without a terminal, prints a line per `log_every`
            self._watched.enter_context(shown(quiet=self._quiet))
        if self._enabled:
            self._bar = self._watched.enter_context(track("train", self._steps, "steps", done=self._start))
        return self

    def __exit__(self, *_: object) -> None:
        self._watched.close()
        if self._writer is not None:
            self._writer.close()

    def update(self, step: int, metrics: dict[str, float]) -> None:
        """Shows a step's metrics.

        Args:
            step: Number of updates made, including this one.
            metrics: Metrics by name, at least `loss` and `tokens`.
        """
        if not self._enabled:
            return
        self._tokens += metrics["tokens"]
        elapsed = max(time.monotonic() - self._since, 1e-9)
        status = f"loss {metrics['loss']:.4f}  {self._tokens / elapsed:,.0f} tokens/s"
        self._bar.update(done=step, note=status)
        if step % self._log_every and step != self._steps:
            return
        if not self._console.is_terminal:
            self._console.print(f"step {step}/{self._steps}  {status}", highlight=False)
        curves = {name: value for name, value in metrics.items() if name != "tokens"}
        self._write("training", step, {**curves, "tokens_per_second": self._tokens / elapsed})
        self._tokens, self._since = 0.0, time.monotonic()

    def show_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Shows the development metrics of a step. The time they took does not count as training time.

        Args:
            step: Number of updates made.
            metrics: Metrics by name.
        """
        if not self._enabled:
            return
        headline = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items() if "/" not in name)
        self._console.print(f"step {step}  dev  {headline}", highlight=False)
        self._write("dev", step, metrics)
        self._tokens, self._since = 0.0, time.monotonic()

    def _write(self, group: str, step: int, metrics: dict[str, float]) -> None:
        assert self._writer is not None
        with self._writer.as_default(step=step):
            for name, value in metrics.items():
                tf.summary.scalar(f"{group}/{name}", value)
        self._writer.flush()


class TrainingInterruptedError(Exception):
    """Training stopped on request. Running it again continues.

    Attributes:
        step: Number of updates made, all of them in the latest checkpoint.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped at step {step}; run the same command to continue.")
        self.step = step


class InterruptionFlag:
    """A context manager that records a signal instead of ending the process. A second signal ends it.

    Attributes:
        raised: Whether a signal was received.
    """

    def __init__(self) -> None:
        self.raised = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> InterruptionFlag:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.raised = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous = {}
