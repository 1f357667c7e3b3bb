"""Finds and loads the datasets in a folder. The layout is recognised by the files, not by the name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from xtr_tf.collections.beir import is_beir, load_beir
from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.lotte import is_lotte, load_lotte
from xtr_tf.collections.miracl import is_miracl, load_miracl
from xtr_tf.collections.ms_marco import is_ms_marco, load_ms_marco
from xtr_tf.collections.open_qa import load_entity_questions, load_questions, question_files, relation_files
from xtr_tf.errors import InputError


def load_datasets(paths: Iterable[str | Path], split: str | None = None) -> list[Dataset]:
    """Loads all datasets in several folders.

    A folder is a dataset (in the layout of BEIR, MS MARCO, MIRACL, LoTTE or DPR) or a collection: a folder
    of such folders, whose datasets are averaged.

    Args:
        paths: The folders.
        split: Split of the judgements; by default the test split of each layout.

    Returns:
        The datasets, in the order of the folders and of the names in them.

    Raises:
        InputError: A folder has no dataset, a dataset has no queries, or two have the same name.
    """
    datasets: list[Dataset] = []
    for path in map(Path, paths):
        datasets += _load_folder(path.resolve(), split)
    names = [dataset.name for dataset in datasets]
    for dataset in datasets:
        if not dataset.queries:
            raise InputError(
                "A dataset has no judged query; choose another split. "
                f"Received: {dataset.name!r} with split {split or 'test'!r}."
            )
        if names.count(dataset.name) > 1:
            raise InputError(f"Datasets need different names. Received: {dataset.name!r} more than once.")
    return datasets


def _load_folder(folder: Path, split: str | None) -> list[Dataset]:
    if not folder.is_dir():
        raise InputError(f"A dataset is a folder. Received: {str(folder)!r}, which is not one.")
    found = _load_dataset(folder, split, collection="")
    if found:
        return found
    children = sorted(child for child in folder.iterdir() if child.is_dir())
    for child in children:
        found += _load_dataset(child, split, collection=folder.name)
    for child in children if not found else ():  # LoTTE has its splits one level below
        found += _load_dataset(child / (split or "test"), split, collection=folder.name)
    if not found:
        raise InputError(
            "A dataset folder has BEIR's files (corpus.jsonl, queries.jsonl, qrels/), or MS MARCO's, "
            f"MIRACL's, LoTTE's or DPR's, or folders with them. Received: {str(folder)!r}."
        )
    return found


def _load_dataset(folder: Path, split: str | None, collection: str) -> list[Dataset]:
    """Loads the datasets of `folder` itself; none if it has no known layout."""
    if is_beir(folder):
        return [load_beir(folder, split, collection=collection)]
    if is_lotte(folder):
        return load_lotte(folder)
    if is_ms_marco(folder):
        return [load_ms_marco(folder, split)]
    if is_miracl(folder):
        return load_miracl(folder, split)
    datasets = [load_questions(path) for path in question_files(folder, split or "test")]
    if relation_files(folder, split or "test"):
        datasets.append(load_entity_questions(folder, split))
    return datasets
