"""Images copy files that exist, have the Python of their lock, and run as an unprivileged user."""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest


def test_what_is_copied_exists_and_is_sent(repository: Path) -> None:
    dockerfile = (repository / "serving" / "Dockerfile").read_text()
    sent = (repository / "serving" / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        name
        for names in re.findall(r"^COPY ([\w. -]+) \S+$", dockerfile, re.MULTILINE)
        for name in names.split()
    ]
    project = (repository / "pyproject.toml").read_text()
    commands = project.partition('[project.entry-points."xtr_tf.commands"]\n')[2].partition("\n\n")[0]
    packages = set(re.findall(r'= "(\w+)\.', commands))
    assert packages == {"serving", "tfx_pipeline"}
    assert {"requirements-serving.lock", "xtr_tf", *packages} <= set(copied)
    for name in copied:
        assert (repository / name).exists()
        assert f"!{name}" in sent


def test_the_python_is_the_locks(repository: Path) -> None:
    dockerfile = (repository / "serving" / "Dockerfile").read_text()
    lock_script = (repository / "tools" / "lock.sh").read_text()
    python = re.search(r"^compile requirements-serving\.lock ([\d.]+) ", lock_script, re.MULTILINE)
    assert python
    assert f"FROM python:{python[1]}-slim" in dockerfile


@pytest.mark.parametrize(
    "file", ["serving/Dockerfile", "serving/tf_serving/Dockerfile", "tfx_pipeline/Dockerfile"]
)
def test_nothing_runs_as_root_or_behind_a_shell(repository: Path, file: str) -> None:
    last_stage = (repository / file).read_text().rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\d+)$", last_stage, re.MULTILINE) == ["10001"]
    assert re.findall(r"^ENTRYPOINT (.)", last_stage, re.MULTILINE) == ["["]


class Registry(http.server.BaseHTTPRequestHandler):
    """Gives out tokens, and digests to those who have one."""

    digest = "sha256:" + "5" * 64

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"token": "secret"}')

    def do_HEAD(self) -> None:
        here = f"http://127.0.0.1:{self.server.server_port}"
        if self.headers["authorization"] != "Bearer secret":
            self.send_response(401)
            self.send_header("www-authenticate", f'Bearer realm="{here}/token",service="registry"')
        else:
            self.send_response(200 if self.path == "/v2/library/python/manifests/3.12-slim" else 404)
            self.send_header("docker-content-digest", self.digest)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def test_images_are_pinned_by_the_digests_of_their_registry(repository: Path, tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.12-slim AS build\nRUN true\nFROM xtr-tf-server:0.1\n")
    with http.server.HTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {**os.environ, "PIN_IMAGES_REGISTRY": f"http://127.0.0.1:{server.server_port}"}
        command = [sys.executable, str(repository / "tools" / "pin_images.py"), str(file)]
        for _ in range(2):  # a second time changes nothing
            subprocess.run(command, check=True, env=environment, timeout=60)
            assert file.read_text() == (
                f"FROM python:3.12-slim@{Registry.digest} AS build\nRUN true\nFROM xtr-tf-server:0.1\n"
            )
        server.shutdown()
