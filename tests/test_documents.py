"""The commands that the documents show exist, with their options, and those of the README's parts run."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import COMMAND, call_command

FOLDERS = (
    "",
    "docs",
    "serving",
    "serving/tf_serving",
    "benchmarks",
    "benchmarks/*",
    "examples/*",
    "models/*",
)


def commands(repository: Path, program: str) -> list[list[str]]:
    """Every call of `program` in a bash block, comments and continuations removed."""
    found = []
    documents = [file for folder in FOLDERS for file in repository.glob(f"{folder}/*.md".lstrip("/"))]
    for document in documents:
        for block in re.findall(r"```bash\n(.*?)```", document.read_text(), re.DOTALL):
            for words in split_commands(block.replace("\\\n", " ")):
                if words and words[0] == program:
                    found.append(words[1:])
    return found


def split_commands(script: str) -> Iterator[list[str]]:
    """Yields the words of every command; a quoted word may go over several lines."""
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        try:
            yield shlex.split("\n".join(lines), comments=True)
        except ValueError:  # a quotation that the next line goes on with
            continue
        lines.clear()
    assert not lines, f"a quotation is not closed: {lines[0]}"


def test_every_make_target_exists(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    shown = {word for words in commands(repository, "make") for word in words if "=" not in word}
    assert {"run", "test"} <= shown
    assert shown <= targets


def test_every_make_target_is_described(repository: Path) -> None:
    helped = subprocess.check_output(["make", "-s", "-C", str(repository), "help"], text=True)
    makefile = (repository / "Makefile").read_text()
    for target in re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE):
        assert re.search(rf"make {target}\s+\S", helped), target


def test_every_subcommand_and_option_exists(repository: Path) -> None:
    shown = commands(repository, "xtr-tf")
    assert shown
    for words in shown:
        helped, options = help_of(words)
        for option in options:
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", helped), f"xtr-tf {' '.join(words)}"


def help_of(words: list[str]) -> tuple[str, list[str]]:
    """The help of the command that `words` call, and the options that they give it."""
    # What follows a bare `--` is a Beam runner's.
    own = itertools.takewhile(lambda word: word != "--", words)
    options = [word.partition("=")[0] for word in own if word.startswith("-")]
    before_options = list(itertools.takewhile(lambda word: not word.startswith("-"), words))
    ended = call_command(*before_options, "--help", COLUMNS="400", TERM="dumb")
    assert ended.returncode == 0, f"no such command: xtr-tf {' '.join(words)}"
    return ended.stdout, options


@pytest.mark.slow
def test_the_parts_in_the_readme_run_one_after_the_other(repository: Path, tmp_path: Path) -> None:
    for name in ("examples", "models"):
        (tmp_path / name).symlink_to(repository / name)
    (block,) = re.findall(
        r"```bash\n([^`]*xtr-tf encode examples/atlas[^`]*)```", (repository / "README.md").read_text()
    )
    parts = [shlex.split(line) for line in block.splitlines() if "pipeline" not in line]
    assert [words[1] for words in parts] == ["encode", "index", "export", "verify", "search"]
    for words in parts:
        answer = subprocess.check_output([COMMAND, *words[1:]], cwd=tmp_path, text=True)
    first = next(line for line in answer.splitlines() if "1" in line.split())
    assert "Baikal" in first
