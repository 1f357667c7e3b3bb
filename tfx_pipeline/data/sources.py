"""The files that an input of the pipeline is read from, their content, and judged documents that are missing.

Files are compared by content, not by time: a file that was only touched has not changed. Handles only local
files. Imports neither TFX nor TensorFlow, so that these questions are answered before either starts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from xtr_tf.collections.bad_records import ignore
from xtr_tf.collections.beir import load_beir
from xtr_tf.files import sha256_of

_SPAN, _VERSION = re.compile(r"\{SPAN(?::\d+)?\}"), re.compile(r"\{VERSION(?::\d+)?\}")
_DATE = re.compile(r"\{(?:YYYY|MM|DD)\}")
_PARTS = re.compile(r"(\{[A-Z]+(?::\d+)?\}|\*\*/|\*|\?)")
_BEIR_FILES = ("corpus.jsonl*", "queries.jsonl*")


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file that was read.

    Attributes:
        file: Path below the input's folder.
        bytes: Size of the file.
        sha256: Hash of its content.
    """

    file: str
    bytes: int
    sha256: str


def is_judgements(file: str) -> bool:
    """Returns whether a pattern or file is `qrels/SPLIT.tsv` of a BEIR folder, which two others complete."""
    return PurePosixPath(file).parent.name == "qrels"


def companions(file: str) -> list[str]:
    """Returns patterns of files that are read together with a file: queries and documents of judgements."""
    if not is_judgements(file):
        return []
    return [str(PurePosixPath(file).parent.parent / pattern) for pattern in _BEIR_FILES]


def matching_files(folder: str | Path, pattern: str) -> list[Path]:
    """Finds the files that match a pattern. Of spans and versions, only the latest.

    Args:
        folder: Folder of the input.
        pattern: Pattern relative to the folder. May contain `{SPAN}`, `{VERSION}` and wildcards.

    Returns:
        The files, sorted.
    """
    glob = _DATE.sub("*", _VERSION.sub("*", _SPAN.sub("*", pattern)))
    files = sorted(path for path in Path(folder).glob(glob) if path.is_file())
    order = _order(pattern)
    if order is None:
        return files
    places = {file: order(str(file.relative_to(folder))) for file in files}
    latest = max((place for place in places.values() if place), default=None)
    return [file for file, place in places.items() if place == latest and place is not None]


def source_files(folder: str | Path, patterns: Iterable[str]) -> list[SourceFile]:
    """Finds all files that an input is read from, each once.

    Args:
        folder: Folder of the input.
        patterns: Patterns as for `matching_files`.

    Returns:
        The files with sizes and hashes. For judgements, also their queries and corpus.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        for file in matching_files(folder, pattern):
            found[file] = None
            for companion in companions(str(file.relative_to(folder))):
                found |= dict.fromkeys(sorted(Path(folder).glob(companion)))
    return [SourceFile(str(file.relative_to(folder)), file.stat().st_size, sha256_of(file)) for file in found]


def fingerprint(sources: Iterable[SourceFile]) -> str:
    """Returns one hash of the names and contents of files."""
    rows = sorted((source.file, source.sha256) for source in sources)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Missing:
    """Judgements of a split whose documents are not in its BEIR folder.

    Attributes:
        count: Number of such judgements.
        judgements: Number of all judgements.
        example: One such judgement.
    """

    count: int
    judgements: int
    example: str


def missing_documents(folder: str | Path, pattern: str) -> Missing:
    """Counts the judgements of `qrels/SPLIT.tsv` files whose documents are gone.

    Args:
        folder: Folder of the input.
        pattern: Pattern of the judgements.

    Returns:
        Their number, the number of all judgements, and an example.
    """
    count = judgements = 0
    examples = []
    for file in matching_files(folder, pattern):
        dataset = load_beir(file.parent.parent, file.name.partition(".")[0], on_bad=ignore)
        judged = {document for grades in dataset.judgements.values() for document in grades}
        known = dataset.documents(judged).keys()
        for query, grades in dataset.judgements.items():
            gone = sorted(document for document in grades if document not in known)
            judgements += len(grades)
            count += len(gone)
            examples += [f"{query!r} with {document!r}" for document in gone]
    return Missing(count, judgements, min(examples, default=""))


def _order(pattern: str) -> Callable[[str], tuple[int, int] | None] | None:
    """Returns a function from a path to its span and version, or None if the pattern has neither."""
    if not (_SPAN.search(pattern) or _VERSION.search(pattern)):
        return None
    expression = re.compile("".join(map(_regex, _PARTS.split(pattern))))

    def order(path: str) -> tuple[int, int] | None:
        found = expression.fullmatch(path)
        if not found:
            return None
        named = found.groupdict()
        return int(named.get("span") or 0), int(named.get("version") or 0)

    return order


def _regex(part: str) -> str:
    if _SPAN.fullmatch(part):
        return r"(?P<span>\d+)"
    if _VERSION.fullmatch(part):
        return r"(?P<version>\d+)"
    if _DATE.fullmatch(part):
        return r"\d+"
    return {"*": "[^/]*", "?": "[^/]", "**/": "(?:.*/)?"}.get(part, re.escape(part))
