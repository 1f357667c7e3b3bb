"""Small shards with known content, and a small random model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.vectors.shard import ShardArrays


@pytest.fixture
def make_shard() -> Callable[..., ShardArrays]:
    def make(name: str, passages: list[list[int]], dim: int = 8, seed: int = 0) -> ShardArrays:
        """Documents with passages of the given token counts: [[3], [2, 4]] is two documents."""
        rng = np.random.default_rng(seed)
        counts = np.array([count for document in passages for count in document], np.int32)
        tokens = int(counts.sum())
        vectors = rng.normal(size=(tokens, dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        documents = [
            Document(f"{name}-{index}", f"text of {name} {index} – 東京", f"Title {index}", "en")
            for index in range(len(passages))
        ]
        return ShardArrays(
            documents=[DocumentRecord.of(document) for document in documents],
            vectors=vectors,
            pieces=rng.integers(0, 1000, tokens, np.int32),
            spans=np.sort(rng.integers(0, 50, (tokens, 2), np.int32), axis=1),
            positions=np.concatenate([[], *[np.arange(count) for count in counts]]).astype(np.int32),
            passage_tokens=counts,
            passage_documents=np.repeat(
                np.arange(len(passages), dtype=np.int32), [len(document) for document in passages]
            ),
        )

    return make


@pytest.fixture(scope="session")
def vocabulary(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentencePiece model of 1,500 pieces trained on the example corpus."""
    import sentencepiece

    prefix = tmp_path_factory.mktemp("vocabulary") / "pieces"
    sentencepiece.SentencePieceTrainer.train(
        input=str(repository / "examples" / "atlas" / "corpus.jsonl"),
        model_prefix=str(prefix),
        vocab_size=1500,
        character_coverage=0.99,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
    )
    return prefix.with_suffix(".model")


@pytest.fixture(scope="session")
def model(vocabulary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a random encoder of 16-dimensional vectors; passages have 64 tokens."""
    from xtr_tf.config.model import EncoderConfig, TokenizerConfig
    from xtr_tf.model.encoder import Encoder
    from xtr_tf.model.folder import save_encoder
    from xtr_tf.model.tokenizer import Tokenizer

    config = EncoderConfig(
        vocabulary_size=1500,
        model_dim=32,
        feed_forward_dim=64,
        num_layers=2,
        num_heads=2,
        head_dim=16,
        projection_dim=16,
    )
    tokenizer = Tokenizer(TokenizerConfig(model=str(vocabulary), document_length=64))
    directory = tmp_path_factory.mktemp("model") / "encoder"
    save_encoder(directory, Encoder(config, seed=1), tokenizer)
    return directory


@pytest.fixture
def atlas(repository: Path) -> Path:
    """The example corpus: 300 documents, many longer than a passage of 64 tokens."""
    return repository / "examples" / "atlas"


@pytest.fixture(scope="module", autouse=True)
def _load_encoders_once(encoders_loaded_once: None) -> None:
    """The tests of a file share loaded encoders, as the workers of a job do."""
