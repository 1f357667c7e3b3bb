"""Open-domain questions in DPR's files: `NAME-test.qa.csv`, and EntityQuestions' `P17.test.json`.

[DPR](https://arxiv.org/abs/2004.04906), [EntityQuestions](https://arxiv.org/abs/2109.08535). A passage is
relevant if it contains an answer; EntityQuestions averages over its relations.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from xtr_tf.collections.bad_records import refuse
from xtr_tf.collections.compression import COMPRESSIONS, find_file
from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.collections.document import Document
from xtr_tf.collections.lines import read_quoted
from xtr_tf.errors import InputError

_METRIC = "Top-20"


def question_files(folder: Path, split: str) -> list[Path]:
    """Finds DPR's question files of one split.

    Args:
        folder: The folder to search.
        split: Name of the split, such as `test`.

    Returns:
        Files such as `nq-test.qa.csv`, plain or compressed, sorted by name.
    """
    return sorted(path for suffix in ("", *COMPRESSIONS) for path in folder.glob(f"*-{split}.qa.csv{suffix}"))


def relation_files(folder: Path, split: str) -> list[Path]:
    """Finds EntityQuestions' files of one split.

    Args:
        folder: The folder with a folder per split, or with the folder `dataset` as published.
        split: Name of the split, such as `test`.

    Returns:
        One file per relation, sorted by name.
    """
    for place in (folder, folder / "dataset"):
        if found := sorted((place / split).glob(f"P*.{split}.json")):
            return found
    return []


def load_questions(path: Path) -> Dataset:
    """Loads a `.qa.csv` file, whose lines are a question, a tab and a Python list of answers."""
    name = path.name.split(".qa.csv")[0]
    queries = []
    for number, row in read_quoted(path):
        if len(row) != 2:
            refuse(path, number, f"2 columns are needed, a question and its answers, not {len(row)}")
        try:
            answers = ast.literal_eval(row[1])
        except (ValueError, SyntaxError):
            refuse(path, number, "the second column is not a list of answers")
        queries.append(Query(f"{name}-{number}", row[0], "en", answers=_checked(answers, path, number)))
    return Dataset(
        name=name,
        queries=tuple(queries),
        judgements={},
        corpus=_corpus(path.parent),
        metric=_METRIC,
        collection="Open-domain QA",
        in_average=False,
        language="en",
    )


def load_entity_questions(folder: Path, split: str | None = None) -> Dataset:
    """Loads the questions of all relations as one dataset, with a group per relation.

    Args:
        folder: A folder with `SPLIT/*.json` files and the passages.
        split: The split, `test` by default.

    Returns:
        The dataset, judged by answer strings.

    Raises:
        InputError: Files are missing or have another format.
    """
    files = relation_files(folder, split or "test")
    queries = []
    for path in files:
        relation = path.name.split(".")[0]
        try:
            records = json.loads(path.read_text(encoding="utf-8"))
            for number, record in enumerate(records, start=1):
                answers = _checked(record["answers"], path, number)
                identifier = f"{relation}-{number}"
                queries.append(Query(identifier, record["question"], "en", relation, answers))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                "A relation of EntityQuestions is a JSON list of objects with `question` and `answers`. "
                f"Received: {str(path)!r}."
            ) from error
    return Dataset(
        name="entity-questions",
        queries=tuple(queries),
        judgements={},
        corpus=_corpus(files[0].parent.parent),
        metric=_METRIC,
        collection="Open-domain QA",
        in_average=False,
        language="en",
    )


def _corpus(folder: Path) -> DprCorpus:
    corpus = DprCorpus.find(folder)
    if corpus is None:
        raise InputError(
            "The passages of open-domain QA are missing; put psgs_w100.tsv (or .gz) next to the questions. "
            f"Received: {str(folder)!r}."
        )
    return corpus


def _checked(answers: object, path: Path, number: int) -> tuple[str, ...]:
    if not isinstance(answers, list) or not answers or not all(isinstance(text, str) for text in answers):
        refuse(path, number, "a question has a list of answer strings")
    return tuple(answers)


_FILE = "psgs_w100.tsv"
_HEADER = ["id", "text", "title"]


class DprCorpus:
    """Iterates over the passages of DPR's `psgs_w100.tsv`, reading them on demand.

    Args:
        path: The file, plain or compressed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Document]:
        for number, row in read_quoted(self.path):
            if number == 1 and row == _HEADER:
                continue
            if len(row) != len(_HEADER):
                refuse(self.path, number, f"{len(_HEADER)} columns are needed, not {len(row)}")
            identifier, text, title = row
            yield Document(identifier, text, title, "en")

    @classmethod
    def find(cls, folder: Path) -> DprCorpus | None:
        """Finds the corpus in `folder`, its parent, or a folder `dpr` next to it; None if there is none."""
        for place in (folder, folder.parent, folder.parent / "dpr"):
            if path := find_file(place, _FILE):
                return cls(path)
        return None
