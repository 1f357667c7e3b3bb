"""MIRACL: `miracl-v1.0-LANGUAGE/{topics,qrels}` beside `miracl-corpus-v1.0-LANGUAGE/docs-*.jsonl.gz`.

[MIRACL](https://arxiv.org/abs/2210.09984), 18 languages, measured by nDCG@10 and averaged over languages.
"""

from __future__ import annotations

from pathlib import Path

from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.collections.tables import read_columns, read_judgements
from xtr_tf.errors import InputError

_PREFIX = "miracl-v1.0-"
_CORPUS_PREFIX = "miracl-corpus-v1.0-"


def is_miracl(folder: Path) -> bool:
    """Whether `folder` holds the topics and judgements of one language."""
    return folder.name.startswith(_PREFIX) and all((folder / part).is_dir() for part in ("topics", "qrels"))


def is_miracl_corpus(folder: Path) -> bool:
    """Whether `folder` holds the passages of one language, which belong to another folder's topics."""
    return folder.name.startswith(_CORPUS_PREFIX)


def load_miracl(folder: Path, split: str | None = None) -> Dataset:
    """Loads one language; the judgements that are published are those of `train` and, by default, `dev`.

    The corpus is looked for beside the folder, inside it, or in a `miracl-corpus` folder beside it.
    """
    split = split or "dev"
    language = folder.name.removeprefix(_PREFIX)
    topics = folder / "topics" / f"topics.{folder.name}-{split}.tsv"
    qrels = folder / "qrels" / f"qrels.{folder.name}-{split}.tsv"
    for path in (topics, qrels):
        if not path.is_file():
            raise InputError(
                f"MIRACL's {language} has no {path.name}; download it, or choose another split. "
                f"Received: {str(folder)!r}."
            )
    judgements = read_judgements(qrels)
    asked = [columns for _, columns in read_columns(topics, (2,))]
    queries = tuple(Query(key, text, language) for key, text in asked if key in judgements)
    return Dataset(
        name=f"miracl/{language}",
        queries=queries,
        judgements={query.id: judgements[query.id] for query in queries},
        corpus=CorpusReader(_corpus_folder(folder, language), language),
        collection="MIRACL",
        language=language,
        unjudged_queries=len(asked) - len(queries),
        unknown_queries=len(judgements) - len(queries),
    )


def _corpus_folder(folder: Path, language: str) -> Path:
    name = f"{_CORPUS_PREFIX}{language}"
    for above in (
        folder.parent,
        folder,
        folder.parent / "miracl-corpus",
        folder.parent.parent / "miracl-corpus",
    ):
        if (above / name).is_dir():
            return above / name
    raise InputError(
        f"MIRACL's passages of {language!r} are missing; put the folder {name} beside the topics. "
        f"Received: {str(folder)!r}."
    )
