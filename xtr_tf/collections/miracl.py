"""MIRACL: `miracl-v1.0-LANGUAGE/{topics,qrels}` next to `miracl-corpus-v1.0-LANGUAGE/docs-*.jsonl.gz`.

[MIRACL](https://arxiv.org/abs/2210.09984), 18 languages, measured by nDCG@10 and averaged over languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xtr_tf.collections.bad_records import OnBadRecord, ignore, refuse
from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.dataset import Dataset, read_query_columns
from xtr_tf.collections.judgements import read_judgements
from xtr_tf.errors import InputError

_TOPICS = "topics.miracl-*.tsv*"


def is_miracl(folder: Path) -> bool:
    """Whether `folder` belongs to one language: its topics are in it or in its folder `topics`."""
    return any(folder.glob(_TOPICS)) or any((folder / "topics").glob(_TOPICS))


def has_miracl(folder: Path) -> bool:
    """Whether `folder` contains the topics of any language."""
    return any(folder.rglob(_TOPICS))


def load_miracl(
    folder: Path,
    split: str | None = None,
    *,
    language: str | None = None,
    on_bad: OnBadRecord | None = None,
) -> list[Dataset]:
    """Loads all languages in a folder.

    The files may be anywhere in the folder. The corpus may also be next to it, or in a folder
    `miracl-corpus` next to it or to its parent.

    Args:
        folder: The folder of one language or of several.
        split: Split of the topics, `dev` by default. Judgements are published for `train` and `dev`.
        language: The only language to load; all by default.
        on_bad: Called for bad records; by default those of the corpus are skipped and others refused.

    Returns:
        One dataset per language.

    Raises:
        InputError: There is no such split or language, or one of its files is missing.
    """
    split = split or "dev"
    pattern = re.compile(rf"(topics\.(miracl-.*-([a-z]+)-{re.escape(split)}\.tsv))(\..*)?")
    datasets = []
    for topics in sorted(folder.rglob(_TOPICS)):
        found = pattern.fullmatch(topics.name)
        if found is None or language not in (None, found[3]):
            continue
        datasets.append(_load_language(folder, topics, f"qrels.{found[2]}", found[3], on_bad))
    if not datasets:
        wanted = f"topics.miracl-v1.0-{language or 'LANGUAGE'}-{split}.tsv"
        raise InputError(
            f"The folder has no MIRACL topics of split {split!r} ({wanted}); download them, or choose "
            f"another split. Received: {str(folder)!r}."
        )
    return datasets


def _load_language(
    folder: Path, topics: Path, qrels_name: str, language: str, on_bad: OnBadRecord | None
) -> Dataset:
    qrels = next(iter(sorted(folder.rglob(f"{qrels_name}*"))), None)
    corpus = next(_corpus_folders(folder, language), None)
    if qrels is None or corpus is None:
        missing = qrels_name if qrels is None else f"miracl-corpus-v1.0-{language}, next to it"
        raise InputError(f"A MIRACL folder lacks {missing}. Received: {str(folder)!r}.")
    return Dataset.of_judged_queries(
        name=f"miracl/{language}",
        queries=read_query_columns(topics, language, on_bad or refuse),
        judgements=read_judgements(qrels, on_bad or refuse),
        corpus=CorpusReader(corpus, language, on_bad or ignore),
        collection="MIRACL",
    )


def _corpus_folders(folder: Path, language: str) -> Iterator[Path]:
    """Yields folders with the passages of a language, nearest first."""
    yield from (path for path in sorted(folder.rglob(f"*corpus*-{language}")) if path.is_dir())
    for above in (folder.parent, folder.parent / "miracl-corpus", folder.parent.parent / "miracl-corpus"):
        yield from (path for path in sorted(above.glob(f"*corpus*-{language}")) if path.is_dir())
