"""Every line on the server's standard error is JSON, whoever wrote it, even in a crash."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from serving.server.native_log import wrap_lines


def lines_of(script: str, *arguments: str) -> tuple[int, list[str]]:
    script = (
        "import os, sys\nfrom serving.server.native_log import structured_standard_error\n"
        + textwrap.dedent(script)
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.returncode, ended.stderr.splitlines()


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("2026-11-17 08:14:25.100000: W tensorflow/core/grappler/a.cc:1] cost", "tensorflow"),
        ("W0000 00:00:1763366400.123456    4242 op_level_cost_estimator.cc:699] cost", "tensorflow"),
        (
            "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
            "tensorflow",
        ),
        ("Traceback (most recent call last):", "stderr"),
    ],
)
def test_lines_are_wrapped(line: str, event: str) -> None:
    out = io.BytesIO()
    wrap_lines(io.BytesIO(f"{line}\n\n".encode() + b"\xff no newline"), out)
    wrapped, broken = map(json.loads, out.getvalue().decode().splitlines())
    assert (wrapped["event"], wrapped["message"]) == (event, line)
    assert wrapped["time"]
    assert broken["message"] == "\ufffd no newline"


def test_native_lines_python_lines_and_our_own() -> None:
    code, lines = lines_of(
        """
        with structured_standard_error() as log:
            log.write('{"event": "own"}\\n')
            log.flush()
            os.write(2, b"2026-11-17 08:14:25.1: E tensorflow/a.cc:1] native\\n")
            print("from Python", file=sys.stderr)
        """
    )
    assert code == 0
    events = [json.loads(line) for line in lines]
    assert sorted(event["event"] for event in events) == ["own", "stderr", "tensorflow"]


def test_the_last_words_of_a_crash_are_kept() -> None:
    code, lines = lines_of(
        """
        with structured_standard_error():
            os.write(2, b"F0000 00:00:1763366400.1 1 a.cc:1] Check failed: bytes > 0\\n")
            os.abort()
        """
    )
    assert code == -signal.SIGABRT
    assert json.loads(lines[0])["message"].endswith("Check failed: bytes > 0")


def test_a_failure_to_start_is_reported_as_it_is() -> None:
    code, lines = lines_of(
        """
        try:
            with structured_standard_error():
                raise ValueError
        except ValueError:
            sys.exit("The gRPC port cannot be opened.")
        """
    )
    assert (code, lines) == (1, ["The gRPC port cannot be opened."])


def test_nobody_reading_costs_lines_and_never_blocks() -> None:
    reading, writing = os.pipe()
    script = """
        import os
        from serving.server.native_log import structured_standard_error
        with structured_standard_error():
            for _ in range(20_000):
                try:
                    os.write(2, b"x" * 100 + b"\\n")
                except BlockingIOError:
                    break
            else:
                raise SystemExit(3)
            print("still here", flush=True)
            os.kill(os.getpid(), 9)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=writing, text=True
    )
    os.close(writing)
    assert process.stdout is not None
    assert process.stdout.readline() == "still here\n"
    process.wait(60)
    os.close(reading)
