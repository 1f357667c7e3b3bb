"""A SentencePiece model as the `tokenizer.json` of Hugging Face's tokenizers library.

transformers can make a T5 tokenizer of a SentencePiece file itself, but not one that falls back to bytes:
where mT5's vocabulary lacks a character, its ids would be others than ours.
"""

from __future__ import annotations

import base64
from typing import Any

_SPACE = "▁"
_METASPACE = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "always", "split": True}


def tokenizer_json(model: bytes) -> dict[str, Any]:
    """Describes a unigram model with T5's special pieces.

    Args:
        model: Content of a SentencePiece `.model` file.

    Returns:
        What `tokenizer.json` has to hold.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    trainer = proto.trainer_spec
    charsmap = proto.normalizer_spec.precompiled_charsmap
    special = {index: proto.pieces[index].piece for index in (trainer.pad_id, trainer.eos_id, trainer.unk_id)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(index, piece) for index, piece in sorted(special.items())],
        "normalizer": _normalizer(charsmap) if charsmap else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, _METASPACE]},
        "post_processor": _closing(trainer.eos_id, special[trainer.eos_id]),
        "decoder": {
            "type": "Sequence",
            "decoders": [{"type": "ByteFallback"}, _METASPACE],
        },
        "model": {
            "type": "Unigram",
            "unk_id": trainer.unk_id,
            "vocab": [[piece.piece, piece.score] for piece in proto.pieces],
            "byte_fallback": trainer.byte_fallback,
        },
    }


def tokenizer_config(model: bytes) -> dict[str, Any]:
    """Describes the same model for `tokenizer_config.json`: read `tokenizer.json`, these are special."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=model)
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": processor.id_to_piece(processor.pad_id()),
        "eos_token": processor.id_to_piece(processor.eos_id()),
        "unk_token": processor.id_to_piece(processor.unk_id()),
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
