"""Downloads the datasets of the paper: their addresses, their places on disk, and how they are checked.

BEIR publishes MD5 sums. The Hugging Face Hub sends a hash with each file. The others publish none: their
SHA-256 is written next to them, so that two copies can be compared.
"""

from __future__ import annotations

import dataclasses
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

from xtr_tf.collections.beir import BEIR_13, MS_MARCO
from xtr_tf.errors import InputError

_BEIR = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
_DPR = "https://dl.fbaipublicfiles.com/dpr"
_HUB = "https://huggingface.co/datasets/miracl"
_MIRACL_REVISION = "5be20db9509754dadad47689368639fcec739c00"
_MIRACL_CORPUS_REVISION = "d921ec7e349ce0d28daf30b2da9da5ee698bef0d"

_BEIR_MD5 = {
    "arguana": "8ad3e3c2a5867cdced806d6503f29b99",
    "climate-fever": "8b66f0a9126c521bae2bde127b4dc99d",
    "dbpedia-entity": "c2a39eb420a3164af735795df012ac2c",
    "fever": "5a818580227bfb4b35bb6fa46d9b6c03",
    "fiqa": "17918ed23cd04fb15047f73e6c3bd9d9",
    "hotpotqa": "f412724f78b0d91183a0e86805e16114",
    "msmarco": "444067daf65d982533ea17ebd59501e4",
    "nfcorpus": "a89dba18a62ef92f7d323ec890a0d38d",
    "nq": "d4d3d2e48787a744b6f6e691ff534307",
    "quora": "18fb154900ba42a600f84b839c173167",
    "scidocs": "38121350fc3a4d2f48850f6aff52e4a9",
    "scifact": "5f7d1de60b170fc8027bb7898e2efca1",
    "trec-covid": "ce62140cb23feb9becf6270d0d1fe6d1",
    "webis-touche2020": "46f650ba5a527fc69e0a6521c5a23563",
}
# Number of corpus files per language.
_MIRACL_SHARDS = {
    "ar": 5,
    "bn": 1,
    "de": 32,
    "en": 66,
    "es": 21,
    "fa": 5,
    "fi": 4,
    "fr": 30,
    "hi": 2,
    "id": 3,
    "ja": 14,
    "ko": 3,
    "ru": 20,
    "sw": 1,
    "te": 2,
    "th": 2,
    "yo": 1,
    "zh": 10,
}
_DPR_QUESTIONS = {"nq": "nq-test.qa.csv", "trivia": "trivia-test.qa.csv.gz", "squad": "squad1-test.qa.csv"}


@dataclasses.dataclass(frozen=True)
class RemoteFile:
    """A file to download.

    Attributes:
        address: URL of the file.
        path: Where to store it, relative to the data folder.
        md5: The published MD5 sum; empty if there is none.
        unpack: Whether it is an archive, to be unpacked into the folder of `path` and then removed.
    """

    address: str
    path: str
    md5: str = ""
    unpack: bool = False


def names() -> list[str]:
    """Returns all names that `files_of` knows, groups first."""
    miracl = [f"miracl-{language}" for language in _MIRACL_SHARDS]
    questions = [f"dpr-{name}" for name in _DPR_QUESTIONS]
    return ["beir", "miracl", "dpr", "lotte", "entity-questions", *_BEIR_MD5, *questions, *miracl]


