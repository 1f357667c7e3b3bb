"""`xtr-tf query` from a user's view."""

from __future__ import annotations

import json
import re
import resource
import subprocess

import pytest

from tests.support.processes import call_command, run_command


@pytest.fixture
def query():
    def run(*arguments: str, server=None, **environment: str) -> subprocess.CompletedProcess[str]:
        target = ("--server", server.target) if server is not None else ()
        patience = () if "--timeout" in arguments else ("--timeout", "120")  # a busy machine is no failure
        return call_command("query", *arguments, *target, *patience, **environment)

    return run


def test_documents_are_listed(query, retriever_server):
    ended = query("highest mountain", "--model", "whole", "--top-k", "3", server=retriever_server)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert len(lines) == 3
    assert re.match(r" 1 -?\d\.\d{4} .+", lines[0])


def test_json(query, retriever_server):
    ended = query("a river", "mountain", "--model", "whole", "--json", server=retriever_server)
    results = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [result["query"] for result in results] == ["a river", "mountain"]
    assert len(results[0]["documents"]) == 5
    assert results[0]["versions"] == [1]
    assert set(results[0]["documents"][0]) == {"id", "score", "title", "language"}


def test_texts_are_shown_when_asked_for(query, retriever_server):
    arguments = ("a river", "--model", "whole", "--top-k", "1", "--text")
    [document] = json.loads(query(*arguments, "--json", server=retriever_server).stdout)["documents"]
    assert set(document) == {"id", "score", "title", "language", "text"}
    assert document["text"]
    shown = query(*arguments, server=retriever_server).stdout
    assert document["text"].split() == shown.split()[-len(document["text"].split()) :]


def test_language_filter(query, retriever_server):
    arguments = ("mountain", "--model", "whole", "--language", "de", "--language", "fr", "--json")
    documents = json.loads(query(*arguments, server=retriever_server).stdout)["documents"]
    assert documents
    assert {document["language"] for document in documents} <= {"de", "fr"}


def test_explanations_show_the_alignment_in_colour(query, retriever_server):
    arguments = ("highest mountain", "--model", "whole", "--explain", "--top-k", "2", "--k-prime", "5")
    plain = query(*arguments, server=retriever_server).stdout
    assert "imputed" in plain
    assert "(end)" in plain
    assert "\x1b[" not in plain
    coloured = query(*arguments, server=retriever_server, FORCE_COLOR="1", TERM="xterm-256color").stdout
    assert "\x1b[" in coloured
    documents = json.loads(query(*arguments, "--json", server=retriever_server).stdout)["documents"]
    matches = documents[0]["matches"]
    assert any(match["retrieved"] for match in matches)
    assert all(match["document_piece"] == "" for match in matches if not match["retrieved"])
    for match in matches:
        if match["retrieved"]:
            text = f"{documents[0]['title']} {documents[0]['text']}"
            piece = match["document_piece"].replace("▁", "").removesuffix("</s>")
            assert text[match["start"] : match["limit"]].strip().lower() == piece.lower() or not piece


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--server", "127.0.0.1:1", "--timeout", "1"], "UNAVAILABLE from 127.0.0.1:1"),
        (["a", "--version", "1", "--label", "x"], "Choose a version or a label"),
        (["a", "--tls-ca", "absent.pem"], "No such file"),
    ],
)
def test_bad_input_ends_with_one_sentence(query, arguments, message):
    ended = query(*arguments)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_errors_of_the_server_are_passed_on(query, retriever_server):
    ended = query("a", "--model", "absent", server=retriever_server)
    assert ended.stderr == (
        "xtr-tf: Servable not found for request: Latest(absent). "
        f"Received: NOT_FOUND from {retriever_server.target}.\n"
    )


def test_the_answer_is_there_at_once(retriever_server):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    target = ("--server", retriever_server.target, "--timeout", "120")
    ended = run_command("query", "mountain", "--model", "whole", *target)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(ended.stdout.splitlines()) == 5
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time, which other work on the machine does not lengthen much; measured 0.45.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5
