"""Writes an encoder that matches words before any training, to start from where no pretrained weights are.

    python benchmarks/mxtr/lexical_start.py --data DATA --vocabulary FILE --out .bench/mxtr/lexical

A random encoder already tells pieces apart. This one knows three things more, all in its weights, so that
training starts from them and can change each one:

- *Spelling.* A piece's embedding contains those of its character n-grams, so that forms of a word are close.
- *Neighbours.* Heads of the first block look at the tokens before and after. A piece is closer to itself in
  the same word, and a character in the same bigram, than elsewhere.
- *Translations.* A piece is drawn to the English pieces that it stands for in parallel sentences
  (`translations.py`), and the more certain they are, the more.

All other heads and all feed-forward layers start with almost no effect.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

import numpy as np
from translations import LONGEST, translations

from xtr_tf.config.model import EncoderConfig, TokenizerConfig
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import save_encoder
from xtr_tf.model.layers import distance_buckets
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.model.weights import weight_shapes

WIDTH, TABLE, HEADS, HEAD_DIM = 256, 128, 8, 32
# Heads of the first block by the distance they look at, and how much what they see counts; two are left free.
NEIGHBOURS = (-1, -1, 1, 1, -2, 2)
STRENGTH = {1: 0.45, 2: 0.25}
SPELLING = 0.6  # share of an embedding's square that n-grams have
TRANSLATION = 0.8  # length of a certain translation next to a piece's own embedding
# Logit of the looked-at distance: nine tenths of the attention among 500 tokens.
FOCUS = 8.5
QUIET = 0.02  # scale of weights that begin with almost no effect
BUCKETS = 50_021


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with `parallel`, as unpack.sh makes it"
    )
    parser.add_argument("--vocabulary", type=Path, required=True, help="the SentencePiece model")
    parser.add_argument("--background", type=Path, help="an encoder's background.npy to keep with it")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=40_000, help="of each language")
    arguments = parser.parse_args()
    tokenizer = Tokenizer(TokenizerConfig(str(arguments.vocabulary), query_length=32, document_length=128))
    names = tokenizer.pieces(np.arange(tokenizer.vocabulary_size, dtype=np.int32)).numpy()
    pieces = [name.decode() for name in names]
    table = translated(
        spelled(pieces, np.random.default_rng(0)), arguments.data / "parallel", tokenizer, arguments.sentences
    )
    config = EncoderConfig(
        vocabulary_size=len(pieces),
        model_dim=WIDTH,
        embedding_dim=TABLE,
        feed_forward_dim=2 * WIDTH,
        num_layers=arguments.blocks,
        num_heads=HEADS,
        head_dim=HEAD_DIM,
        feed_forward="relu",
        dropout=0.0,
        projection_dim=TABLE,
    )
    encoder = Encoder(config, seed=0)
    encoder.set_canonical_weights(start_weights(encoder.get_canonical_weights(), config, table))
    background = np.load(arguments.background) if arguments.background else None
    print(save_encoder(arguments.out, encoder, tokenizer, overwrite=True, background=background))


def spelled(pieces: list[str], random: np.random.Generator) -> np.ndarray:
    """Embeddings of unit length, `[pieces, TABLE]`: a random vector and those of the piece's n-grams."""
    own = _unit(random.standard_normal((len(pieces), TABLE)))
    of_grams = _unit(random.standard_normal((BUCKETS, TABLE)))
    for number, piece in enumerate(pieces):
        grams = [piece[at : at + size] for size in (3, 4) for at in range(len(piece) - size + 1)]
        if grams:
            spelling = of_grams[[zlib.crc32(gram.encode()) % BUCKETS for gram in grams]].sum(axis=0)
            own[number] = np.sqrt(1 - SPELLING) * own[number] + np.sqrt(SPELLING / len(grams)) * spelling
    return _unit(own)