def files_of(name: str) -> list[RemoteFile]:
    """Returns the files of a dataset or of a group of datasets.

    Args:
        name: One of `names()`.

    Returns:
        The files to download.

    Raises:
        InputError: The name is unknown.
    """
    if name == "beir":
        return [file for own in (*BEIR_13, MS_MARCO) for file in files_of(own)]
    if name in _BEIR_MD5:
        return [RemoteFile(f"{_BEIR}/{name}.zip", f"beir/{name}.zip", _BEIR_MD5[name], unpack=True)]
    if name == "lotte":
        address = "https://downloads.cs.stanford.edu/nlp/data/colbert/colbertv2/lotte.tar.gz"
        return [RemoteFile(address, "lotte.tar.gz", unpack=True)]
    if name == "entity-questions":
        address = "https://nlp.cs.princeton.edu/projects/entity-questions/dataset.zip"
        return [_passages("dpr"), RemoteFile(address, "entity-questions/dataset.zip", unpack=True)]
    if name == "dpr":
        return [_passages("dpr"), *(_questions(file) for file in _DPR_QUESTIONS.values())]
    if name.removeprefix("dpr-") in _DPR_QUESTIONS and name.startswith("dpr-"):
        return [_passages("dpr"), _questions(_DPR_QUESTIONS[name.removeprefix("dpr-")])]
    if name == "miracl":
        return [file for language in _MIRACL_SHARDS for file in _miracl(language)]
    if name.removeprefix("miracl-") in _MIRACL_SHARDS and name.startswith("miracl-"):
        return _miracl(name.removeprefix("miracl-"))
    raise InputError(f"A dataset to download is one of {', '.join(names())}. Received: {name!r}.")


def _passages(folder: str) -> RemoteFile:
    return RemoteFile(f"{_DPR}/wikipedia_split/psgs_w100.tsv.gz", f"{folder}/psgs_w100.tsv.gz")


def _questions(file: str) -> RemoteFile:
    return RemoteFile(f"{_DPR}/data/retriever/{file}", f"dpr/{file}")


def _miracl(language: str) -> list[RemoteFile]:
    name = f"miracl-v1.0-{language}"
    annotations = f"{_HUB}/miracl/resolve/{_MIRACL_REVISION}/{name}"
    passages = f"miracl-corpus-v1.0-{language}"
    corpus = f"{_HUB}/miracl-corpus/resolve/{_MIRACL_CORPUS_REVISION}/{passages}"
    files = [f"topics/topics.{name}-dev.tsv", f"qrels/qrels.{name}-dev.tsv"]
    shards = [f"docs-{number}.jsonl.gz" for number in range(_MIRACL_SHARDS[language])]
    return [
        *(RemoteFile(f"{annotations}/{file}", f"miracl/{name}/{file}") for file in files),
        *(RemoteFile(f"{corpus}/{shard}", f"miracl/{passages}/{shard}") for shard in shards),
    ]


#: Called with the name of the file, the bytes so far, and the total (0 if the server does not say).
Progress = Callable[[str, int, int], None]

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_DONE = ".sha256"
_NETWORK_ERRORS = (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError, ssl.SSLError)


def fetch(file: RemoteFile, folder: Path, progress: Progress) -> str:
    """Downloads a file into `folder`, unless it is already there.

    Args:
        file: The file.
        folder: The data folder.
        progress: Called as the download proceeds.

    Returns:
        A phrase that says what was done and how it was checked.

    Raises:
        InputError: The file cannot be reached, or is not the published one. Nothing is left behind.
    """
    target = folder / file.path
    # An archive is removed after unpacking; only this record of it stays.
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
    """Keeps the hash that the Hugging Face Hub sends before it redirects to its storage."""

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
            f"No connection to the server ({reason}); without a network, copy the files of the dataset into "
            f"the folder by other means. Received: {file.address}."
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
    """Compares a download with the published or announced hash, and says which one it was."""
    if file.md5:
        expected, found, kind = file.md5, digests["md5"].hexdigest(), "published MD5"
    elif len(announced) == 64:  # the Hub sends SHA-256 only for large files
        expected, found, kind = announced, digests["sha256"].hexdigest(), "SHA-256 that the server sent"
    else:
        return f"no checksum is published; its SHA-256 is {digests['sha256'].hexdigest()}"
    if expected != found:
        raise InputError(
            f"A download is not the published file ({kind} {expected}, found {found}); try again. "
            f"Received: {file.address}."
        )
    return f"checked by its {kind}"


def _unpack(archive: Path, target: Path) -> None:
    """Unpacks an archive next to `target`; refuses members that would land elsewhere."""
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
