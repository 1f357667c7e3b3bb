"""What both engines train on: ids of real pairs of query and passage, and one set of weights. Runs in .venv.

Pairs are those of squadshifts_new_wiki with the shape's own vocabulary if the measurement data are
available. Otherwise ids are random, with lengths distributed like theirs.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from xtr_tf.config.model import EncoderConfig
from xtr_tf.config.presets import ENCODER_PRESETS
from xtr_tf.model.weights import initial_weight, weight_shapes

BATCH_SIZE = 32
K_TRAIN = 128
QUERY_LENGTH, DOCUMENT_LENGTH = 32, 128
EOS_ID = 1
# Both engines get rows whose length is a multiple of this.
_LENGTH_MULTIPLE = 16

# Tokens of squadshifts_new_wiki's queries and passages in T5's vocabulary, at these percentiles.
_PERCENTILES = (0, 10, 25, 50, 75, 90, 100)
_QUERY_LENGTHS = (5, 10, 12, 14, 18, 22, 32)
_DOCUMENT_LENGTHS = (31, 113, 128, 128, 128, 128, 128)


@dataclasses.dataclass(frozen=True)
class Shape:
    """One of the compared encoders.

    Attributes:
        name: For the report.
        config: Its sizes.
        vocabulary: File name of its SentencePiece model among the data.
    """

    name: str
    config: EncoderConfig
    vocabulary: str

    def write_weights(self, path: Path) -> None:
        """Writes random weights."""
        save_file(
            {name: initial_weight(self.config, name, seed=0) for name in weight_shapes(self.config)}, path
        )


SHAPES = {
    "tiny": Shape("tiny", ENCODER_PRESETS["t5_1_1_tiny"], "t5.spiece.model"),
    "small": Shape("small", ENCODER_PRESETS["mt5_small"], "mt5.spiece.model"),
}


def write_batches(shape: Shape, path: Path, count: int) -> str:
    """Writes `count` batches as an `.npz` file of `queries_0`, `documents_0`, ...

    Returns:
        Where they come from, for the report.
    """
    data = Path(os.environ.get("XTR_TF_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    pairs, vocabulary = data / "train/squadshifts_new_wiki_en.jsonl.xz", data / "vocab" / shape.vocabulary
    random = np.random.default_rng(0)
    if pairs.is_file() and vocabulary.is_file():
        queries, documents = _tokenized_pairs(pairs, vocabulary)
        source = f"squadshifts_new_wiki, vocabulary of {vocabulary.name.split('.')[0]}"
    else:
        size = shape.config.vocabulary_size
        queries = [_random_ids(random, _QUERY_LENGTHS, size) for _ in range(count * BATCH_SIZE)]
        documents = [_random_ids(random, _DOCUMENT_LENGTHS, size) for _ in range(count * BATCH_SIZE)]
        source = "random ids of squadshifts_new_wiki's lengths (the texts are not at hand)"
    order = random.permutation(len(queries))
    arrays = {}
    for number in range(count):
        rows = order[number * BATCH_SIZE : (number + 1) * BATCH_SIZE]
        arrays[f"queries_{number}"] = _pad([queries[row] for row in rows])
        arrays[f"documents_{number}"] = _pad([documents[row] for row in rows])
    np.savez(path, **arrays)
    return source


def _tokenized_pairs(pairs: Path, vocabulary: Path) -> tuple[list[list[int]], list[list[int]]]:
    """One question per passage, so that no batch has the same passage twice."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=str(vocabulary))
    with lzma.open(pairs, "rt", encoding="utf-8") as file:
        texts = {pair["text"]: pair["query"] for pair in map(json.loads, file)}
    queries = [[*processor.encode(text.lower())[: QUERY_LENGTH - 1], EOS_ID] for text in texts.values()]
    documents = [[*processor.encode(text.lower())[: DOCUMENT_LENGTH - 1], EOS_ID] for text in texts]
    return queries, documents


def _random_ids(random: np.random.Generator, lengths: tuple[int, ...], size: int) -> list[int]:
    length = round(np.interp(random.uniform(0, 100), _PERCENTILES, lengths))
    return [*random.integers(3, size, length - 1), EOS_ID]


def _pad(rows: list[list[int]]) -> np.ndarray:
    width = -(-max(map(len, rows)) // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
    padded = np.zeros((len(rows), width), np.int32)
    for target, row in zip(padded, rows, strict=True):
        target[: len(row)] = row
    return padded
