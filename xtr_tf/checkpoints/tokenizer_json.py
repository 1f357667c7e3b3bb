"""A SentencePiece model as the `tokenizer.json` of Hugging Face's tokenizers library.

transformers can make a T5 tokenizer of a SentencePiece file itself, but not one that falls back to bytes:
where mT5's vocabulary lacks a character, its ids would be others than ours.
"""

from __future__ import annotations

import base64
from typing import Any

from xtr_tf.checkpoints.sentencepiece_model import SentencePieceModel

_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}


def tokenizer_json(model: SentencePieceModel) -> dict[str, Any]:
    """Describes a unigram model; what `tokenizer.json` has to hold."""
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
    """Describes the same model for `tokenizer_config.json`: read `tokenizer.json`, these are special."""
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
