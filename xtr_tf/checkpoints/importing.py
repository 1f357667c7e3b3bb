"""Turns a checkpoint into an encoder folder, one block of one tensor at a time.

Knows no file format and no naming: `opening.py` lists the tensors, and `plan.py` says which weight each is.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtr_tf.checkpoints.opening import Checkpoint, open_checkpoint
from xtr_tf.checkpoints.plan import ImportPlan, plan_import
from xtr_tf.checkpoints.safetensors import Progress, SafetensorsWriter, row_blocks
from xtr_tf.config.model import EncoderConfig, TokenizerConfig
from xtr_tf.errors import InputError
from xtr_tf.files import atomic_directory
from xtr_tf.model.folder import TOKENIZER_FILE, WEIGHTS_FILE, write_manifest
from xtr_tf.model.vocabulary import SentencePieceModel, TrimmedVocabulary, corpus_texts, trim_vocabulary
from xtr_tf.model.weights import initial_weight, weight_shapes

_EMBEDDING = "token_embedder/embedding"


@dataclasses.dataclass(frozen=True)
class ImportReport:
    """What was imported.

    Attributes:
        config: The encoder's sizes, after trimming.
        family: The family of checkpoints that names tensors like this one.
        dropped: The number of its tensors that the encoder does not need.
        fingerprint: The encoder directory's fingerprint.
    """

    config: EncoderConfig
    family: str
    dropped: int
    fingerprint: str


def import_checkpoint(
    source: str | Path,
    directory: str | Path,
    *,
    tokenizer: TokenizerConfig | None = None,
    preset: str | None = None,
    projection_dim: int | None = None,
    projection_seed: int | None = None,
    keep_pieces_of: Sequence[str | Path] = (),
    overwrite: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Imports a checkpoint of Hugging Face, Mesh-TensorFlow or T5X.

    Everything is checked before the first byte is written, and the directory appears only when it is
    complete. Weights become float32. At most one tensor is in memory at a time.

    Args:
        source: The checkpoint, as `open_checkpoint` takes it.
        directory: The encoder directory to write.
        tokenizer: Settings of the tokenizer; an empty `model` means the checkpoint's own.
        preset: The encoder that the checkpoint must fit; by default the one it describes.
        projection_dim: Width of a newly initialised projection; 128 by default.
        projection_seed: Seed for a new projection if the checkpoint has none; None makes that an error.
        keep_pieces_of: Corpora to trim the vocabulary to; see `trim_vocabulary`.
        overwrite: Whether to replace an existing directory.
        progress: Called with the bytes written so far and their total.

    Returns:
        The shape of the encoder, and what was left out of the checkpoint.

    Raises:
        InputError: Tensors are missing, unknown, or of the wrong shape or dtype; the message lists them.

    Example:
        >>> import_checkpoint("downloads/mt5-base", "encoders/mt5-base", projection_seed=0)
    """
    checkpoint = open_checkpoint(source)
    plan = plan_import(
        checkpoint,
        preset=preset,
        projection_dim=projection_dim,
        initialize_projection=projection_seed is not None,
    )
    plan.check(source)
    tokenizer = tokenizer or TokenizerConfig()
    vocabulary = _read_tokenizer(checkpoint, tokenizer.model, plan.config)
    model, config, rows = vocabulary.content, plan.config, None
    if keep_pieces_of:
        model, rows = _trim(vocabulary, keep_pieces_of, tokenizer.lowercase)
        config = dataclasses.replace(config, vocabulary_size=len(rows))
    with atomic_directory(Path(directory), overwrite) as staging:
        (staging / TOKENIZER_FILE).write_bytes(model)
        _write_weights(staging / WEIGHTS_FILE, plan, config, rows, projection_seed, progress)
        fingerprint = write_manifest(staging, config, tokenizer)
    return ImportReport(config, checkpoint.naming.title, len(plan.dropped), fingerprint)


def _write_weights(
    file: Path,
    plan: ImportPlan,
    config: EncoderConfig,
    rows: np.ndarray | None,
    projection_seed: int | None,
    progress: Progress | None,
) -> None:
    shapes = weight_shapes(config)
    with SafetensorsWriter(file, shapes, progress=progress) as writer:
        for name in shapes:
            if name in plan.assignments:
                assignment = plan.assignments[name]
                values = assignment.tensor.read()
                values = values.T if assignment.transposed else values
            else:
                assert projection_seed is not None  # otherwise the plan has a problem
                values = initial_weight(config, name, projection_seed)
            writer.write(name, row_blocks(values, rows if name == _EMBEDDING else None))


def _read_tokenizer(checkpoint: Checkpoint, path: str, config: EncoderConfig) -> SentencePieceModel:
    file = Path(path) if path else checkpoint.tokenizer
    if file is None or not file.is_file():
        raise InputError(
            "The checkpoint's SentencePiece model is needed too; give its path as the tokenizer's model. "
            f"Received: {str(file) if file else f'none next to {checkpoint.path}'!r}."
        )
    model = SentencePieceModel.read(file)
    if len(model) > config.vocabulary_size:
        raise InputError(
            f"The tokenizer must have at most as many pieces as the checkpoint has embeddings, "
            f"{config.vocabulary_size}. Received: {len(model)} pieces in {str(file)!r}."
        )
    return model


def _trim(model: SentencePieceModel, corpora: Sequence[str | Path], lowercase: bool) -> TrimmedVocabulary:
    texts = itertools.chain.from_iterable(map(corpus_texts, corpora))
    return trim_vocabulary(model, texts, lowercase=lowercase)
