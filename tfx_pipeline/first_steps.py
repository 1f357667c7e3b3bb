"""`xtr-tf pipeline init`: writes what a pipeline for your own files needs: schemas, a split, a configuration.

TensorFlow Data Validation infers the schemas from all records. Users can then edit them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from tfx_pipeline.config import PipelineConfig
from tfx_pipeline.preflight import SCHEMA_FILE, languages_of_schema, read_schema
from xtr_tf.collections.bad_records import ignore
from xtr_tf.collections.beir import is_beir
from xtr_tf.collections.lines import read_objects
from xtr_tf.errors import InputError
from xtr_tf.files import write_atomically
from xtr_tf.progress import track

CONFIG_FILE = "pipeline.yaml"
# Share of the queries of a file that models are judged by.
_EVAL_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class Started:
    """Result of `init`.

    Attributes:
        config: File of the configuration.
        languages: Languages of the corpus and of the queries, as their schemas list them.
        files: All files that were written.
    """

    config: Path
    languages: dict[str, list[str]]
    files: list[Path]


@dataclasses.dataclass(frozen=True)
class _Inputs:
    corpus_folder: Path
    corpus_files: str
    training_folder: Path
    train: str
    eval: str


def start_pipeline(
    folder: Path, corpus: Path, training: Path, eval_: Path | None = None, encoder: Path | None = None
) -> Started:
    """Writes schemas and a commented configuration.

    Args:
        folder: Folder to write into. Must not have a configuration yet.
        corpus: A file of documents, or a BEIR folder.
        training: Judged queries: a JSONL or TSV file, or a BEIR folder.
        eval_: More judged queries that models are judged by. None takes a tenth of `training`.
        encoder: Encoder that training starts from. None starts from random weights.

    Returns:
        The files that were written, and the languages that were found.

    Raises:
        InputError: A file is missing or has the wrong content, or the folder already has a configuration.
    """
    config = folder / CONFIG_FILE
    if config.exists():
        raise InputError(
            f"There is a configuration already; edit it, or choose another folder. Received: {config}."
        )
    for path in (corpus, training, *([eval_] if eval_ else [])):
        if not path.exists():
            raise InputError(f"There is no such file or folder; check the path. Received: {path}.")
    folder.mkdir(parents=True, exist_ok=True)
    inputs = _find_inputs(folder, corpus, training, eval_)
    written = []
    languages: dict[str, list[str]] = {}
    sources: dict[Literal["training", "corpus"], Iterator[bytes]] = {
        "corpus": _documents(inputs),
        "training": _queries(inputs),
    }
    for kind, records in sources.items():
        with track(f"infer the schema of the {kind}"):
            text, languages[kind] = _infer(records, kind)
        path = folder / "schemas" / kind / SCHEMA_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
        written.append(path)
    write_atomically(config, _configuration(folder.resolve(), inputs, encoder).encode())
    return Started(config, languages, [*written, config])


def _find_inputs(folder: Path, corpus: Path, training: Path, eval_: Path | None) -> _Inputs:
    corpus, training = corpus.resolve(), training.resolve()
    documents = (corpus, "corpus.jsonl*") if corpus.is_dir() else (corpus.parent, corpus.name)
    if corpus.is_dir() and not any(corpus.glob(documents[1])):
        raise InputError(f"A corpus is a file, or a BEIR folder with corpus.jsonl. Received: {corpus}.")
    if training.is_dir():
        if not is_beir(training):
            raise InputError(
                "Judged queries are a JSONL or TSV file, or a BEIR folder with queries.jsonl. "
                f"Received: {training}."
            )
        return _Inputs(*documents, training, "qrels/train.tsv", _judged_split(training))
    if eval_ is not None:
        common = Path(os.path.commonpath([training.parent, eval_.resolve().parent]))
        names = [str(path.relative_to(common)) for path in (training, eval_.resolve())]
        return _Inputs(*documents, common, *names)
    if ".jsonl" not in training.suffixes:
        raise InputError(
            "Models are judged by queries whose positives have ids; give them with --eval as a JSONL file. "
            f"Received: {training} only."
        )
    return _Inputs(*documents, _split(training, folder.resolve() / "data"), "train.jsonl", "eval.jsonl")


def _judged_split(folder: Path) -> str:
    for name in ("dev", "test"):
        if (folder / "qrels" / f"{name}.tsv").is_file():
            return f"qrels/{name}.tsv"
    raise InputError(f"Models are judged by qrels/dev.tsv or qrels/test.tsv; add one. Received: {folder}.")


def _split(training: Path, data: Path) -> Path:
    """Puts about a tenth of the queries of each language aside, by a hash, so that a rerun does the same."""
    data.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[tuple[str, str]]] = {}
    for _, record in read_objects(training, ignore):
        line = json.dumps(record, ensure_ascii=False)
        order = hashlib.sha256(str(record.get("query", "")).encode()).hexdigest()
        groups.setdefault(str(record.get("language", "")), []).append((order, line))
    parts: dict[str, list[str]] = {"eval": [], "train": []}
    for rows in groups.values():
        # The same query must not be on both sides.
        for place, order in enumerate(sorted({order for order, _ in rows})):
            aside = place < max(1, round(_EVAL_SHARE * len(rows)))
            parts["eval" if aside else "train"] += [line for own, line in rows if own == order]
    for name, lines in parts.items():
        write_atomically(data / f"{name}.jsonl", "".join(f"{line}\n" for line in lines).encode())
    return data


def _documents(inputs: _Inputs) -> Iterator[bytes]:
    from tfx_pipeline.data.example_gen import read_corpus_file

    for file in sorted(inputs.corpus_folder.glob(inputs.corpus_files)):
        yield from read_corpus_file(file.name, str(inputs.corpus_folder))


def _queries(inputs: _Inputs) -> Iterator[bytes]:
    from tfx_pipeline.data.example_gen import read_training_file

    for pattern in (inputs.train, inputs.eval):
        for file in sorted(inputs.training_folder.glob(pattern)):
            yield from read_training_file(
                str(file.relative_to(inputs.training_folder)), str(inputs.training_folder)
            )


def _infer(records: Iterable[bytes], kind: Literal["training", "corpus"]) -> tuple[str, list[str]]:
    """Infers a schema from serialised examples, and returns it with its languages."""
    import tensorflow as tf
    import tensorflow_data_validation as tfdv

    from tfx_pipeline.data.example_gen import DEFECT

    with tempfile.TemporaryDirectory() as place:
        file = str(Path(place, "examples.tfrecord"))
        with tf.io.TFRecordWriter(file) as writer:
            for record in records:
                if DEFECT not in tf.train.Example.FromString(record).features.feature:
                    writer.write(record)
        statistics = tfdv.generate_statistics_from_tfrecord(file)
    if not statistics.datasets[0].num_examples:
        raise InputError(
            f"The {kind} has no record that can be read; check its format. Received: 0 readable records."
        )
    schema = tfdv.infer_schema(statistics, infer_feature_shape=False, max_string_domain_size=1_000)
    required = {
        feature.name
        for feature in read_schema(PipelineConfig(), kind).feature
        if feature.HasField("presence")
    }
    for feature in schema.feature:
        if feature.name != "language":
            # A small number of texts or ids is not a closed list.
            feature.ClearField("domain")
        if feature.name not in required:
            # All documents so far may have titles, for example, and later ones may not.
            feature.ClearField("presence")
    schema.ClearField("string_domain")
    (language,) = (feature for feature in schema.feature if feature.name == "language")
    language.string_domain.name = "language"
    found = tfdv.infer_schema(statistics, max_string_domain_size=1_000)
    language.string_domain.value[:] = sorted(languages_of_schema(found))
    language.drift_comparator.infinity_norm.threshold = 0.1
    return _HEADER.format(kind=kind) + str(schema), list(language.string_domain.value)


_HEADER = """# What an example of the {kind} must look like; inferred from the data, yours to edit.
# `language` lists the languages in use: one that vanishes, and one that is not listed, stops the run.
"""


def _configuration(folder: Path, inputs: _Inputs, encoder: Path | None) -> str:
    text = json.dumps  # a JSON string is a YAML string
    start = (
        f"    initial_encoder: {text(str(encoder.resolve()))}  # fine-tune this encoder\n"
        if encoder
        else "    # initial_encoder: ENCODER  # fine-tune an encoder; without one, weights are random\n"
    )
    vocabulary = (
        "    # model: VOCABULARY  # the encoder brings its own\n"
        if encoder
        else f"    model: {text(str(folder / 'vocabulary.model'))}  # made by `xtr-tf tokenizer train`\n"
    )
    return f"""# A pipeline from data to a pushed version; every key is in docs/reference/pipeline-yaml.md.
