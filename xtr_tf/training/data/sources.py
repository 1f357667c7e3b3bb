"""Opens the examples or datasets of a `SourceConfig`, and detects the format."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.beir import is_beir
from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.collections.document import Document
from xtr_tf.collections.lines import LineFile
from xtr_tf.collections.miracl import has_miracl
from xtr_tf.collections.ms_marco import is_ms_marco
from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.cloze import ClozeSource
from xtr_tf.training.data.examples import ExampleSource, FileSource, parse_jsonl, parse_tsv
from xtr_tf.training.data.judged import FORMATS, JudgedSource, load_judged, with_hard_negatives
from xtr_tf.training.data.teacher_scores import ScoredSource


def open_source(config: SourceConfig, bad_records: BadRecords) -> list[ExampleSource]:
    """Opens training examples. A folder with several languages gives several sources.

    Args:
        config: Path, format, split and language.
        bad_records: Collects records that cannot be used.

    Returns:
        The sources, one per language of a MIRACL folder.

    Raises:
        InputError: The path or the format cannot be used.
    """
    sources = _open(config, bad_records)
    if not config.teacher_scores:
        return sources
    return [ScoredSource(source, config.teacher_scores, bad_records) for source in sources]


def _open(config: SourceConfig, bad_records: BadRecords) -> list[ExampleSource]:
    if config.format == "cloze":
        return [ClozeSource(config)]
    format_, paths = _recognise(config)
    if format_ in FORMATS:
        datasets = load_judged(format_, paths[0], config.split, config.language, bad_records)
        if format_ == "ms_marco":
            datasets = [with_hard_negatives(datasets[0], paths[0], config.split, bad_records)]
        return [JudgedSource(dataset, bad_records) for dataset in datasets]
    if format_ == "tfrecord":
        from xtr_tf.training.data.tfrecords import TFRecordFile, parse_example

        records = [TFRecordFile(path, bad_records) for path in paths]
        return [FileSource(config.path, records, parse_example, config.language, bad_records)]
    parse = parse_jsonl if format_ == "jsonl" else parse_tsv
    lines = [LineFile(path) for path in paths]
    return [FileSource(config.path, lines, parse, config.language, bad_records)]


def open_datasets(config: SourceConfig, bad_records: BadRecords) -> list[Dataset]:
    """Opens queries, judgements and corpora to search.

    A BEIR, MS MARCO or MIRACL folder has its own corpus. For all other training data, the corpus consists of
    the documents of the examples.

    Args:
        config: Path, format, split and language.
        bad_records: Collects records that cannot be used.

    Returns:
        The datasets, one per language of a MIRACL folder.

    Raises:
        InputError: The path or the format cannot be used.
    """
    format_, paths = _recognise(config)
    if format_ in FORMATS:
        return load_judged(format_, paths[0], config.split, config.language, bad_records)
    return [dataset_of_examples(source) for source in open_source(config, bad_records)]


def dataset_of_examples(source: ExampleSource) -> Dataset:
    """Makes a dataset of the queries of some examples over all of their documents.

    Args:
        source: The examples.

    Returns:
        The dataset. Documents without an id are identified by their text.
    """
    documents: dict[str, Document] = {}
    queries: list[Query] = []
    judgements: dict[str, dict[str, int]] = {}
    for number in range(len(source)):
        example = source[number]
        name = f"{example.id or 'query'}#{number}"
        for document in (*example.positives, *example.negatives):
            key = document.id or document.full_text
            documents.setdefault(key, dataclasses.replace(document, id=key))
        queries.append(Query(name, example.query, example.language))
        judgements[name] = {document.id or document.full_text: 1 for document in example.positives}
    return Dataset(source.name, tuple(queries), judgements, tuple(documents.values()))


def check_sources(config: DataConfig) -> None:
    """Checks that all sets exist and have a known format, before anything that takes long.

    Args:
        config: Settings with the sources `train` and `dev`.

    Raises:
        InputError: A set cannot be used. The message has its key.
    """
    for name in ("train", "dev"):
        for number, source in enumerate(getattr(config, name)):
            if source.format == "tokenized":
                continue
            try:
                _recognise(source)
            except InputError as error:
                raise InputError(f"`data.{name}[{number}]`: {error}") from None


def find_paths(path: str) -> list[Path]:
    """Returns the file or folder at a path, or the sorted matches of a pattern."""
    if not path:
        return []
    pattern = Path(path)
    return [pattern] if pattern.exists() else sorted(pattern.parent.glob(pattern.name))


def _recognise(config: SourceConfig) -> tuple[str, list[Path]]:
    """Returns the format, and the files or the one folder."""
    paths = find_paths(config.path)
    if not paths:
        raise InputError(f"A data set does not exist; check its path. Received: {config.path!r}.")
    format_ = config.format if config.format != "auto" else _guess(paths[0])
    if format_ in FORMATS and not paths[0].is_dir():
        raise InputError(f"A {format_} data set is a folder. Received: {config.path!r}.")
    if format_ not in FORMATS and paths[0].is_dir():
        raise InputError(
            f"A {format_} data set is a file, or several with a pattern. Received: {config.path!r}."
        )
    return format_, paths


def _guess(path: Path) -> str:
    if path.is_dir():
        if is_beir(path):
            return "beir"
        if is_ms_marco(path):
            return "ms_marco"
        if has_miracl(path):
            return "miracl"
    elif ".jsonl" in path.suffixes:
        return "jsonl"
    elif ".tsv" in path.suffixes:
        return "tsv"
    elif "tfrecord" in path.name.lower():
        return "tfrecord"
    raise InputError(f"The format cannot be recognised from the path; set `format`. Received: {str(path)!r}.")
