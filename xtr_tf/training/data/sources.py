"""From a `SourceConfig` to its examples or its datasets, recognising the format."""

from __future__ import annotations

from pathlib import Path

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.beir import is_beir
from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.lines import LineFile
from xtr_tf.collections.miracl import has_miracl
from xtr_tf.collections.ms_marco import is_ms_marco
from xtr_tf.config.training import SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.training.data.cloze import ClozeSource
from xtr_tf.training.data.examples import ExampleSource, FileSource, parse_jsonl, parse_tsv
from xtr_tf.training.data.judged import FORMATS, JudgedSource, load_judged, with_hard_negatives
from xtr_tf.training.data.teacher_scores import ScoredSource


def open_source(config: SourceConfig, bad_records: BadRecords) -> list[ExampleSource]:
    """Opens training examples; a folder of several languages gives several sources."""
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
    """Opens queries, judgements and whole corpora to search; a BEIR, MS MARCO or MIRACL folder."""
    format_, paths = _recognise(config)
    if format_ not in FORMATS:
        raise InputError(
            "A set to search must be a BEIR, MS MARCO or MIRACL folder with its corpus. "
            f"Received: {config.path!r}."
        )
    return load_judged(format_, paths[0], config.split, config.language, bad_records)


def find_paths(path: str) -> list[Path]:
    """The file or folder at a path, or what fits its pattern."""
    if not path:
        return []
    pattern = Path(path)
    return [pattern] if pattern.exists() else sorted(pattern.parent.glob(pattern.name))


def _recognise(config: SourceConfig) -> tuple[str, list[Path]]:
    """The format, and the files or the one folder."""
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
    raise InputError(f"The format cannot be told from the path; set `format`. Received: {str(path)!r}.")
