"""Writes an encoder with a new vocabulary that knows what single pieces mean, from one that does not.

    python benchmarks/mxtr/word_start.py ENCODER --vocabulary .bench/mxtr/vocabulary \
        --store .bench/mxtr/words-taught --out .bench/mxtr/words-start

A piece that the encoder does not have gets the mean embedding of those that it would be cut into. To it comes
what moves a token's vector, past all blocks, towards the mean direction of the words that a piece occurs in,
which `word_store.py` wrote, with the strength that comes closest to the targets. So training need not learn
rare pieces one by one.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from sentencepiece import SentencePieceProcessor
from word_store import MEAN

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, save_encoder
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.training.data.teacher_vectors import TaughtStream

STRENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SPACE = "\u2581"
SAMPLE = 512  # texts that decide on the strength


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--vocabulary", type=Path, required=True, help="what vocabulary.py wrote")
    parser.add_argument("--store", type=Path, required=True, help="what word_store.py wrote")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    encoder, known = load_encoder(arguments.encoder)
    lengths = {name: getattr(known.config, name) for name in ("query_length", "document_length")}
    tokenizer = Tokenizer(TokenizerConfig(str(arguments.vocabulary / "tokenizer.model"), **lengths))
    table = encoder.get_canonical_weights()["token_embedder/embedding"]
    started = with_meanings(
        encoder,
        embeddings_of(tokenizer.model_bytes, known.model_bytes, table),
        np.load(arguments.store / MEAN),
        lambda started: mean_cosine(started, tokenizer, arguments.store),
    )
    background = np.load(arguments.vocabulary / "background.npy")
    print(save_encoder(arguments.out, started, tokenizer, overwrite=True, background=background))


def embeddings_of(new: bytes, old: bytes, table: np.ndarray) -> np.ndarray:
    """Finds embeddings for the pieces of a new vocabulary.

    Args:
        new: The content of its `.model` file.
        old: The content of another one.
        table: `[old pieces, dim]`, the other one's embeddings.

    Returns:
        `[new pieces, dim]`, those of the same pieces, or the means of the pieces that they would be cut into.
    """
    wanted, known = (SentencePieceProcessor(model_proto=model) for model in (new, old))
    place = {known.id_to_piece(number): number for number in range(known.get_piece_size())}
    rows = np.zeros((wanted.get_piece_size(), table.shape[1]), table.dtype)
    for number in range(len(rows)):
        piece = wanted.id_to_piece(number)
        cut = [piece] if piece in place else known.encode(piece.replace(SPACE, " "), out_type=str)
        if cut and not piece.startswith(SPACE):  # inside a word, no space comes first
            inside = cut[0].removeprefix(SPACE)
            cut = [*([inside] if inside in place else []), *cut[1:]] or cut
        found = [place[own] for own in cut if own in place]
        if found:
            rows[number] = table[found].mean(axis=0)
    return rows


def with_meanings(
    known: Encoder, embeddings: np.ndarray, meanings: np.ndarray, closeness: Callable[[Encoder], float]
) -> Encoder:
    """Gives an encoder a new vocabulary, and puts directions of pieces into its embeddings.

    Args:
        known: Stays as it is.
        embeddings: `[vocabulary, embedding_dim]`, of the new vocabulary.
        meanings: `[vocabulary, dim]` in the width of a token vector.
        closeness: How good an encoder is; the strength that makes the best one is chosen.

    Returns:
        The encoder with the new vocabulary.
    """
    encoder = Encoder(dataclasses.replace(known.config, vocabulary_size=len(embeddings)), seed=0)
    weights = known.get_canonical_weights()
    way_out = weights["encoder/encoder_norm/scale"][:, None] * weights["projection/kernel"]
    direct = meanings @ np.linalg.pinv(weights["token_embedder/kernel"] @ way_out)

    def set_strength(strength: float) -> None:
        encoder.set_canonical_weights(weights | {"token_embedder/embedding": embeddings + strength * direct})

    found: dict[float, float] = {}
    for strength in STRENGTHS:
        set_strength(strength)
        found[strength] = closeness(encoder)
        print(f"strength {strength}: cosine with the targets {found[strength]:.3f}", flush=True)
    set_strength(max(found, key=found.__getitem__))
    return encoder


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
