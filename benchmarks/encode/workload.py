"""What both engines encode: ids of real texts, and one set of weights. Runs in .venv.

Ids come from the scifact corpus and queries with mT5's vocabulary if the measurement data are
available. Otherwise they are random, with lengths distributed like scifact's.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from xtr_tf.config.presets import ENCODER_PRESETS
from xtr_tf.model.weights import initial_weight, weight_shapes

CONFIG = ENCODER_PRESETS["mt5_small"]
DOCUMENT_LENGTH, QUERY_LENGTH = 512, 32
EOS_ID = 1

# Tokens of scifact's 5,183 documents and 1,109 queries, lower-cased and cut, at these percentiles.
_CORPUS_SIZE = 5183
_PERCENTILES = (0, 1, 5, 10, 25, 50, 75, 90, 100)
_DOCUMENT_LENGTHS = (25, 132, 187, 225, 291, 371, 472, 512, 512)
_QUERY_LENGTHS = (5, 11, 14, 15, 18, 23, 30, 32, 32)


@dataclasses.dataclass(frozen=True)
class Workload:
    """Texts as ids, not padded.

    Attributes:
        documents: One int32 array per document.
        queries: One per query.
        source: Where they come from, for the report.
    """

    documents: list[np.ndarray]
    queries: list[np.ndarray]
    source: str


def make_workload(queries: int, seed: int = 0) -> Workload:
    """The whole corpus and some queries, real ones if the measurement data are available."""
    random = np.random.default_rng(seed)
    texts, vocabulary = scifact_texts(), _data() / "vocab" / "mt5.spiece.model"
    if texts and vocabulary.is_file():
        return Workload(
            _tokenize(vocabulary, texts["corpus"], DOCUMENT_LENGTH),
            _tokenize(vocabulary, random.choice(texts["queries"], queries, replace=False), QUERY_LENGTH),
            "scifact, mT5's vocabulary",
        )
    return Workload(
        [_random_ids(random, _DOCUMENT_LENGTHS) for _ in range(_CORPUS_SIZE)],
        [_random_ids(random, _QUERY_LENGTHS) for _ in range(queries)],
        "random ids of scifact's lengths (the texts are not at hand)",
    )


def length_sorted_batches(rows: list[np.ndarray], batch_size: int) -> list[np.ndarray]:
    """Batches of texts of similar length, each padded with 0 to its own longest."""
    rows = sorted(rows, key=len)
    batches = []
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        padded = np.zeros((len(batch), max(map(len, batch))), np.int32)
        for target, row in zip(padded, batch, strict=True):
            target[: len(row)] = row
        batches.append(padded)
    return batches


def spread(batches: list[np.ndarray], count: int) -> list[np.ndarray]:
    """`count` of the batches, evenly spaced from the shortest texts to the longest."""
    return [batches[int((index + 0.5) * len(batches) / count)] for index in range(count)]


def write_weights(path: Path) -> None:
    """Writes random weights in the shape of mT5-small."""
    save_file({name: initial_weight(CONFIG, name, seed=0) for name in weight_shapes(CONFIG)}, path)


def _data() -> Path:
    return Path(os.environ.get("XTR_TF_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def scifact_texts() -> dict[str, list[str]] | None:
    """Texts of scifact's `corpus` and `queries`, lower-cased; None if they are not available."""
    archive = _data() / "test" / "scifact_en.tar.xz"
    if not archive.is_file():
        return None
    with tarfile.open(archive) as tar:
        lines = {
            name: io.TextIOWrapper(tar.extractfile(f"scifact_en/{name}.jsonl"), "utf-8").readlines()
            for name in ("corpus", "queries")
        }
    entries = {name: [json.loads(line) for line in texts] for name, texts in lines.items()}
    return {
        "corpus": [f"{entry['title']} {entry['text']}".lower() for entry in entries["corpus"]],
        "queries": [entry["text"].lower() for entry in entries["queries"]],
    }


def _tokenize(vocabulary: Path, texts: Sequence[str], length: int) -> list[np.ndarray]:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=str(vocabulary))
    return [np.array([*processor.encode(str(text))[: length - 1], EOS_ID], np.int32) for text in texts]


def _random_ids(random: np.random.Generator, lengths: tuple[int, ...]) -> np.ndarray:
    length = round(np.interp(random.uniform(0, 100), _PERCENTILES, lengths))
    return np.append(random.integers(3, CONFIG.vocabulary_size, length - 1), EOS_ID).astype(np.int32)
