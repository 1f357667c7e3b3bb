"""A small part of the example corpus in all languages, as BEIR folders by span, and a pipeline for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tfx_pipeline
from tfx_pipeline.config import PipelineConfig
from xtr_tf.config.loading import from_mapping

_SCHEMAS = Path(tfx_pipeline.__file__).parent / "schemas"
PASSAGES = {"train": 2, "dev": 2}


def write_small_atlas(atlas: Path, data: Path) -> Path:
    """Takes a few judged passages of each language and split, with their questions, as span 1."""
    folder = data / "span-1"
    documents = {row["_id"]: row for row in _read(atlas / "corpus.jsonl")}
    queries = {row["_id"]: row for row in _read(atlas / "queries.jsonl")}
    (folder / "qrels").mkdir(parents=True)
    kept_documents, kept_queries = [], []
    for split, count in PASSAGES.items():
        taken: dict[str, list[str]] = {}
        lines = (atlas / "qrels" / f"{split}.tsv").read_text().splitlines()
        kept_lines = [lines[0]]
        for line in lines[1:]:
            query, document, _ = line.split("\t")
            of_language = taken.setdefault(documents[document]["language"], [])
            if document not in of_language and len(of_language) < count:
                of_language.append(document)
                kept_documents.append(documents[document])
            if document in of_language:
                kept_queries.append(queries[query])
                kept_lines.append(line)
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(kept_lines) + "\n")
    write_jsonl(folder / "corpus.jsonl", kept_documents)
    write_jsonl(folder / "queries.jsonl", kept_queries)
    return data


#: Fields that `add_fields` adds to the documents, and their schema.
FIELDS = {"number": "int", "tags": "keywords"}
_SCHEMA = """
feature { name: "number" type: INT value_count { min: 1 max: 1 } presence { min_fraction: 1.0 } }
feature { name: "tags" type: BYTES }
"""


def add_fields(data: Path, schema: Path) -> dict[str, Any]:
    """Adds a number and tags to every document; returns the configuration changes that declare them."""
    rows = read_corpus(data)
    for number, row in enumerate(rows):
        row |= {"number": number, "tags": ["even" if number % 2 == 0 else "odd"], "undeclared": "x"}
    write_corpus(data, 1, rows)
    schema.mkdir()
    curated = (_SCHEMAS / "corpus" / "schema.pbtxt").read_text()
    (schema / "schema.pbtxt").write_text(curated + _SCHEMA)
    return {"corpus__encoding__fields": FIELDS, "corpus__schema": str(schema)}


def read_corpus(data: Path, span: int = 1) -> list[dict[str, Any]]:
    return _read(data / f"span-{span}" / "corpus.jsonl")


def write_corpus(data: Path, span: int, rows: list[dict[str, Any]]) -> None:
    """Writes a span that contains only a corpus."""
    (data / f"span-{span}").mkdir(exist_ok=True)
    write_jsonl(data / f"span-{span}" / "corpus.jsonl", rows)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def small_config(data: Path, root: Path, vocabulary: Path, **changes: Any) -> PipelineConfig:
    """A pipeline that hardly trains and blesses any model."""
    settings: dict[str, Any] = {
        "name": "small",
        "root": str(root),
        "training_data": {
            "folder": str(data),
            "train": "span-{SPAN}/qrels/train.tsv",
            "eval": "span-{SPAN}/qrels/dev.tsv",
        },
        "corpus": {
            "folder": str(data),
            "files": "span-{SPAN}/corpus.jsonl",
            "shard_characters": 2_000,
        },
        "run": {
            "tokenizer": {"model": str(vocabulary), "query_length": 16, "document_length": 64},
            "encoder": {
                "vocabulary_size": 1500,
                "model_dim": 32,
                "feed_forward_dim": 64,
                "num_layers": 1,
                "num_heads": 2,
                "head_dim": 16,
                "projection_dim": 32,
            },
            "training": {"steps": 3, "batch_size": 8, "checkpoint_every": 1, "log_every": 1},
        },
        "index": {"kind": "core"},
        "search": {"k_prime": 100},
        "quality": {"bm25": False, "exact_queries": 0, "max_language_drop": 1.0, "max_average_drop": 1.0},
        "serving_check": {"rounds": 1, "latency_ms": 60_000.0},
    }
    for key, value in changes.items():
        section = settings
        *parents, name = key.split("__")
        for parent in parents:
            section = section.setdefault(parent, {})
        section[name] = value
    return from_mapping(PipelineConfig, settings)


def copy_vocabulary(tokenizer: Any, folder: Path) -> Path:
    path = folder / "vocabulary.model"
    path.write_bytes(tokenizer.model_bytes)
    return path


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
