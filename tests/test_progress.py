"""What users see of the progress of long work."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from rich.progress import Progress

from xtr_tf.progress import draws_bars, figures, shown, track, tracked


def console_without_terminal() -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, force_terminal=False, width=200), written


def wait_for(written: io.StringIO, text: str) -> None:
    deadline = time.monotonic() + 20
    while text not in written.getvalue():
        assert time.monotonic() < deadline, written.getvalue()
        time.sleep(0.005)


def test_nothing_is_written_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(tracked(range(3), "work", 3)) == [0, 1, 2]
    with shown(quiet=True, seconds=0.001), track("work", 3) as progress:
        progress.advance()
        time.sleep(0.05)
    assert capfd.readouterr() == ("", "")


def test_without_a_terminal_there_is_a_line_now_and_then() -> None:
    console, written = console_without_terminal()
    with shown(console, seconds=0.01), track("outer"), track("encode", 4_000, "documents") as progress:
        progress.update(done=1_000, note="loss 0.5")
        wait_for(written, "\n")
        line = next(line for line in written.getvalue().splitlines() if "encode" in line)
    assert line.startswith("outer 0:00; encode 1,000/4,000 documents, ")
    assert "/s, " in line
    assert line.endswith(" left, loss 0.5")


def test_lines_end_with_the_work() -> None:
    console, written = console_without_terminal()
    with shown(console, seconds=0.01):
        with track("first"):
            wait_for(written, "first")
        with track("second"):
            wait_for(written, "second")
    assert "first" not in written.getvalue().splitlines()[-1]


def test_an_exception_leaves_nothing_behind() -> None:
    console, _ = console_without_terminal()
    with pytest.raises(ValueError, match="broken"), shown(console), track("work"):
        raise ValueError("broken")
    with track("work") as progress:
        progress.advance()  # nobody watches any more


def test_a_terminal_gets_a_bar() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    with shown(console), track("encode", 8, "documents") as progress:
        progress.advance(2)
        wait_for(written, "2/8 documents")
    assert "━" in written.getvalue()


@pytest.mark.parametrize(
    ("seconds", "total", "completed", "before", "expected"),
    [
        (10, 100, 20, 0, "20/100 documents, 2/s, 0:40 left"),
        (
            10,
            100,
            60,
            50,
            "60/100 documents, 1/s, 0:40 left",
        ),  # what an earlier run did is not this one's pace
        (7300, None, 0, 0, "2:01:40"),
        (10, 1e6, 5e5, 0, "500,000/1,000,000 documents, 50,000/s, 0:10 left"),
        (3, 5, 0, 0, "0/5 documents, 0:03"),
    ],
)
def test_figures(seconds: float, total: float | None, completed: float, before: float, expected: str) -> None:
    moments = iter([0.0, *[float(seconds)] * 20])
    bars = Progress(get_time=lambda: next(moments), disable=True)
    task = bars.add_task("work", total=total, unit="documents", before=before)
    bars.tasks[0].completed = completed
    assert task == 0
    assert figures(bars.tasks[0]) == expected


def test_a_notebook_has_bars_only_where_widgets_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Console(file=io.StringIO(), force_jupyter=True, force_terminal=False)
    for installed in (True, False):
        monkeypatch.setattr("xtr_tf.progress.find_spec", lambda name, there=installed: there or None)
        assert draws_bars(notebook) is installed
    assert not draws_bars(console_without_terminal()[0])
