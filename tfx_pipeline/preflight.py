"""Checks within seconds what would fail late in a run: paths, patterns, schemas, languages, vocabulary.

Looks at the beginning of the files that a run would read. Imports neither TFX nor TensorFlow.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from tfx_pipeline.config import PipelineConfig, absolute, is_remote
from tfx_pipeline.data.sources import is_judgements, matching_files
from tfx_pipeline.lineage import METADATA_FILE, Lineage
from xtr_tf.collections.bad_records import ignore
from xtr_tf.collections.beir import load_beir
from xtr_tf.collections.corpus import CorpusReader
from xtr_tf.collections.document import UNKNOWN_LANGUAGE
from xtr_tf.collections.lines import read_objects
from xtr_tf.errors import InputError

SCHEMA_FILE = "schema.pbtxt"
# Number of records at the beginning of each file whose languages are checked.
_LOOKED_AT = 20_000
_INIT = "let `xtr-tf pipeline init` infer schemas from your data"

Dag = Literal["full", "refresh"]


def check(config: PipelineConfig, dag: Dag = "full") -> None:
    """Checks that a pipeline can run on this machine: paths, patterns, schemas, languages.

    Args:
        config: The configuration.
        dag: `full` or `refresh`.

    Raises:
        InputError: The pipeline cannot run. The message names the first problem and the key to change.
    """
    if is_remote(config.root):
        raise InputError(
            "A pipeline runs here under a local root; compile it for a remote one. "
            f"Received: root {config.root!r}."
        )
    for name, folder in (("training_data", config.training_data.folder), ("corpus", config.corpus.folder)):
        if not folder or not (is_remote(folder) or Path(folder).is_dir()):
            raise InputError(f"`{name}.folder` must be a folder that exists. Received: {folder!r}.")
    vocabulary = config.vocabulary
    if not vocabulary or not (is_remote(vocabulary) or Path(vocabulary).is_file()):
        raise InputError(
            "`run.tokenizer.model` must be a SentencePiece file; make one with `xtr-tf tokenizer train`, or "
            f"set `run.training.initial_encoder`. Received: {vocabulary!r}."
        )
    if dag == "refresh" and not _has_blessed_model(config):
        raise InputError(
            "A refresh needs a model that was blessed before; run the full pipeline first. "
            f"Received: root {config.root!r}."
        )
    _check_data(config, dag)


def _check_data(config: PipelineConfig, dag: Dag) -> None:
    judged, documents = config.training_data, config.corpus
    files: dict[str, list[Path]] = {}
    if not is_remote(judged.folder):
        files["training_data.eval"] = _matching("training_data.eval", judged.folder, judged.eval)
        if dag == "full":
            files["training_data.train"] = _matching("training_data.train", judged.folder, judged.train)
    if not is_remote(documents.folder):
        files["corpus.files"] = _matching("corpus.files", documents.folder, documents.files)
    for key, found in files.items():
        kind: Literal["training", "corpus"] = "corpus" if key == "corpus.files" else "training"
        source = documents if kind == "corpus" else judged
        schema = read_schema(config, kind)
        if schema is not None and source.format == "text":
            counts = languages_of_corpus(found) if kind == "corpus" else languages_of_queries(found)
            _check_languages(counts, schema, key, config.schema_folder(kind))


def _matching(key: str, folder: str, pattern: str) -> list[Path]:
    found = matching_files(absolute(folder), pattern)
    if not found:
        raise InputError(
            f"`{key}` matches no file in `{key.partition('.')[0]}.folder`, {folder}; check both. "
            f"Received: {pattern!r}."
        )
    return found


def read_schema(config: PipelineConfig, kind: Literal["training", "corpus"]) -> Any:
    """Reads the curated schema of an input.

    Args:
        config: The configuration.
        kind: `training` for judged queries, or `corpus` for documents.

    Returns:
        A `schema_pb2.Schema`, or None if the schema is remote.

    Raises:
        InputError: The file is missing, or is not a schema.
    """
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    folder = config.schema_folder(kind)
    key = "corpus.schema" if kind == "corpus" else "training_data.schema"
    if is_remote(folder):
        return None
    path = Path(folder, SCHEMA_FILE)
    if not path.is_file():
        raise InputError(
            f"`{key}` is the folder of a file {SCHEMA_FILE}; {_INIT}, or name one. Received: {folder!r}."
        )
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), schema_pb2.Schema())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise InputError(f"`{key}`: {path} is not a schema; fix it, or {_INIT}. Received: {error}.") from None


def languages_of_schema(schema: Any) -> list[str]:
    """Returns the values that a schema allows for `language`. Empty if it allows any."""
    for feature in schema.feature:
        if feature.name == "language":
            if feature.HasField("string_domain"):
                return list(feature.string_domain.value)
            for domain in schema.string_domain:
                if domain.name == feature.domain:
                    return list(domain.value)
    return []


def languages_of_corpus(files: Iterable[Path]) -> Counter[str]:
    """Counts the languages of the first documents of each file."""
    readers = (itertools.islice(CorpusReader(file), _LOOKED_AT) for file in files)
    return Counter(document.language for document in itertools.chain.from_iterable(readers))


def languages_of_queries(files: Iterable[Path]) -> Counter[str]:
    """Counts the languages of the first judged queries of each file."""
    return Counter(itertools.chain.from_iterable(map(_query_languages, files)))


def _query_languages(file: Path) -> Iterator[str]:
    if is_judgements(str(file)):
        dataset = load_beir(file.parent.parent, file.name.partition(".")[0], on_bad=ignore)
        yield from (query.language for query in itertools.islice(dataset.queries, _LOOKED_AT))
    elif ".jsonl" in file.suffixes:
        for _, record in itertools.islice(read_objects(file, ignore), _LOOKED_AT):
            language = record.get("language") or record.get("lang")
            yield language if isinstance(language, str) else UNKNOWN_LANGUAGE
    else:
        yield UNKNOWN_LANGUAGE


def _check_languages(counts: Counter[str], schema: Any, key: str, folder: str) -> None:
    known = languages_of_schema(schema)
    unknown = {language: count for language, count in counts.most_common() if language not in known}
    if not known or not unknown:
        return
    every = sum(counts.values())
    shares = ", ".join(f"{language} ({count / every:.0%})" for language, count in unknown.items())
    raise InputError(
        f"`{key}` has languages that the schema does not list; add them to `string_domain` in "
        f"{folder}/{SCHEMA_FILE} (`{key.partition('.')[0]}.schema` names the folder), or {_INIT}. "
        f"Received: {shares}."
    )


def _has_blessed_model(config: PipelineConfig) -> bool:
    database = metadata_file(config)
    return database.is_file() and Lineage(database).latest_blessed_model() is not None


def metadata_file(config: PipelineConfig) -> Path:
    """Returns the metadata store of a pipeline that runs on this machine."""
    return Path(absolute(config.root), METADATA_FILE)
