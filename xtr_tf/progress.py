"""Progress of long work: a bar on a terminal or in a notebook, a line every 30 seconds elsewhere.

Code that does long work wraps it in `track` and counts. Code that talks to the user wraps everything in
`shown`. They do not need to know each other, and without `shown` counting costs almost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

Item = TypeVar("Item")

SECONDS_BETWEEN_LINES = 30.0


class Tracked:
    """A task whose progress is counted; made by `track`."""

    def __init__(self, bars: Progress | None = None, task: TaskID | None = None) -> None:
        self._bars = bars
        self._task = task

    def advance(self, count: float = 1) -> None:
        """Counts more units as done."""
        if self._bars is not None and self._task is not None:
            self._bars.advance(self._task, count)

    def update(self, done: float | None = None, total: float | None = None, note: str | None = None) -> None:
        """Sets the number of finished units, the total, or a note such as the loss.

        Args:
            done: Number of finished units.
            total: Total number of units.
            note: A few words about the state.
        """
        if self._bars is not None and self._task is not None:
            fields: dict[str, Any] = {} if note is None else {"note": note}
            self._bars.update(self._task, completed=done, total=total, **fields)


@contextmanager
def track(what: str, total: float | None = None, unit: str = "", done: float = 0) -> Iterator[Tracked]:
    """Counts the progress of a task, which `shown` displays.

    Args:
        what: Name of the task, such as `encode`.
        total: Total number of units; None if unknown.
        unit: Name of the units, such as `tokens`.
        done: Units that an earlier run finished.

    Yields:
        The task to count with.

    Example:
    ```python
    with track("encode", len(documents), "documents") as progress:
        for document in documents:
            encode(document)
            progress.advance()
    ```
    """
    display = _Display.current
    if display is None:
        yield Tracked()
        return
    task = display.bars.add_task(what, total=total, completed=int(done), unit=unit, note="", before=done)
    try:
        yield Tracked(display.bars, task)
    finally:
        display.bars.remove_task(task)


def tracked(items: Iterable[Item], what: str, total: float | None = None, unit: str = "") -> Iterator[Item]:
    """Yields the items, and counts each when the next one is requested.

    Args:
        items: The items to count.
        what: Name of the task, such as `encode`.
        total: Number of items, if known.
        unit: Name of the items, such as `documents`.

    Yields:
        The items.
    """
    with track(what, total, unit) as progress:
        for item in items:
            yield item
            progress.advance()


@contextmanager
def shown(
    console: Console | None = None, quiet: bool = False, seconds: float = SECONDS_BETWEEN_LINES
) -> Iterator[None]:
    """Shows the progress of tasks in the block. Inside another `shown` it does nothing.

    Args:
        console: The console to write to; standard error by default.
        quiet: Whether to show nothing.
        seconds: Seconds between two lines if there is no terminal.
    """
    if quiet or _Display.current is not None:
        yield
        return
    with _Display(console or Console(stderr=True, highlight=False), seconds) as display:
        _Display.current = display
        try:
            yield
        finally:
            _Display.current = None


class _Display:
    """The bars and, if there is no terminal, a thread that prints them as lines."""

    current: _Display | None = None

    def __init__(self, console: Console, seconds: float) -> None:
        self._console = console
        self._seconds = seconds
        self.bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            _Figures(),
            console=console,
            transient=True,
            disable=not draws_bars(console),
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> _Display:
        self.bars.start()
        if not draws_bars(self._console):
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.bars.stop()

    def _print_lines(self) -> None:
        while not self._ended.wait(self._seconds):
            # Outer tasks come first; the innermost one is the most specific.
            parts = [f"{task.description} {figures(task)}".strip() for task in self.bars.tasks]
            if parts:
                self._console.print("; ".join(parts), highlight=False, soft_wrap=True, markup=False)


def draws_bars(console: Console) -> bool:
    """Whether a bar can be redrawn: on a terminal, or in a notebook with ipywidgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


class _Figures(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(figures(task))


def figures(task: Task) -> str:
    """Returns a line such as `3,072/40,960 documents, 512/s, 1:14 left, loss 0.81`, or the elapsed time."""
    unit, note = task.fields.get("unit", ""), task.fields.get("note", "")
    if task.total is None:
        count = f"{task.completed:,.0f} {unit}".strip() if task.completed else ""
    else:
        count = f"{task.completed:,.0f}/{task.total:,.0f} {unit}".strip()
    elapsed = task.elapsed or 0.0
    made = task.completed - task.fields.get("before", 0)
    pace = made / elapsed if elapsed else 0.0
    parts = [count, f"{_rate(pace)}/s" if made else ""]
    if made and task.total is not None:
        parts.append(f"{_clock((task.total - task.completed) / pace)} left")
    else:
        parts.append(_clock(elapsed))
    return ", ".join(part for part in (*parts, note) if part)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
