"""Writes an encoder directory as a Hugging Face checkpoint in the layout of Google's released XTR.

`model.safetensors` and `config.json` are a T5 encoder that transformers loads as it is; `2_Dense` holds the
projection, `spiece.model` the vocabulary, and `tokenizer.json` the same for transformers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xtr_tf.checkpoints.checkpoint import PROJECTION_FOLDER
from xtr_tf.checkpoints.lazy_tensor import LazyTensor
from xtr_tf.checkpoints.naming import HUGGING_FACE, Rule
from xtr_tf.checkpoints.safetensors_reader import read_safetensors
from xtr_tf.checkpoints.safetensors_writer import Progress, SafetensorsWriter, row_blocks
from xtr_tf.checkpoints.sentencepiece_model import SentencePieceModel
from xtr_tf.checkpoints.tokenizer_json import tokenizer_config, tokenizer_json
from xtr_tf.config.schema import EncoderConfig
from xtr_tf.encoder.manifest import TOKENIZER_FILE, WEIGHTS_FILE, read_manifest
from xtr_tf.encoder.staging import staged_directory

_PROJECTION_PREFIX = f"{PROJECTION_FOLDER}/"


def export_checkpoint(
    directory: str | Path,
    out: str | Path,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Exports an encoder directory for use with transformers.

    Args:
        directory: The encoder directory.
        out: The folder to make; it appears only when complete.
        overwrite: Whether to replace a folder that exists.
        progress: Called with bytes written and bytes in all.

    Example:
        >>> export_checkpoint("encoders/xtr", "hugging_face/xtr")
        >>> # transformers.MT5EncoderModel.from_pretrained("hugging_face/xtr")

    Raises:
        InputError: The directory is no encoder's, or `out` exists.
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    model = SentencePieceModel.read(directory / TOKENIZER_FILE)
    weights = read_safetensors(directory / WEIGHTS_FILE)
    rules = HUGGING_FACE.foreign_names(weights)
    projection = {name: rule for name, rule in rules.items() if rule.foreign.startswith(_PROJECTION_PREFIX)}
    encoder = {name: rule for name, rule in rules.items() if name not in projection}
    with staged_directory(Path(out), overwrite) as staging:
        folder = staging / PROJECTION_FOLDER
        folder.mkdir()
        _write(staging / "model.safetensors", weights, encoder, progress)
        _write(folder / "model.safetensors", weights, projection, None)
        _write_json(staging / "config.json", _model_config(manifest.encoder, model.eos_id))
        _write_json(folder / "config.json", _projection_config(manifest.encoder))
        _write_json(staging / "tokenizer.json", tokenizer_json(model))
        _write_json(staging / "tokenizer_config.json", tokenizer_config(model))
        (staging / "spiece.model").write_bytes(model.content)


def _write(
    file: Path, weights: dict[str, LazyTensor], rules: dict[str, Rule], progress: Progress | None
) -> None:
    names = {name: rule.foreign.removeprefix(_PROJECTION_PREFIX) for name, rule in rules.items()}
    shapes = {
        names[name]: weights[name].shape[:: -1 if rule.transposed else 1] for name, rule in rules.items()
    }
    with SafetensorsWriter(file, shapes, {"format": "pt"}, progress) as writer:
        for name, rule in rules.items():
            values = weights[name].read()
            writer.write(names[name], row_blocks(values.T if rule.transposed else values))


def _model_config(config: EncoderConfig, end_id: int) -> dict[str, Any]:
    gated = config.feed_forward == "gated-gelu"
    return {
        # T5 1.1 is gated too; the class of mT5 computes the same.
        "architectures": ["MT5EncoderModel" if gated else "T5EncoderModel"],
        "model_type": "mt5" if gated else "t5",
        "vocab_size": config.vocabulary_size,
        "d_model": config.model_dim,
        "d_ff": config.feed_forward_dim,
        "d_kv": config.head_dim,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "feed_forward_proj": config.feed_forward,
        "is_gated_act": gated,
        "dense_act_fn": "gelu_new" if gated else "relu",
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.relative_max_distance,
        "layer_norm_epsilon": config.norm_epsilon,
        "dropout_rate": config.dropout,
        "pad_token_id": 0,
        "eos_token_id": end_id,
        "decoder_start_token_id": 0,
        "is_encoder_decoder": True,
        "torch_dtype": "float32",
    }


def _projection_config(config: EncoderConfig) -> dict[str, Any]:
    return {
        "in_features": config.model_dim,
        "out_features": config.projection_dim,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }


def _write_json(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
