"""Writes an encoder that knows what single pieces mean, from one that does not.

    python benchmarks/mxtr/word_start.py ENCODER --store .bench/mxtr/words-taught \
        --out .bench/mxtr/words-start

The embeddings grow by the mean direction of the words that a piece occurs in, which `word_store.py` wrote,
and the kernel after them by rows whose effect on a token's vector, past all blocks, is this direction. They
get the strength that comes closest to the targets. So training need not learn rare pieces one by one.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from grown_start import grown
from word_store import MEAN

from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, read_background, save_encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.data.teacher_vectors import TaughtStream

STRENGTHS = (2, 4, 8, 16, 32, 64, 128)
SAMPLE = 512  # texts that decide on the strength


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--store", type=Path, required=True, help="what word_store.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    small, tokenizer = load_encoder(arguments.encoder)
    large = with_meanings(
        small,
        np.load(arguments.store / MEAN),
        lambda encoder: mean_cosine(encoder, tokenizer, arguments.store),
    )
    background = read_background(arguments.encoder, tokenizer.vocabulary_size)
    print(save_encoder(arguments.out, large, tokenizer, overwrite=True, background=background))


def with_meanings(small: Encoder, meanings: np.ndarray, closeness: Callable[[Encoder], float]) -> Encoder:
    """Puts directions of pieces into an encoder's embeddings.

    Args:
        small: Stays as it is.
        meanings: `[vocabulary, dim]` in the width of a token vector.
        closeness: How good an encoder is; the strength that makes the best one is chosen.

    Returns:
        An encoder whose embeddings are wider by `dim`.
    """
    own = small.config.embedding_dim
    large = Encoder(dataclasses.replace(small.config, embedding_dim=own + meanings.shape[1]), seed=0)
    before = small.get_canonical_weights()
    weights = grown(before, large.get_canonical_weights())
    weights["token_embedder/embedding"][:, own:] = meanings
    way_out = before["encoder/encoder_norm/scale"][:, None] * before["projection/kernel"]
    direct = np.linalg.pinv(way_out)

    def set_strength(strength: float) -> None:
        weights["token_embedder/kernel"][own:] = strength * direct
        large.set_canonical_weights(weights)

    found: dict[float, float] = {}
    for strength in STRENGTHS:
        set_strength(strength)
        found[strength] = closeness(large)
        print(f"strength {strength}: cosine with the targets {found[strength]:.3f}", flush=True)
    set_strength(max(found, key=found.__getitem__))
    return large


def mean_cosine(encoder: Encoder, tokenizer: Tokenizer, store: Path) -> float:
    """How close an encoder's vectors are to the targets of a store, over the tokens of some texts."""
    stream = TaughtStream([str(store)], 1.0, seed=1, dim=encoder.config.projection_dim, batch_size=SAMPLE)
    length = tokenizer.config.document_length
    own = tokenizer.with_offsets(tf.constant(stream.texts(0, SAMPLE)), length)
    starts, limits = (part.to_tensor().numpy() for part in (own.character_starts, own.character_limits))
    targets = stream.targets(0, starts, limits)
    cosines = np.einsum("tld,tld->tl", encoder.inference(own.ids.to_tensor())[0].numpy(), targets)
    return float(cosines[np.any(targets, axis=-1)].mean())


if __name__ == "__main__":
    main()
