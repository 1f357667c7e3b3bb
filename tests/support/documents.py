"""The documents of the repository, and the blocks of code in them, whatever their indentation."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("docs", "serving", "benchmarks", "examples", "models", "tfx_pipeline", ".github")

_FENCE = re.compile(
    r"(?P<fails><!-- fails -->\n)?"
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,})(?P<language>[\w-]*)[ ]*(?P<options>[^\n`]*)\n"
    r"(?P<text>.*?)"
    r"^(?P=indent)(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_INDENTED = re.compile(r"(?:\A|\n\n)((?:(?: {4}|\t)[^\n]*(?:\n|\Z)|\n(?= {4}|\t))+)")
_INLINE = re.compile(r"`(xtr-tf [^`\n]+)`")


class Block(NamedTuple):
    """A block of code.

    Attributes:
        document: The file.
        language: What the block says it is, such as `bash`; empty for one that is only indented.
        title: The file that it shows; empty if it shows none.
        text: Its lines, without the block's own indentation.
        fails: Whether the text before it says that its last command fails.
    """

    document: Path
    language: str
    title: str
    text: str
    fails: bool = False


def documents(repository: Path) -> list[Path]:
    """Every Markdown file that belongs to the repository."""
    below = (path for folder in FOLDERS for path in (repository / folder).rglob("*.md"))
    return sorted([*repository.glob("*.md"), *below])


def blocks(document: Path) -> list[Block]:
    """The blocks of a document in their order, fenced ones first."""
    text = document.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["options"])
        own = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        fails = bool(match["fails"])
        found.append(Block(document, match["language"], title[1] if title else "", own, fails))
    rest = _FENCE.sub("", text)
    if "```" in rest:
        raise ValueError(f"{document}: a fence is not closed")
    return [*found, *(Block(document, "", "", textwrap.dedent(own[1])) for own in _INDENTED.finditer(rest))]


def inline_commands(document: Path) -> list[str]:
    """Every call of `xtr-tf` within a line of text."""
    return _INLINE.findall(_FENCE.sub("", document.read_text(encoding="utf-8")))


def shell_commands(block: Block) -> Iterator[list[str]]:
    """Yields the words of every command that a block shows, comments and continuations removed.

    In a block that shows what was printed, a command follows a `$`.
    """
    if block.title or block.language not in ("", "bash", "sh", "console", "text"):
        return
    lines = re.sub(r"<<'?(\w+)'?\n.*?^\1$", "", block.text, flags=re.MULTILINE | re.DOTALL)
    if block.language in ("text", "console"):
        lines = "\n".join(line[2:] for line in lines.splitlines() if line.startswith("$ "))
    yield from split_commands(lines.replace("\\\n", " "))


def split_commands(script: str) -> Iterator[list[str]]:
    """Yields the words of every command; a quoted word may go over several lines."""
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        try:
            words = shlex.split("\n".join(lines), comments=True)
        except ValueError:  # a quotation that the next line goes on with
            continue
        lines.clear()
        if words:
            yield words
    assert not lines, f"a quotation is not closed: {lines[0]}"
