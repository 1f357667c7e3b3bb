"""Commands print texts from documents and queries unchanged, never as markup."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from serving.cli import query
from xtr_tf.cli import rendering
from xtr_tf.errors import InputError


def printed(drawing: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(drawing)
    return console.file.getvalue()


@pytest.mark.parametrize("text", ["[sic]", "[/]", "[bold]b[/bold]"])
def test_a_ranking_shows_texts_as_they_are(text: str) -> None:
    strings = {
        name: np.array([[f"{name}{text}".encode()]], object)
        for name in ("document_ids", "languages", "titles")
    }
    shown = printed(rendering.ranking_table({"scores": np.ones([1, 1]), **strings}, 0))
    assert all(f"{name}{text}" in shown for name in strings)


@pytest.mark.parametrize("text", ["[sic]", "[/]"])
def test_an_alignment_shows_pieces_as_they_are(text: str) -> None:
    match = SimpleNamespace(
        query_piece=f"q{text}", document_piece=f"d{text}", retrieved=True, score=0.9, weight=1.0
    )
    shown = printed(query._alignment((match,)))
    assert f"q{text}" in shown
    assert f"d{text}" in shown


def test_an_empty_file_of_a_token_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(InputError, match=r"is empty\. Received: '.*token'"):
        query.read_token(tmp_path / "token")
