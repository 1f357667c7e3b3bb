"""Builds the models to serve: the embedded corpus, and an index of a million tokens.

Both have the same small encoder with random weights, because the time of a query does not depend on the
weights. The million token vectors are drawn around centres, like real ones. Existing indexes are reused, but
models are always exported again.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import numpy as np
import sentencepiece
import tensorflow as tf

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.config.model import TokenizerConfig
from xtr_tf.config.presets import ENCODER_PRESETS
from xtr_tf.config.retrieval import IndexConfig
from xtr_tf.index.build import build_index
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import save_encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.retriever.assembly import assemble_retriever
from xtr_tf.retriever.export import export_retriever, write_warm_up
from xtr_tf.retriever.reference_cases import ReferenceCase
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.retriever.signatures import build_signatures
from xtr_tf.vectors.shard import ShardArrays
from xtr_tf.vectors.store import TokenVectors

VOCABULARY_SIZE = 4000
MARKED_VERSIONS = 4
MILLION_DOCUMENTS, TOKENS_A_DOCUMENT, CENTRES = 16_000, 64, 2_000
ATLAS = Path(__file__).resolve().parents[2] / "examples" / "atlas"


def main() -> None:
    work = Path(sys.argv[1])
    documents = [
        Document(fields["_id"], fields["text"], fields["title"], fields["language"])
        for fields in map(json.loads, (ATLAS / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    ]
    if not (work / "million-index").is_dir():
        build_indexes(work, documents)
    for name in ("atlas", "million"):
        print(f"exporting {name}", flush=True)
        assembly = assemble_retriever(work / "encoder", work / f"{name}-vectors", work / f"{name}-index")
        export_retriever(assembly.retriever, work / name, assembly.card, version=1)
        if name == "atlas":
            save_marked_versions(assembly.retriever, work / "marked")


def build_indexes(work: Path, documents: list[Document]) -> None:
    print("encoding the embedded corpus", flush=True)
    encoder = make_encoder()  # before the tokenizer: setting TensorFlow's seed frees its resources
    tokenizer = make_tokenizer(work, documents)
    fingerprint = save_encoder(work / "encoder", encoder, tokenizer)
    for name, shard in (("atlas", atlas_shard(encoder, tokenizer, documents)), ("million", million_shard())):
        print(f"building the index of {len(shard.vectors):,} tokens", flush=True)
        TokenVectors.write(work / f"{name}-vectors", [shard], fingerprint)
        build_index(TokenVectors.open(work / f"{name}-vectors"), work / f"{name}-index", IndexConfig())


def save_marked_versions(retriever: Retriever, base: Path) -> None:
    """Writes versions whose document ids show which version answered."""
    signatures = {"serving_default": build_signatures(retriever)["serving_default"]}
    plain = retriever.documents.ids.numpy()
    warm_up = ReferenceCase("serving_default", {"query": np.array([b"highest mountain"], object)}, {})
    for version in range(1, MARKED_VERSIONS + 1):
        retriever.documents.ids.assign([b"%d/%b" % (version, identifier) for identifier in plain])
        tf.saved_model.save(retriever, str(base / str(version)), signatures=signatures)
        write_warm_up(base / str(version), "default", [warm_up])


def make_tokenizer(work: Path, documents: list[Document]) -> Tokenizer:
    prefix = work / "vocabulary"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([document.full_text.lower() for document in documents]),
        model_prefix=str(prefix),
        vocab_size=VOCABULARY_SIZE,
        **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "minloglevel": 2},
    )
    return Tokenizer(TokenizerConfig(model=f"{prefix}.model"))


def make_encoder() -> Encoder:
    tf.keras.utils.set_random_seed(0)
    return Encoder(dataclasses.replace(ENCODER_PRESETS["mt5_tiny"], vocabulary_size=VOCABULARY_SIZE))


def atlas_shard(encoder: Encoder, tokenizer: Tokenizer, documents: list[Document]) -> ShardArrays:
    tokens = tokenizer.with_offsets(
        tf.constant([document.full_text for document in documents]), tokenizer.config.document_length
    )
    vectors = [
        encoder(ids).numpy()[encoder.mask(ids).numpy()]
        for ids in (tokens.ids[start : start + 32].to_tensor(0) for start in range(0, len(documents), 32))
    ]
    spans = tf.stack([tokens.character_starts.values, tokens.character_limits.values], axis=1)
    return shard_of(
        [DocumentRecord.of(document) for document in documents],
        np.concatenate(vectors),
        tokens.ids.row_lengths().numpy().astype(np.int32),
        tokens.ids.values.numpy().astype(np.int32),
        spans.numpy().astype(np.int32),
    )


def million_shard() -> ShardArrays:
    generator = np.random.default_rng(0)
    dim = ENCODER_PRESETS["mt5_tiny"].projection_dim
    tokens = MILLION_DOCUMENTS * TOKENS_A_DOCUMENT
    centres = generator.standard_normal([CENTRES, dim], np.float32)
    vectors = centres[generator.integers(0, CENTRES, tokens)]
    vectors += 0.7 * generator.standard_normal(vectors.shape, np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    records = [
        DocumentRecord.of(Document(f"doc-{number}", "", f"Document {number}", "en"))
        for number in range(MILLION_DOCUMENTS)
    ]
    lengths = np.full(MILLION_DOCUMENTS, TOKENS_A_DOCUMENT, np.int32)
    return shard_of(records, vectors, lengths, np.ones(tokens, np.int32), np.zeros([tokens, 2], np.int32))


def shard_of(
    documents: list[DocumentRecord],
    vectors: np.ndarray,
    lengths: np.ndarray,
    pieces: np.ndarray,
    spans: np.ndarray,
) -> ShardArrays:
    return ShardArrays(
        documents=documents,
        vectors=vectors,
        pieces=pieces,
        spans=spans,
        positions=np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
        passage_tokens=lengths,
        passage_documents=np.arange(len(lengths), dtype=np.int32),
    )


if __name__ == "__main__":
    main()
