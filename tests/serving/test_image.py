"""The server's image is made of files that exist, on the Python that its lock was resolved for."""

from __future__ import annotations

import re
from pathlib import Path


def test_what_is_copied_exists_and_is_sent(repository: Path) -> None:
    dockerfile = (repository / "serving" / "Dockerfile").read_text()
    sent = (repository / "serving" / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        name
        for names in re.findall(r"^COPY ([\w. -]+) \S+$", dockerfile, re.MULTILINE)
        for name in names.split()
    ]
    assert {"requirements-serving.lock", "xtr_tf", "serving"} <= set(copied)
    for name in copied:
        assert (repository / name).exists()
        assert f"!{name}" in sent


def test_the_python_is_the_locks(repository: Path) -> None:
    dockerfile = (repository / "serving" / "Dockerfile").read_text()
    lock_script = (repository / "tools" / "lock.sh").read_text()
    python = re.search(r"^compile requirements-serving\.lock ([\d.]+) ", lock_script, re.MULTILINE)
    assert python
    assert f"FROM python:{python[1]}-slim" in dockerfile
