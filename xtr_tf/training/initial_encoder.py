"""The encoder and tokenizer that training starts from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from xtr_tf.config.run import RunConfig
from xtr_tf.encoder import Encoder, load_encoder
from xtr_tf.encoder.manifest import TOKENIZER_FILE
from xtr_tf.errors import InputError
from xtr_tf.tokenizer import Tokenizer


def initial_encoder(config: RunConfig) -> tuple[Encoder, Tokenizer]:
    """Random weights of the configured shape, or an existing encoder.

    An existing encoder (imported, or trained earlier) brings its shape and vocabulary; dropout,
    precision and rematerialisation, and the tokenizer's lengths and lower-casing, are the run's own.
    """
    source = config.training.initial_encoder
    if not source:
        tokenizer = Tokenizer(config.tokenizer)
        if tokenizer.vocabulary_size > config.encoder.vocabulary_size:
            raise InputError(
                "`encoder.vocabulary_size` must be at least the number of the tokenizer's pieces, "
                f"{tokenizer.vocabulary_size}. "
                f"Received: {config.encoder.vocabulary_size}."
            )
        return Encoder(config.encoder, seed=config.training.seed), tokenizer

    tokenizer = Tokenizer(dataclasses.replace(config.tokenizer, model=str(Path(source) / TOKENIZER_FILE)))
    stored, _ = load_encoder(source, dtype=config.encoder.dtype)
    wanted = dataclasses.replace(
        stored.config, dropout=config.encoder.dropout, rematerialize=config.encoder.rematerialize
    )
    if wanted == stored.config:
        return stored, tokenizer
    encoder = Encoder(wanted, seed=None)
    encoder.set_canonical_weights(stored.get_canonical_weights())
    return encoder, tokenizer
