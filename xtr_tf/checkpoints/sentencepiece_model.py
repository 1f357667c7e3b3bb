"""A SentencePiece `.model` file opened: its pieces, its special ids, and whether it is of T5's kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xtr_tf.errors import InputError


class SentencePieceModel:
    """The content of a `.model` file.

    Args:
        content: The file's bytes.
        origin: Where they are from, for messages.

    Attributes:
        content: The file's bytes.
        proto: The `ModelProto` that they are.
        processor: A `SentencePieceProcessor` of them.

    Raises:
        InputError: It is no such file, or its first piece is not the padding of T5's vocabularies.
    """

    def __init__(self, content: bytes, origin: str) -> None:
        try:
            from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
        except ImportError as error:
            raise InputError(
                "Importing and exporting checkpoints needs the sentencepiece package; install xtr-tf[train]. "
                f"Received: {origin!r}."
            ) from error
        self.content = content
        self.proto: Any = sentencepiece_model_pb2.ModelProto()
        try:
            self.processor = SentencePieceProcessor(model_proto=content)
            self.proto.ParseFromString(content)
            ids = [self.processor.pad_id(), self.processor.eos_id(), self.processor.unk_id()]
        except (RuntimeError, TypeError) as error:
            raise InputError(f"The tokenizer must be a SentencePiece model. Received: {origin!r}.") from error
        if ids[0] != 0 or min(ids) < 0:
            raise InputError(
                "The tokenizer must have padding as its first piece, and pieces for the end of a sequence "
                f"and the unknown, as T5's have. Received: ids {ids} in {origin!r}."
            )
        self.pad_id, self.eos_id, self.unk_id = ids

    @classmethod
    def read(cls, file: Path) -> SentencePieceModel:
        """Opens a file."""
        return cls(file.read_bytes(), str(file))

    def __len__(self) -> int:
        return len(self.proto.pieces)

    def piece(self, index: int) -> str:
        """The piece of an id."""
        return self.proto.pieces[index].piece
