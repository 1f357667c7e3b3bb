"""Generates parts of the documentation site, as a hook of MkDocs (`hooks` in mkdocs.yml).

These comments, each on its own line of a page, are replaced when the site is built:

    <!-- commands -->                    every command with its options, from the command line itself
    <!-- settings module.Class -->       every key below a settings class, from its fields and docstring
    <!-- metrics -->                     every metric of the server, from its registry
    <!-- include path/to/file.md -->     a document of the repository without its title

Links in included documents are rewritten to the page of the site if there is one, and to plain text if not.
Must not know what the pages say.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import posixpath
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

REPOSITORY = Path(__file__).resolve().parents[1]
# MkDocs imports hooks by their path, and the packages need not be installed.
sys.path.insert(0, str(REPOSITORY))

_DIRECTIVE = re.compile(r"^<!-- (commands|settings|metrics|include)(?: (\S+))? -->$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Adds the pictures of included documents."""
    for picture in sorted((REPOSITORY / "benchmarks").glob("*/*.svg")):
        name = picture.relative_to(REPOSITORY).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Replaces the directives of a page."""
    included = _included_documents(files)
    makers: dict[str, Callable[[str], str]] = {
        "commands": lambda _: "\n".join(commands()),
        "settings": lambda name: "\n".join(settings(name)),
        "metrics": lambda _: "\n".join(metrics()),
        "include": lambda name: include(name, page.file.src_uri, included),
    }
    return _DIRECTIVE.sub(lambda found: makers[found[1]](found[2] or ""), markdown)


def commands() -> Iterator[str]:
    """Yields a section of Markdown for every command."""
    from typer.main import get_command

    from xtr_tf.cli.app import app

    yield from _command("xtr-tf", get_command(app))


def _command(name: str, command: Any) -> Iterator[str]:
    below = getattr(command, "commands", {})
    yield from (f"## `{name}`", "", inspect.cleandoc(command.help or ""), "")
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if shown and not below:
        arguments = " ".join(own.name.upper() for own in shown if not own.opts[0].startswith("-"))
        yield from (f"```text\n{name} {arguments} [OPTIONS]\n```".replace("  ", " "), "")
        yield from ("| | default | |", "|---|---|---|")
        for parameter in shown:
            yield f"| {_spelling(parameter)} | {_default(parameter)} | {_cell(parameter.help or '')} |"
        yield ""
    for own, child in below.items():
        yield from _command(f"{name} {own}", child)


def _spelling(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-"):
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if value is None or value is False or value == "" or callable(value):
        return ""
    return "on" if value is True else f"`{value}`"


def settings(name: str) -> Iterator[str]:
    """Yields tables of Markdown for a settings class and those below it."""
    module, _, own = name.rpartition(".")
    yield from _section(getattr(importlib.import_module(module), own), "")


def _section(owner: type, prefix: str) -> Iterator[str]:
    described = _attributes(owner)
    types = typing.get_type_hints(owner)
    nested: list[tuple[type, str]] = []
    yield from ("| key | type | default | meaning |", "|---|---|---|---|")
    for field in dataclasses.fields(owner):
        key = f"{prefix}{field.name}"
        kind = types[field.name]
        listed = [own for own in typing.get_args(kind) if dataclasses.is_dataclass(own)]
        if dataclasses.is_dataclass(kind):
            nested.append((typing.cast(type, kind), f"{key}."))
            default = "see below"
        else:
            nested += [(typing.cast(type, own), f"{key}[].") for own in listed]
            value = field.default if field.default is not dataclasses.MISSING else _made(field)
            default = "" if value in ("", None, (), {}) else f"`{_yaml(value)}`"
        meaning = described.get(field.name, "")
        yield f"| `{key}` | {_cell(_type(kind))} | {_cell(default)} | {_cell(meaning)} |"
    yield ""
    for own, below in nested:
        yield from (
            f"### `{below.rstrip('.')}`",
            "",
            _cell(inspect.cleandoc(own.__doc__ or "").split("\n\n")[0]),
            "",
        )
        yield from _section(own, below)


def _made(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def _attributes(owner: type) -> dict[str, str]:
    """What the docstrings of a class and of those it inherits from say about each attribute."""
    described = {}
    for kind in reversed(owner.__mro__):
        _, _, listed = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
        found = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |^\S|\Z)", listed, re.MULTILINE | re.DOTALL)
        described.update({name: " ".join(text.split()) for name, text in found})
    return described


def _type(kind: Any) -> str:
    if dataclasses.is_dataclass(kind):
        return "section"
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(f"`{value}`" if value else "empty" for value in typing.get_args(kind))
    arguments = [own for own in typing.get_args(kind) if own not in (type(None), Ellipsis)]
    origin = typing.get_origin(kind)
    if origin is tuple:
        return (
            "list of sections" if dataclasses.is_dataclass(arguments[0]) else f"list of {_type(arguments[0])}"
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if arguments:
        return " or ".join(_type(own) for own in arguments)
    return {"str": "text", "int": "integer", "float": "number", "bool": "true or false"}.get(
        kind.__name__, kind.__name__
    )


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def metrics() -> Iterator[str]:
    """Yields a table of Markdown with the server's metrics, those of partitions included."""
    from serving.server.collection.metrics import PartitionMetrics
    from serving.server.requests.metrics import Metrics

    registry = Metrics().registry
    PartitionMetrics(registry)
    yield from ("| metric | kind | labels | meaning |", "|---|---|---|---|")
    for collector in registry._collector_to_names:
        if not hasattr(collector, "_documentation"):
            continue  # the process' own
        suffix = "_total" if collector._type == "counter" else ""
        labels = ", ".join(f"`{name}`" for name in collector._labelnames)
        yield f"| `{collector._name}{suffix}` | {collector._type} | {labels} | {collector._documentation} |"


def include(name: str, page: str, included: dict[str, str]) -> str:
    """Returns a document of the repository as a part of a page.

    Args:
        name: Path of the document, from the root of the repository.
        page: The page that includes it, from the root of the site.
        included: Pages by the documents that they include.
    """
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    _, _, body = text.partition("\n")  # its title is the page's
    return _outside_code(body, lambda part: _adapt(part, name, page, included))


def _adapt(text: str, name: str, page: str, included: dict[str, str]) -> str:
    here = posixpath.dirname(page) or "."

    def fit(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if "://" in target or target.startswith("#"):
            return found[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        site = path.removeprefix("docs/") if path.startswith("docs/") else included.get(path)
        if picture:
            return f"![{words}]({posixpath.relpath(site or path, here)})"
        if site is None:
            return words if "`" in words else f"{words} (`{path}`)"
        return f"[{words}]({posixpath.relpath(site, here)}{'#' * bool(anchor)}{anchor})"

    return _LINK.sub(fit, text)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Applies a change to everything that is not in a fenced block."""
    parts, end = [], 0
    for block in _FENCED.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def _included_documents(files: Files) -> dict[str, str]:
    found = {}
    for file in files.documentation_pages():
        for kind, name in _DIRECTIVE.findall(file.content_string):
            if kind == "include":
                found[name] = file.src_uri
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
