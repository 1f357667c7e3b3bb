"""Writes outputs of `transformers` that our encoder is compared with. Runs in .parity.

    .parity/bin/python tools/parity/write_golden.py tests/golden            # the files in the repository
    .parity/bin/python tools/parity/write_golden.py DIRECTORY --live        # real shapes, fresh weights

Each case is one safetensors file: weights under canonical names (exact in float16), `ids`, the
`positions` whose outputs are kept, and their `hidden_states` and `vectors`. Its metadata has the
configuration and the versions that wrote it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import secrets
from pathlib import Path

import numpy as np
import torch
import transformers
from reference_model import ReferenceConfig, ReferenceModel
from safetensors.numpy import save_file


@dataclasses.dataclass(frozen=True)
class Case:
    """One model, one padded batch.

    Attributes:
        family: `mt5` or `t5`.
        config: The model's shape.
        lengths: Tokens of each row; rows are padded to the longest.
        keep_every: Outputs are kept at every n-th position, to keep files small.
    """

    family: str
    config: ReferenceConfig
    lengths: tuple[int, ...]
    keep_every: int = 1


_SMALL = ReferenceConfig()
GOLDEN = {
    "mt5_gated": Case("mt5", _SMALL, (9, 24, 1, 17)),
    "mt5_long": Case("mt5", dataclasses.replace(_SMALL, num_heads=2), (512, 300, 40), keep_every=16),
    "t5_relu": Case(
        "t5",
        dataclasses.replace(_SMALL, feed_forward="relu", num_heads=4, head_dim=8, num_layers=3),
        (31, 12),
    ),
    "t5_buckets": Case(
        "t5",
        dataclasses.replace(
            _SMALL, relative_buckets=16, relative_max_distance=40, norm_epsilon=1e-3, projection_dim=24
        ),
        (96, 95),
        keep_every=4,
    ),
}

_MT5_SMALL = ReferenceConfig(
    vocabulary_size=2000, model_dim=512, feed_forward_dim=1024, num_layers=8, num_heads=6, head_dim=64
)
_MT5_BASE = dataclasses.replace(_MT5_SMALL, model_dim=768, feed_forward_dim=2048, num_layers=12, num_heads=12)
LIVE = {
    **GOLDEN,
    "mt5_small": Case("mt5", _MT5_SMALL, (512, 211, 32)),
    "mt5_base": Case("mt5", _MT5_BASE, (512, 7)),
    "t5_base": Case(
        "t5", dataclasses.replace(_MT5_BASE, feed_forward="relu", feed_forward_dim=3072), (200, 512)
    ),
}


def write_case(path: Path, case: Case, seed: int) -> None:
    """Runs a case's model and writes its file."""
    model = ReferenceModel(case.config, case.family, seed)
    random = np.random.default_rng(seed)
    ids = np.zeros((len(case.lengths), max(case.lengths)), np.int32)
    for row, length in zip(ids, case.lengths, strict=True):
        row[: length - 1] = random.integers(2, case.config.vocabulary_size, length - 1)
        row[length - 1] = 1
    hidden, vectors = model.run(ids)
    positions = np.arange(0, ids.shape[1], case.keep_every, dtype=np.int32)
    tensors = {
        **model.canonical_weights(),
        "ids": ids,
        "positions": positions,
        "hidden_states": hidden[:, positions],
        "vectors": vectors[:, positions],
    }
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    metadata = {
        "config": json.dumps(dataclasses.asdict(case.config)),
        "model": type(model.model).__name__,
        "seed": str(seed),
        "versions": json.dumps(versions),
    }
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, path, metadata)
    path.chmod(0o644)


def main() -> None:
    """Writes every case of one set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--live", action="store_true", help="real shapes and a fresh seed as well")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    seed = secrets.randbelow(2**31) if arguments.live else 0
    for name, case in (LIVE if arguments.live else GOLDEN).items():
        path = arguments.directory / f"{name}.safetensors"
        write_case(path, case, seed)
        print(f"{path}: seed {seed}, {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
