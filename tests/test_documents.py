"""The commands in the documents exist, with their options, and the steps of indexing a corpus run."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import blocks, documents, inline_commands, shell_commands
from tests.support.processes import COMMAND

# Programs of others that documents call; their arguments are not checked.
EXTERNAL = {
    "cd",
    "cp",
    "curl",
    "docker",
    "done",
    "find",
    "for",
    "gcloud",
    "git",
    "grep",
    "grpcurl",
    "kubectl",
    "mkdir",
    "mv",
    "openssl",
    "pip",
    "protoc",
    "python",
    "python3",
    "sed",
    "source",
    "until",
    "uv",
}
PLACEHOLDER = "…"


def shown(repository: Path) -> list[tuple[str, list[str]]]:
    """Every command of every block of every document, with the name of the document."""
    found = []
    for document in documents(repository):
        for block in blocks(document):
            for line in shell_commands(block):
                words = _without_variables(line)
                # A block that is only indented may not be code.
                if words and (block.language or words[0] in ("xtr-tf", "make", "docker")):
                    found.append((str(document.relative_to(repository)), words))
    return found


def _without_variables(words: list[str]) -> list[str]:
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    return words


def test_every_make_target_exists(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    named = {word for _, words in shown(repository) if words[0] == "make" for word in words[1:]}
    named = {word for word in named if "=" not in word}
    for document in documents(repository):
        named |= set(re.findall(r"`make ([a-z-]+)[` ]", document.read_text(encoding="utf-8")))
    assert {"run", "test", "release-check"} <= named
    assert named <= targets


def test_every_make_target_is_described(repository: Path) -> None:
    helped = subprocess.check_output(["make", "-s", "-C", str(repository), "help"], text=True)
    makefile = (repository / "Makefile").read_text()
    for target in re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE):
        assert re.search(rf"make {target}\s+\S", helped), target


def test_every_program_is_known(repository: Path) -> None:
    """What is neither ours nor a known program of others is a script of the repository."""
    for document, words in shown(repository):
        program = words[0]
        if program in {"xtr-tf", "make", *EXTERNAL}:
            continue
        script = next((word for word in words if word.endswith((".py", ".sh"))), program)
        assert (repository / script).is_file(), f"{document}: {shlex.join(words)}"


def test_shell_blocks_are_shell(repository: Path) -> None:
    for document in documents(repository):
        for block in blocks(document):
            if block.language in ("bash", "sh"):
                checked = subprocess.run(
                    ["bash", "-n"], input=block.text, capture_output=True, text=True, check=False
                )
                assert checked.returncode == 0, f"{document}: {checked.stderr}"


def test_every_command_can_be_parsed(repository: Path) -> None:
    """By the command line itself: subcommands, options, their types, and what is required."""
    calls = [(document, words[1:]) for document, words in shown(repository) if words[0] == "xtr-tf"]
    assert len(calls) > 90
    for document, words in calls:
        parse(document, words)


def test_every_command_within_a_line_exists(repository: Path) -> None:
    calls = [(document, call) for document in documents(repository) for call in inline_commands(document)]
    assert len(calls) > 50
    for document, call in calls:
        command, rest = find(str(document), shlex.split(call.replace(PLACEHOLDER, ""))[1:])
        options = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        given = {word.partition("=")[0] for word in rest if word.startswith("-") and word != "--"}
        assert given <= {*options, "--help", "-h"}, f"{document}: {call}"


def test_configurations_name_commands_that_can_be_parsed(repository: Path) -> None:
    """The first lines of an example configuration say how to use it."""
    for file in (repository / "examples" / "configs").glob("*.yaml"):
        calls = re.findall(r"^#\s+(xtr-tf .*)$", file.read_text(), re.MULTILINE)
        assert calls, file
        for call in calls:
            parse(str(file), shlex.split(call)[1:])


def test_links_within_the_repository_lead_somewhere(repository: Path) -> None:
    """On the site MkDocs checks them; a reader of the files has only these."""
    found = 0
    for document in documents(repository):
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                found += 1
                assert (document.parent / target).exists(), f"{document}: {target}"
    assert found > 100


@functools.cache
def command_line() -> Any:
    from typer.main import get_command

    from xtr_tf.cli.app import app

    return get_command(app)


def find(document: str, words: list[str]) -> tuple[Any, list[str]]:
    """The command that `words` call, and the words that it is given."""
    command = command_line()
    while hasattr(command, "commands"):
        if words and words[0] in command.commands:
            command, words = command.commands[words[0]], words[1:]
        elif command.name == "index" and words:  # `build` may be left out
            command = command.commands["build"]
        else:
            assert not words or words[0].startswith("-"), f"{document}: no such command: {words[0]}"
            break
    return command, words


def parse(document: str, words: list[str]) -> None:
    import typer

    command, rest = find(document, words)
    own = rest[: rest.index("--")] if "--" in rest else rest  # what follows is a Beam runner's
    whole = PLACEHOLDER not in own
    own = [word for word in own if word not in (PLACEHOLDER, "--help")]
    try:
        command.make_context("xtr-tf", own, resilient_parsing=not whole or own != rest)
    except typer.TyperException as error:
        raise AssertionError(f"{document}: xtr-tf {shlex.join(words)}: {error.format_message()}") from None


@pytest.mark.slow
def test_the_steps_of_indexing_run_one_after_the_other(repository: Path, tmp_path: Path) -> None:
    for name in ("examples", "models"):
        (tmp_path / name).symlink_to(repository / name)
    guide = repository / "docs" / "how-to" / "index-a-corpus.md"
    parts = list(shell_commands(blocks(guide)[0]))
    assert [words[1] for words in parts] == ["encode", "index", "export", "verify", "search"]
    for words in parts:
        answer = subprocess.check_output([COMMAND, *words[1:]], cwd=tmp_path, text=True)
    first = next(line for line in answer.splitlines() if "1" in line.split())
    assert "Baikal" in first