def translated(own: np.ndarray, parallel: Path, tokenizer: Tokenizer, most: int) -> np.ndarray:
    """Draws the embeddings of pieces to those of the English pieces they stand for."""
    files: dict[str, list[Path]] = {}
    for path in sorted(parallel.glob("*.jsonl")):
        files.setdefault(path.stem.rpartition("_")[2], []).append(path)
    drawn, seen = np.zeros_like(own), np.zeros(len(own))
    for language, paths in files.items():
        rows = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()][:most]
        sides = [pieces_of(tokenizer, [row[side] for row in rows]) for side in ("text", "en")]
        found = translations(list(zip(*sides, strict=True)), len(own))
        is_word = found.english > 0
        mass = (found.probability * found.count[found.foreign])[is_word]
        np.add.at(drawn, found.foreign[is_word], mass[:, None] * own[found.english[is_word]])
        seen += found.count
        print(f"{language}: {len(rows)} sentences", flush=True)
    # A piece that was seen once or twice stands for whatever stood there.
    return _unit(own + TRANSLATION * drawn / (seen + 5)[:, None])


def start_weights(
    weights: dict[str, np.ndarray], config: EncoderConfig, table: np.ndarray
) -> dict[str, np.ndarray]:
    """The weights of an encoder that matches the pieces of `table` and their neighbours.

    Half of the residual stream's dimensions hold a token's own embedding, the others what the first block
    found next to it. The projection adds the two up.

    Args:
        weights: Random weights of the encoder, by canonical name.
        config: Its shape.
        table: `[vocabulary, TABLE]`, embeddings of unit length.

    Returns:
        The weights by canonical name, float32.
    """
    random = np.random.default_rng(1)
    own, around = np.split(_orthogonal(random, WIDTH, WIDTH), 2)
    start = dict(weights)
    start["token_embedder/embedding"] = table * np.sqrt(TABLE)
    start["token_embedder/kernel"] = own * np.sqrt(WIDTH / TABLE)
    for name, shape in weight_shapes(config).items():
        if name.endswith(("/attention/out/kernel", "/mlp/wo/kernel")):
            start[name] = QUIET * random.standard_normal(shape) / np.sqrt(shape[0])
    _look_around(start, config, own, around, random)
    start["projection/kernel"] = own.T + around.T @ _orthogonal(random, TABLE, TABLE)
    return {name: np.asarray(value, np.float32) for name, value in start.items()}


def _look_around(
    start: dict[str, np.ndarray],
    config: EncoderConfig,
    own: np.ndarray,
    around: np.ndarray,
    random: np.random.Generator,
) -> None:
    """Makes heads of the first block copy a part of a neighbour's `own` dimensions into `around`."""
    first, bias = "encoder/layers_0/attention", "encoder/relpos_bias/rel_embedding"
    for name in (f"{first}/query/kernel", f"{first}/value/kernel", bias):
        start[name] = start[name].copy()
    bucket_of = distance_buckets(config.relative_buckets, config.relative_max_distance)
    for head, distance in enumerate(NEIGHBOURS):
        columns = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
        start[bias][head] = 0
        start[bias][head, bucket_of[config.relative_max_distance + distance]] = FOCUS
        start[f"{first}/query/kernel"][:, columns] *= QUIET
        start[f"{first}/value/kernel"][:, columns] = own.T @ _orthogonal(random, TABLE, HEAD_DIM)
        share = NEIGHBOURS.count(distance) * HEAD_DIM / TABLE
        into = _orthogonal(random, TABLE, HEAD_DIM).T @ around
        start[f"{first}/out/kernel"][columns] = STRENGTH[abs(distance)] / np.sqrt(share) * into


def _orthogonal(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return np.linalg.qr(random.standard_normal((rows, columns)))[0]


def pieces_of(tokenizer: Tokenizer, texts: list[str]) -> list[np.ndarray]:
    """Returns the ids of the first pieces of each text, which translations are counted by."""
    ids = tokenizer.ragged(texts, LONGEST)
    return np.split(ids.values.numpy(), ids.row_splits.numpy()[1:-1])


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


if __name__ == "__main__":
    main()
