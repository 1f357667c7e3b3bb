"""Checks the form of every error message, in the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

# What passes another sentence on, which says what was received.
PASSED_ON = {
    "serving/cli/query.py",  # _sentence
    "tfx_pipeline/components/data_gate.py",  # _refusal
    "tfx_pipeline/runners/local.py",  # a component's sentence, and the log
    "xtr_tf/checkpoints/torch_file.py",  # adds the file to the reader's sentence
    "xtr_tf/collections/corpus.py",  # a sentence that both kinds of corpus share
    "xtr_tf/collections/given.py",  # as above
    "xtr_tf/retriever/gate.py",  # the sentence of the process that checks
    "xtr_tf/retriever/session.py",  # the sentence of the graph
    "xtr_tf/training/data/sources.py",  # the key, then the sentence
}


def messages(repository: Path) -> Iterator[tuple[str, int, str]]:
    """File, line and source of the message of every `InputError`."""
    for package in ("xtr_tf", "tfx_pipeline", "serving"):
        for path in sorted((repository / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InputError" and node.args:
                    yield str(path.relative_to(repository)), node.lineno, ast.unparse(node.args[0])


def test_every_message_says_once_what_was_received(repository: Path) -> None:
    found = list(messages(repository))
    assert len(found) > 200
    wrong = [
        f"{file}:{line}: {text}"
        for file, line, text in found
        if text.count("Received:") != 1 and file not in PASSED_ON
    ]
    assert wrong == []
    assert {file for file, _, text in found if text.count("Received:") != 1} == PASSED_ON


def test_no_message_says_received_without_saying_what(repository: Path) -> None:
    fillers = ("Received: none.", "Received: both.", "Received: neither.", "Received: others.")
    assert [text for _, _, text in messages(repository) if text.strip("'").endswith(fillers)] == []


@pytest.mark.parametrize("word", ["anew", "beside", "mend", "under way", "a token each"])
def test_messages_are_plain_english(repository: Path, word: str) -> None:
    assert [f"{file}:{line}" for file, line, text in messages(repository) if f" {word} " in text] == []
