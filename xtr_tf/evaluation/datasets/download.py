"""Fetches the files of datasets: checked, unpacked, and there only when whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import Any

from xtr_tf.errors import InputError
from xtr_tf.evaluation.datasets.catalogue import RemoteFile

#: Told the file's name, bytes so far, and bytes in all (0 if the server does not say).
Progress = Callable[[str, int, int], None]

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_DONE = ".sha256"
_NETWORK_ERRORS = (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


def fetch(file: RemoteFile, folder: Path, progress: Progress) -> str:
    """Downloads one file below `folder`, unless it is there already.

    Args:
        file: The file.
        folder: The data folder.
        progress: Told how far it is.

    Returns:
        What was done and how it was checked, in a phrase.

    Raises:
        InputError: The file cannot be reached, or is not the one published; nothing is left behind.
    """
    target = folder / file.path
    # Of an archive only this is left beside what was in it.
    record = target.with_name(f"{target.name}{_DONE}")
    if record.is_file():
        return "already there"
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.partial")
    try:
        digests, announced = _download(file, aside, progress)
        checked = _check(file, digests, announced)
        if file.unpack:
            _unpack(aside, target)
        else:
            aside.replace(target)
        record.write_text(f"{digests['sha256'].hexdigest()}  {target.name}\n", encoding="utf-8")
    finally:
        aside.unlink(missing_ok=True)
    return checked


class _NoteHash(urllib.request.HTTPRedirectHandler):
    """Keeps the hash that the Hugging Face Hub tells before it redirects to its storage."""

    def __init__(self) -> None:
        self.announced = ""

    def redirect_request(
        self, request: Any, response: Any, code: int, message: str, headers: HTTPMessage, address: str
    ) -> Any:
        self.announced = headers.get("X-Linked-ETag", self.announced).strip('"')
        return super().redirect_request(request, response, code, message, headers, address)


def _download(file: RemoteFile, aside: Path, progress: Progress) -> tuple[dict[str, Any], str]:
    digests = {"md5": hashlib.md5(usedforsecurity=False), "sha256": hashlib.sha256()}
    note = _NoteHash()
    request = urllib.request.Request(file.address, headers=_headers(file.address))  # noqa: S310 -- catalogued
    try:
        with (
            urllib.request.build_opener(note).open(request, timeout=_TIMEOUT_SECONDS) as response,
            aside.open("wb") as sink,
        ):
            size = int(response.headers.get("Content-Length") or 0)
            announced = note.announced or response.headers.get("X-Linked-ETag", "").strip('"')
            done = 0
            while chunk := response.read(_CHUNK):
                sink.write(chunk)
                for digest in digests.values():
                    digest.update(chunk)
                done += len(chunk)
                progress(Path(file.path).name, done, size)
    except urllib.error.HTTPError as error:
        raise InputError(
            f"The server refused a file ({error.code} {error.reason}); if it asks for terms to be accepted, "
            f"accept them there and set HF_TOKEN. Received: {file.address}."
        ) from error
    except _NETWORK_ERRORS as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(
            f"No connection to the server ({reason}); where there is no network, copy the dataset's files "
            f"here by other means: every format is read from local folders. Received: {file.address}."
        ) from error
    if size and done != size:
        raise InputError(
            f"A download ended early ({done:,} of {size:,} bytes); try again. Received: {file.address}."
        )
    return digests, announced


def _headers(address: str) -> dict[str, str]:
    token = os.environ.get("HF_TOKEN")
    on_hub = address.startswith("https://huggingface.co/")
    return {"Authorization": f"Bearer {token}"} if token and on_hub else {}


def _check(file: RemoteFile, digests: dict[str, Any], announced: str) -> str:
    """Compares with whatever is known of the file; says what that was."""
    if file.md5:
        expected, found, kind = file.md5, digests["md5"].hexdigest(), "published MD5"
    elif len(announced) == 64:  # the Hub's hash of a large file; of a small one it tells another
        expected, found, kind = announced, digests["sha256"].hexdigest(), "SHA-256 that the server told"
    else:
        return f"no checksum is published; its SHA-256 is {digests['sha256'].hexdigest()}"
    if expected != found:
        raise InputError(
            f"A download is not the file that was published ({kind} {expected}, found {found}); try again. "
            f"Received: {file.address}."
        )
    return f"checked by its {kind}"


def _unpack(archive: Path, target: Path) -> None:
    """Unpacks beside `target`; members that would go elsewhere are refused."""
    staging = target.with_name(f".{target.name}.unpacking")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        if target.name.endswith(".zip"):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(staging)  # noqa: S202 -- zipfile keeps members inside
        else:
            with tarfile.open(archive) as packed_tar:
                packed_tar.extractall(staging, filter="data")
        for member in staging.iterdir():
            destination = target.parent / member.name
            if destination.is_dir():
                shutil.rmtree(destination)
            member.replace(destination)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise InputError(
            f"A downloaded archive cannot be unpacked ({error}); try again. Received: {target.name!r}."
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
