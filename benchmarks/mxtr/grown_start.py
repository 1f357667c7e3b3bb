"""Writes a larger encoder that computes almost the same vectors as a smaller one.

    python benchmarks/mxtr/grown_start.py ENCODER --blocks 4 --feed-forward 1024 --out .bench/mxtr/grown

New blocks come last. What is new begins with random weights, whose results are scaled to almost nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np
from lexical_start import QUIET

from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, read_background, save_encoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", type=Path)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--feed-forward", type=int, required=True, help="inner width")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    small, tokenizer = load_encoder(arguments.encoder)
    config = dataclasses.replace(
        small.config, num_layers=arguments.blocks, feed_forward_dim=arguments.feed_forward
    )
    large = Encoder(config, seed=0)
    large.set_canonical_weights(grown(small.get_canonical_weights(), large.get_canonical_weights()))
    background = read_background(arguments.encoder, tokenizer.vocabulary_size)
    print(save_encoder(arguments.out, large, tokenizer, overwrite=True, background=background))


def grown(small: dict[str, np.ndarray], large: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Puts the weights of a small encoder into a larger one's first rows, columns and blocks."""
    weights = {}
    for name, own in large.items():
        if name.endswith(("/attention/out/kernel", "/mlp/wo/kernel")):
            own = QUIET * own
        known = small.get(name)
        if known is not None:
            own = own.copy()
            own[tuple(slice(size) for size in known.shape)] = known
        weights[name] = own
    return weights


if __name__ == "__main__":
    main()
