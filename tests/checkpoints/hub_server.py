"""A server that speaks as much of the Hugging Face Hub's protocol as downloads need, over local folders."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "c0ffee" + "0" * 34


class HubServer(ThreadingHTTPServer):
    """Repositories by id, each a folder at one commit.

    Attributes:
        repositories: Their folders.
        cut: Whether every body ends after half of what was requested.
        spoiled: Files that are sent with one byte changed.
        ranges: The `Range` headers received.
        fetched: Files whose content was requested.
    """

    daemon_threads = True

    def __init__(self, repositories: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories = repositories
        self.cut = False
        self.spoiled: set[str] = set()
        self.ranges: list[str] = []
        self.fetched: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def describe(folder: Path, file: Path) -> dict[str, Any]:
    """The API's description of a file: a large one by its SHA-256, a small one by git's hash."""
    content = file.read_bytes()
    entry: dict[str, Any] = {"rfilename": str(file.relative_to(folder)), "size": len(content)}
    entry["blobId"] = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    if file.suffix in (".safetensors", ".bin", ".model"):
        entry["lfs"] = {
            "sha256": hashlib.sha256(content).hexdigest(),
            "size": len(content),
            "pointerSize": 134,
        }
    return entry


class Handler(BaseHTTPRequestHandler):
    """`/api/models/ID[/revision/REVISION]` and `/ID/resolve/REVISION/FILE`."""

    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        path = self.path.partition("?")[0].strip("/")
        if path.startswith("api/models/"):
            owner, name, *rest = path.removeprefix("api/models/").split("/")
            self._tell(f"{owner}/{name}", rest[1] if rest else "main")
            return
        if "/resolve/" not in path:
            self._refuse("EntryNotFound")
            return
        owner, name, _, revision, *parts = path.split("/")
        folder = self.server.repositories.get(f"{owner}/{name}")
        if folder is None or revision not in ("main", COMMIT):
            self._refuse("RepoNotFound" if folder is None else "RevisionNotFound")
        elif not (folder / "/".join(parts)).is_file():
            self._refuse("EntryNotFound")
        else:
            self._send_file(folder, folder / "/".join(parts), with_body)

    def _tell(self, repository: str, revision: str) -> None:
        folder = self.server.repositories.get(repository)
        if folder is None or revision not in ("main", COMMIT):
            self._refuse("RepoNotFound" if folder is None else "RevisionNotFound")
            return
        files = [describe(folder, file) for file in sorted(folder.rglob("*")) if file.is_file()]
        body = json.dumps(
            {"id": repository, "modelId": repository, "sha": COMMIT, "siblings": files}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send_file(self, folder: Path, file: Path, with_body: bool) -> None:
        entry, content = describe(folder, file), file.read_bytes()
        etag = entry["lfs"]["sha256"] if "lfs" in entry else entry["blobId"]
        first = 0
        if wanted := self.headers.get("Range"):
            self.server.ranges.append(wanted)
            first = int(wanted.removeprefix("bytes=").partition("-")[0])
        if entry["rfilename"] in self.server.spoiled:
            content = bytes([content[0] ^ 1]) + content[1:]
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content) - first))
        self.send_header("Accept-Ranges", "bytes")
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if not with_body:
            return
        self.server.fetched.append(entry["rfilename"])
        body = content[first:]
        if self.server.cut:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def _refuse(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", "not here")
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextmanager
def hub(repositories: dict[str, Path]) -> Iterator[HubServer]:
    """Serves repositories while the block runs."""
    server = HubServer(repositories)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
