"""Starts the two processes of a measurement: a server and a client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COMMAND = str(Path(sys.executable).parent / "xtr-tf")
CLIENT_SECONDS = 900


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], port: int, rest_port: int) -> None:
        self.process = process
        self.target = f"127.0.0.1:{port}"
        self.rest_port = rest_port

    def resident_mb(self) -> float:
        """The process' memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def processor_seconds(self) -> float:
        """Processor time used so far, which depends less on other work on the machine than wall time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(base: Path, *flags: str, tree: Path | None = None) -> Iterator[Server]:
    """Runs a server with the models of a base directory; see `started`."""
    with started("--model-base", str(base), *flags, tree=tree) as server:
        yield server


@contextmanager
def started(*flags: str, tree: Path | None = None) -> Iterator[Server]:
    """Runs a server until the end of the block; its models have answered when the block begins.

    Args:
        flags: Flags of `xtr-tf serve`.
        tree: The folder of the code to run; this one's by default.
    """
    command = [COMMAND, "serve", "--port", "0", "--rest-port", "0", *flags]
    environment = {**os.environ, "PYTHONPATH": str(tree or HERE.parents[1])}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ports = re.search(r"gRPC [\d.]+:(\d+), REST http://[\d.]+:(\d+)", line)
        assert ports, f"The server did not start: {line!r}"
        yield Server(process, int(ports[1]), int(ports[2]))
    finally:
        process.terminate()
        process.wait(60)


def client(script: str, *arguments: object) -> dict[str, Any]:
    """Runs the client's process and returns the last line that it printed."""
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    printed = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, timeout=CLIENT_SECONDS
    ).stdout
    answer: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return answer
