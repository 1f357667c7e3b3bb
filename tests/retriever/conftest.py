"""The exported tiny corpus in a session, by every kind of index."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xtr_tf.runtime import SavedModelSession


@pytest.fixture(autouse=True)
def without_rewriting() -> Iterator[None]:
    """Runs signatures as servers run them. `tests/api` runs some that TensorFlow has rewritten."""
    from xtr_tf.retriever.reference_requests import graphs_as_they_are

    with graphs_as_they_are():
        yield


@pytest.fixture(scope="session")
def exact_session(exact_export: Path) -> Iterator[SavedModelSession]:
    with SavedModelSession(exact_export) as session:
        yield session


@pytest.fixture(scope="session")
def sessions(published: dict[str, Path]) -> Iterator[dict[str, SavedModelSession]]:
    """One session on the exported model of every kind of index."""
    with contextlib.ExitStack() as stack:
        yield {kind: stack.enter_context(SavedModelSession(path)) for kind, path in published.items()}


@pytest.fixture(scope="session")
def published(exact_export: Path, directories: Path, built_once: Callable[..., Path]) -> dict[str, Path]:
    """An exported model of every kind of index; no test may change them."""
    base = built_once("published", lambda root: export_kinds(directories, root))
    return {"exact": exact_export, "scann": base / "scann" / "1", "core": base / "core" / "1"}


def export_kinds(directories: Path, base: Path) -> None:
    from xtr_tf.config.retrieval import SearchDefaults
    from xtr_tf.retriever.assembly import assemble_retriever
    from xtr_tf.retriever.export import export_retriever

    queries = ["highest mountain on earth", "wie lang ist der Nil?", "東京"]
    for kind in ("scann", "core"):
        assembly = assemble_retriever(
            directories / "encoder", directories / "vectors", directories / kind, SearchDefaults(100, 5)
        )
        export_retriever(assembly.retriever, base / kind, assembly.card, queries=queries)