#   xtr-tf pipeline check --config {folder / CONFIG_FILE}
#   xtr-tf pipeline run --config {folder / CONFIG_FILE}
name: {text(folder.name)}
root: {text(str(folder / "runs"))}                # artifacts, metadata and logs
push_directory: {text(str(folder / "models"))}    # versions for servers
training_data:
  folder: {text(str(inputs.training_folder))}
  train: {text(inputs.train)}
  eval: {text(inputs.eval)}    # the queries that models are judged by
  schema: {text(str(folder / "schemas" / "training"))}    # a folder with schema.pbtxt
corpus:
  folder: {text(str(inputs.corpus_folder))}
  files: {text(inputs.corpus_files)}
  schema: {text(str(folder / "schemas" / "corpus"))}
  # encoding: {{passage_length: 0, keep_text: true}}
run:
  tokenizer:
{vocabulary}    query_length: 32
    document_length: 128
  training:
{start}    steps: 1000
    batch_size: 32
    learning_rate: 1.0e-3
    checkpoint_every: 100
index: {{lexical: ngrams}}  # BM25 in the same model; `choose_alpha: true` answers by both
# gate: {{training_drift: 0.1, corpus_drift: 0.1, max_missing_positives: 0.1}}
# quality: {{min_average: 0.0, min_per_language: 0.0, max_average_drop: 0.01, max_language_drop: 0.05}}
# serving_check: {{latency_ms: 500}}
"""
