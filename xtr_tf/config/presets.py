"""Named encoder sizes and runs, each a small difference from another.

Sizes are the same as in the published checkpoints:
[mT5](https://arxiv.org/abs/2010.11934), [T5](https://arxiv.org/abs/1910.10683) and
T5 1.1. `tiny` is ours, for tests and for training from scratch on a laptop.
"""

from __future__ import annotations

import dataclasses

from xtr_tf.config.model import EncoderConfig
from xtr_tf.config.training import DataConfig, LossConfig, RunConfig, TrainingConfig
from xtr_tf.errors import InputError

_T5_VOCABULARY_SIZE = 32_128

_mt5_small = EncoderConfig()
_mt5_tiny = dataclasses.replace(
    _mt5_small, model_dim=128, feed_forward_dim=256, num_layers=2, num_heads=4, head_dim=32
)
_mt5_base = dataclasses.replace(_mt5_small, model_dim=768, feed_forward_dim=2048, num_layers=12, num_heads=12)
_mt5_large = dataclasses.replace(
    _mt5_base, model_dim=1024, feed_forward_dim=2816, num_layers=24, num_heads=16
)
_mt5_xl = dataclasses.replace(
    _mt5_large, model_dim=2048, feed_forward_dim=5120, num_heads=32, rematerialize=True
)
_mt5_xxl = dataclasses.replace(_mt5_xl, model_dim=4096, feed_forward_dim=10240, num_heads=64)

_MT5 = {
    "tiny": _mt5_tiny,
    "small": _mt5_small,
    "base": _mt5_base,
    "large": _mt5_large,
    "xl": _mt5_xl,
    "xxl": _mt5_xxl,
}

# T5 1.1 shares mT5's shapes; T5 1.0 has a ReLU layer, 8 heads in small, and the wide, many-headed 3b and 11b.
_T5_1_0 = {
    "small": {"feed_forward_dim": 2048, "num_layers": 6, "num_heads": 8},
    "base": {"feed_forward_dim": 3072},
    "large": {"feed_forward_dim": 4096},
    "xl": {"model_dim": 1024, "feed_forward_dim": 16384, "head_dim": 128},
    "xxl": {"model_dim": 1024, "feed_forward_dim": 65536, "num_heads": 128, "head_dim": 128},
}

ENCODER_PRESETS: dict[str, EncoderConfig] = {
    **{f"mt5_{size}": config for size, config in _MT5.items()},
    **{
        f"t5_1_1_{size}": dataclasses.replace(config, vocabulary_size=_T5_VOCABULARY_SIZE)
        for size, config in _MT5.items()
    },
    **{
        f"t5_{size}": dataclasses.replace(
            config,
            vocabulary_size=_T5_VOCABULARY_SIZE,
            feed_forward="relu",
            **_T5_1_0.get(size, {}),  # type: ignore[arg-type]
        )
        for size, config in _MT5.items()
    },
}


def encoder_preset(name: str) -> EncoderConfig:
    """Returns the encoder configuration of a preset.

    Args:
        name: A name in `ENCODER_PRESETS`, such as `mt5_small`.

    Returns:
        The configuration.

    Raises:
        InputError: There is no such preset.
    """
    if name not in ENCODER_PRESETS:
        raise InputError(
            f"The preset must be one of {', '.join(sorted(ENCODER_PRESETS))}. Received: {name!r}."
        )
    return ENCODER_PRESETS[name]


# The recipe of the XTR paper, which chose k_train per batch size among 32, 64, 128, 256 and 320.
_xtr_base_en = RunConfig(
    encoder=ENCODER_PRESETS["t5_base"],
    loss=LossConfig(k_train=256),
    data=DataConfig(hard_negatives=1),
    training=TrainingConfig(steps=50_000, batch_size=256, learning_rate=1e-3),
)

RUN_PRESETS: dict[str, RunConfig] = {
    **{name: RunConfig(encoder=encoder) for name, encoder in ENCODER_PRESETS.items()},
    "xtr_base_en": _xtr_base_en,
    "mxtr_base": dataclasses.replace(_xtr_base_en, encoder=ENCODER_PRESETS["mt5_base"]),
}
