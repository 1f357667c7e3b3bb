"""Downloads from a local server: checked, unpacked, complete or absent."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from xtr_tf.cli.app import app
from xtr_tf.collections.download import RemoteFile, fetch, files_of, names
from xtr_tf.collections.loading import load_datasets
from xtr_tf.errors import InputError


def beir_archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("scifact/corpus.jsonl", json.dumps({"_id": "d", "title": "", "text": "text"}))
        archive.writestr("scifact/queries.jsonl", json.dumps({"_id": "q", "text": "query"}))
        archive.writestr("scifact/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq\td\t1\n")
    return buffer.getvalue()


ARCHIVE = beir_archive()
PLAIN = b"a question\t['an answer']\n"


CONTENTS = {"/scifact.zip": ARCHIVE, "/plain": PLAIN, "/short": PLAIN, "/broken.zip": b"no zip"}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/hub":  # the Hub sends the hash and redirects to its storage
            self.send_response(302)
            self.send_header("X-Linked-ETag", f'"{hashlib.sha256(PLAIN).hexdigest()}"')
            self.send_header("Location", "/plain")
            self.end_headers()
            return
        content = {"/scifact.zip": ARCHIVE, "/plain": PLAIN, "/short": PLAIN, "/broken.zip": b"no zip"}.get(
            self.path
        )
        self.send_response(200 if content else 404)
        if content:
            self.send_header("Content-Length", str(len(content) + (self.path == "/short")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def ignore(_: str, done: int, size: int) -> None:
    assert 0 < done <= size


def test_archive_is_checked_and_unpacked_once(server: str, tmp_path: Path) -> None:
    md5 = hashlib.md5(ARCHIVE).hexdigest()
    file = RemoteFile(f"{server}/scifact.zip", "beir/scifact.zip", md5, unpack=True)
    assert fetch(file, tmp_path, ignore) == "checked by its published MD5"
    [dataset] = load_datasets([tmp_path / "beir" / "scifact"])
    assert dataset.judgements == {"q": {"d": 1}}
    assert sorted(path.name for path in (tmp_path / "beir").iterdir()) == ["scifact", "scifact.zip.sha256"]
    assert fetch(file, tmp_path, ignore) == "already there"


def test_wrong_content_is_refused_and_removed(server: str, tmp_path: Path) -> None:
    file = RemoteFile(f"{server}/scifact.zip", "beir/scifact.zip", "0" * 32, unpack=True)
    with pytest.raises(InputError, match="not the published file"):
        fetch(file, tmp_path, ignore)
    with pytest.raises(InputError, match="cannot be unpacked"):
        fetch(RemoteFile(f"{server}/broken.zip", "beir/broken.zip", unpack=True), tmp_path, ignore)
    with pytest.raises(InputError, match="server refused a file \\(404"):
        fetch(RemoteFile(f"{server}/nothing", "beir/nothing"), tmp_path, ignore)
    with pytest.raises(InputError, match=r"ended early|No connection"):
        fetch(RemoteFile(f"{server}/short", "beir/short"), tmp_path, ignore)
    assert list((tmp_path / "beir").iterdir()) == []


def test_checksums_that_a_server_tells_or_does_not(server: str, tmp_path: Path) -> None:
    assert "the server sent" in fetch(RemoteFile(f"{server}/hub", "dpr/a.csv"), tmp_path, ignore)
    told = fetch(RemoteFile(f"{server}/plain", "dpr/b.csv"), tmp_path, ignore)
    assert told == f"no checksum is published; its SHA-256 is {hashlib.sha256(PLAIN).hexdigest()}"
    assert (tmp_path / "dpr" / "b.csv").read_bytes() == PLAIN


def test_without_a_network_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without a network, copy the files of the dataset"):
        fetch(RemoteFile("http://127.0.0.1:9/file", "beir/file"), tmp_path, ignore)
    assert list((tmp_path / "beir").iterdir()) == []


def test_a_disk_that_refuses_is_not_called_a_missing_network(server: str, tmp_path: Path) -> None:
    (tmp_path / "dpr" / ".b.csv.partial").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        fetch(RemoteFile(f"{server}/plain", "dpr/b.csv"), tmp_path, ignore)


def test_catalogue_names_the_papers_datasets() -> None:
    assert len(files_of("beir")) == 14
    assert all(len(file.md5) == 32 and file.unpack for file in files_of("beir"))
    assert len({file.path for name in names() for file in files_of(name)}) > 200
    assert [file.path for file in files_of("miracl-sw")] == [
        "miracl/miracl-v1.0-sw/topics/topics.miracl-v1.0-sw-dev.tsv",
        "miracl/miracl-v1.0-sw/qrels/qrels.miracl-v1.0-sw-dev.tsv",
        "miracl/miracl-corpus-v1.0-sw/docs-0.jsonl.gz",
    ]
    assert len({file.path.split("/")[1] for file in files_of("miracl")}) == 2 * 18
    with pytest.raises(InputError, match="A dataset to download is one of beir"):
        files_of("imagenet")


def test_commands(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = CliRunner().invoke(app, ["data", "list"], catch_exceptions=False)
    assert "miracl-sw" in listed.output
    file = RemoteFile(f"{server}/scifact.zip", "beir/scifact.zip", unpack=True)
    monkeypatch.setattr("xtr_tf.collections.download.files_of", lambda _: [file])
    got = CliRunner().invoke(app, ["data", "get", "scifact", "--out", str(tmp_path)], catch_exceptions=False)
    assert got.exit_code == 0
    assert "no checksum is published" in got.output
    assert f"--dataset {tmp_path}/beir/scifact" in got.output.replace("\n", "")
