"""Writes an encoder directory as a Hugging Face checkpoint in the layout of Google's released XTR.

`model.safetensors` and `config.json` are a T5 encoder that transformers loads as it is; `2_Dense` holds the
projection, `spiece.model` the vocabulary, and `tokenizer.json` the same for transformers.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.checkpoints.lazy_tensor import LazyTensor
from xtr_tf.checkpoints.naming import HUGGING_FACE, Rule
from xtr_tf.checkpoints.opening import PROJECTION_FOLDER
from xtr_tf.checkpoints.safetensors import Progress, SafetensorsWriter, read_safetensors, row_blocks
from xtr_tf.config.model import EncoderConfig
from xtr_tf.files import atomic_directory
from xtr_tf.model.folder import TOKENIZER_FILE, WEIGHTS_FILE, read_manifest
from xtr_tf.model.vocabulary import SentencePieceModel

_PROJECTION_PREFIX = f"{PROJECTION_FOLDER}/"
_EMBEDDER = "token_embedder"


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
        out: The folder to write. It appears only when it is complete.
        overwrite: Whether to replace an existing folder.
        progress: Called with the bytes written so far and their total.

    Raises:
        InputError: The directory is not an encoder's, or `out` exists.

    Example:
        >>> export_checkpoint("encoders/xtr", "hugging_face/xtr")
        >>> # transformers.MT5EncoderModel.from_pretrained("hugging_face/xtr")
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    model = SentencePieceModel.read(directory / TOKENIZER_FILE)
    weights = _with_whole_table(read_safetensors(directory / WEIGHTS_FILE))
    rules = HUGGING_FACE.foreign_names(weights)
    projection = {name: rule for name, rule in rules.items() if rule.foreign.startswith(_PROJECTION_PREFIX)}
    encoder = {name: rule for name, rule in rules.items() if name not in projection}
    with atomic_directory(Path(out), overwrite) as staging:
        folder = staging / PROJECTION_FOLDER
        folder.mkdir()
        _write(staging / "model.safetensors", weights, encoder, progress)
        _write(folder / "model.safetensors", weights, projection, None)
        _write_json(staging / "config.json", _model_config(manifest.encoder, model.eos_id))
        _write_json(folder / "config.json", _projection_config(manifest.encoder))
        _write_json(staging / "tokenizer.json", tokenizer_json(model))
        _write_json(staging / "tokenizer_config.json", tokenizer_config(model))
        (staging / "spiece.model").write_bytes(model.content)


def _with_whole_table(weights: dict[str, LazyTensor]) -> dict[str, LazyTensor]:
    """The weights with a factored table multiplied out, because T5 has one table and no kernel."""
    kernel = weights.pop(f"{_EMBEDDER}/kernel", None)
    if kernel is None:
        return weights
    table = weights[f"{_EMBEDDER}/embedding"]
    whole = LazyTensor(
        (table.shape[0], kernel.shape[1]),
        "float32",
        lambda: table.read().astype(np.float32) @ kernel.read().astype(np.float32),
    )
    return weights | {f"{_EMBEDDER}/embedding": whole}


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


_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def tokenizer_json(model: SentencePieceModel) -> dict[str, Any]:
    """Describes a unigram model, in the form of `tokenizer.json`."""
    charsmap = model.proto.normalizer_spec.precompiled_charsmap
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added_token(index, model.piece(index))
            for index in sorted((model.pad_id, model.eos_id, model.unk_id))
        ],
        "normalizer": _normalizer(charsmap) if charsmap else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, _METASPACE]},
        "post_processor": _closing(model.eos_id, model.piece(model.eos_id)),
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, _METASPACE]},
        "model": {
            "type": "Unigram",
            "unk_id": model.unk_id,
            "vocab": [[piece.piece, piece.score] for piece in model.proto.pieces],
            "byte_fallback": model.proto.trainer_spec.byte_fallback,
        },
    }


def tokenizer_config(model: SentencePieceModel) -> dict[str, Any]:
    """Returns the content of `tokenizer_config.json`, which names the special tokens."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": model.piece(model.pad_id),
        "eos_token": model.piece(model.eos_id),
        "unk_token": model.piece(model.unk_id),
        "model_input_names": ["input_ids", "attention_mask"],
    }


def _added_token(index: int, piece: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": piece, **flags, "special": True}


def _normalizer(charsmap: bytes) -> dict[str, str]:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}


def _closing(end_id: int, end: str) -> dict[str, Any]:
    """Appends the end-of-sequence piece to one text, or to each of a pair."""

    def closed(name: str) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": name, "type_id": 0}},
            {"SpecialToken": {"id": end, "type_id": 0}},
        ]

    return {
        "type": "TemplateProcessing",
        "single": closed("A"),
        "pair": closed("A") + closed("B"),
        "special_tokens": {end: {"id": end, "ids": [end_id], "tokens": [end]}},
    }
