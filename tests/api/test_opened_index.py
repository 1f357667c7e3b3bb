"""A saved index, opened again: the same answers, without Python TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import xtr_tf
from xtr_tf.errors import InputError

from .conftest import PASSAGES


def test_an_opened_index_answers_as_the_live_one(tiny_model: Any, saved: Path) -> None:
    live = tiny_model.index(PASSAGES, progress=False)
    with xtr_tf.open(saved) as opened:
        assert len(opened) == len(PASSAGES)
        for query in ("How deep is Lake Baikal?", "茶"):
            mine = live.search(query, top_k=2, k_prime=50, rescore=3)
            theirs = opened.search(query)
            assert theirs.ids == mine.ids
            assert [hit.text for hit in theirs] == [hit.text for hit in mine]
        assert opened.explain("Everest", top_k=1)[0].matches
        assert opened.card["defaults"]["rescore"] == 3


def test_it_never_imports_tensorflow(saved: Path, fresh_python: Callable[..., str]) -> None:
    script = """
        import json, sys
        import xtr_tf
        index = xtr_tf.open(sys.argv[1])
        answer = index.search("Everest", top_k=1)
        heavy = {"tensorflow", "keras", "scann", "faiss", "numba"} & set(sys.modules)
        print(json.dumps([len(answer), sorted(heavy), hasattr(index, "_repr_html_"), repr(index)]))
    """
    count, heavy, _, shown = json.loads(fresh_python(script, saved).splitlines()[-1])
    assert (count, heavy) == (1, [])
    assert "4 documents" in shown


def test_it_cannot_change(saved: Path) -> None:
    with xtr_tf.open(saved) as opened:
        for change in (lambda: opened.add(["a"]), lambda: opened.delete("baikal")):
            with pytest.raises(InputError, match="An exported index cannot change"):
                change()


def test_a_closed_index_says_so(saved: Path) -> None:
    opened = xtr_tf.open(saved)
    opened.close()
    with pytest.raises(InputError, match="closed"):
        opened.search("Everest")


def test_the_same_version_is_not_saved_twice(tiny_model: Any, saved: Path) -> None:
    with pytest.raises(InputError, match="This version exists"):
        tiny_model.index(PASSAGES, progress=False).save(saved, version=1, progress=False)


def test_wrong_defaults_are_refused_before_anything_is_written(tiny_model: Any, tmp_path: Path) -> None:
    index = tiny_model.index(PASSAGES, progress=False)
    with pytest.raises(InputError, match="`top_k` must be between"):
        index.save(tmp_path / "models", top_k=0)
    assert not any(tmp_path.iterdir())


def test_what_is_not_an_exported_model_is_refused(tmp_path: Path, repository: Path) -> None:
    with pytest.raises(InputError, match=r"`saved_model\.pb`"):
        xtr_tf.open(tmp_path)
    with pytest.raises(InputError, match=r"xtr_tf\.load"):
        xtr_tf.open(repository / "models" / "mxtr_tiny")
