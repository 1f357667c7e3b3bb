"""The Python that the documents and docstrings show runs, and prints what they say."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

DOCUMENTS = ("README.md", "docs/reference/python.md")
# In this order: the second saves what the third opens.
MODULES = (
    "index",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("live_index", "loading", "model", "results", "training")
    ),
)
DOCUMENTED = [
    {"id": "baikal", "title": "Lake Baikal", "text": "Baikal is 1,642 m deep.", "language": "en"},
    {"id": "nile", "title": "Nile", "text": "The Nile is 6,650 km long.", "language": "en"},
    {"id": "everest", "title": "Everest", "text": "Everest is 8,849 m high.", "language": "en"},
]
_NUMBER = re.compile(r"\d+\.\d+")


def same(shown: str, printed: str) -> bool:
    """Whether two texts are equal but for the last digits of decimal numbers."""
    if _NUMBER.sub("#", shown.strip()) != _NUMBER.sub("#", printed.strip()):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(abs(float(left) - float(right)) < 0.02 for left, right in pairs)


def blocks(document: Path) -> list[tuple[str, str]]:
    """Blocks of Python, each with the text block right after it, or nothing."""
    found = re.findall(
        r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", document.read_text("utf-8"), re.DOTALL
    )
    return [(code, printed) for code, printed in found]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_documents_python_prints_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shown = blocks(REPOSITORY / name)
    assert shown
    names: dict[str, Any] = {}
    for code, expected in shown:
        printed = run_and_capture(code, name, names)
        assert same(expected, printed), f"{code}\nprinted:\n{printed}"


def run_and_capture(code: str, name: str, names: dict[str, Any]) -> str:
    """Runs a block of Python with `names` and returns what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(code, name, "exec"), names)
    return printed.getvalue()


class _Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or same(want, got)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_the_library_run(name: str, docs_names: dict[str, Any]) -> None:
    module = importlib.import_module(f"xtr_tf.api.{name}")
    runner = doctest.DocTestRunner(_Checker(), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    examples = 0
    said = io.StringIO()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__):
        test.globs = dict(docs_names)
        examples += len(test.examples)
        runner.run(test, out=said.write)
    assert examples
    assert runner.summarize(verbose=False).failed == 0, said.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "serving.server.collection.addresses",
        "serving.server.wire.json_schema",
        "xtr_tf.collections.document",
        "xtr_tf.collections.given",
        "xtr_tf.errors",
        "xtr_tf.evaluation.metrics",
        "xtr_tf.evaluation.run",
        "xtr_tf.evaluation.statistics",
        "xtr_tf.evaluation.token_analysis",
        "xtr_tf.index.anisotropic",
        "xtr_tf.index.searchers.core",
        "xtr_tf.index.searchers.exact",
        "xtr_tf.index.searchers.scann",
        "xtr_tf.index.searchers.sharded",
        "xtr_tf.lexical.terms",
        "xtr_tf.model.folder",
        "xtr_tf.model.weights",
        "xtr_tf.scoring.rankings",
        "xtr_tf.scoring.reference",
        "xtr_tf.training.data.cloze",
        "xtr_tf.training.data.examples",
        "xtr_tf.training.data.teacher_vectors",
        "xtr_tf.training.optimizers",
    ],
)
def test_the_examples_of_plain_functions_run(
    name: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert tried.attempted
    assert not tried.failed


@pytest.fixture(scope="module")
def docs_names(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Any:
    """The names that examples use: the shipped model, and an index of three documents."""
    import xtr_tf

    model = xtr_tf.load()
    folder = tmp_path_factory.mktemp("examples")
    (folder / "examples").symlink_to(repository / "examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        index = model.index(DOCUMENTED, progress=False)
        yield {"xtr_tf": xtr_tf, "model": model, "index": index}
