"""Writes an encoder with random weights and 32 dimensions, as in tests: `random_encoder.py DIR`."""

from __future__ import annotations

import dataclasses
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, save_encoder

if __name__ == "__main__":
    shipped, tokenizer = load_encoder(sys.argv[1])
    config = dataclasses.replace(
        shipped.config, model_dim=32, head_dim=16, feed_forward_dim=64, projection_dim=32
    )
    save_encoder(sys.argv[1], Encoder(config), tokenizer, overwrite=True)
