"""Pages in a real browser. Without one, a test is skipped; in CI, which installs one, it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from typing import NamedTuple

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--v=0"),
)


class Page(NamedTuple):
    """What the browser made of a page.

    Attributes:
        elements: The document as it is after its scripts ran; empty with `--screenshot`.
        console: Lines that the page's scripts and the browser's checks wrote.
        log: All output of the browser.
    """

    elements: str
    console: list[str]
    log: str


def find_chromium() -> str:
    """Returns the browser's path."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    message = "no Chromium on this machine; install the package `chromium`"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def open_page(address: str, *flags: str) -> Page:
    """Opens `address` with a fresh profile; `flags` say the size, the colours, and what to give back."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        command = [find_chromium(), *_FLAGS, f"--user-data-dir={profile}", *flags, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    said = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    # The browser's own pages speak there, too: of fonts, where there is no network.
    console = [line for line in said if "source: chrome://" not in line]
    return Page(done.stdout, console, done.stderr)
