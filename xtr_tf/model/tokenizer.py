"""SentencePiece in the graph: strings to ids of static length, and ids back to pieces and their offsets.

Knows only text and ids; vectors belong to the encoder.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer

from xtr_tf.config.model import TokenizerConfig
from xtr_tf.errors import InputError
from xtr_tf.model.text import CharacterMap, lowercase

_PAD_PIECE = "<pad>"


class TokenSpans(NamedTuple):
    """Tokens and their positions in the original text, all `[batch, (tokens)]` ragged.

    Attributes:
        ids: int32 piece ids, end-of-sequence included.
        pieces: The pieces as strings.
        character_starts: int32, first character (code point) of the token.
        character_limits: int32, the character after its last one.
        byte_starts: int32, the same in bytes of UTF-8.
        byte_limits: int32.
    """

    ids: tf.RaggedTensor
    pieces: tf.RaggedTensor
    character_starts: tf.RaggedTensor
    character_limits: tf.RaggedTensor
    byte_starts: tf.RaggedTensor
    byte_limits: tf.RaggedTensor


class Tokenizer(tf.Module):
    """Turns strings into SentencePiece ids inside a TensorFlow graph.

    A text is lower-cased if the configuration says so, cut to `length - 1` tokens, and ended
    with the end-of-sequence id, even if it was cut. All methods take and return tensors, so that
    they can be traced and exported.

    Ids are those of the `sentencepiece` package, with one exception: if two segmentations of a word
    are equally likely ("а аа" and "аа а"), releases of SentencePiece differ in which one they choose.

    Args:
        config: The path of the `.model` file, and the lengths.
        model: The content of a `.model` file, used instead of the one `config` names.

    Example:
        >>> tokenizer = Tokenizer(TokenizerConfig(model="mt5.spiece.model"))
        >>> tokenizer.tokenize_queries(tf.constant(["what is XTR?"])).shape
        TensorShape([1, 32])
    """

    def __init__(self, config: TokenizerConfig, model: bytes | None = None) -> None:
        super().__init__(name="tokenizer")
        self.config = config
        self._model = _read_model(config.model) if model is None else model
        try:
            self._sentencepiece = SentencePiece(self._model)
            self.vocabulary_size = int(self._sentencepiece.vocab_size())
        except tf.errors.OpError as error:
            raise InputError(
                "The tokenizer's model is not a SentencePiece model; give a `.model` file. "
                f"Received: {config.model or f'{len(self._model)} bytes'!r}."
            ) from error
        self.pad_id = self._id_of(_PAD_PIECE)
        if self.pad_id:  # masks treat every id except 0 as a token
            raise InputError(
                f"The SentencePiece model's {_PAD_PIECE} piece must have the id 0, as T5's has. "
                f"Received: {self.pad_id}."
            )
        self.eos_id = self._find_eos()

    @property
    def model_bytes(self) -> bytes:
        """The content of the SentencePiece `.model` file."""
        return self._model

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of the model and of every setting that changes the ids."""
        settings = {
            "document_length": self.config.document_length,
            "lowercase": self.config.lowercase,
            "query_length": self.config.query_length,
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(self._model)
        return digest.hexdigest()

    def tokenize_queries(self, strings: tf.Tensor) -> tf.Tensor:
        """Tokenizes queries.

        Args:
            strings: `[batch]` strings.

        Returns:
            `[batch, query_length]` int32 ids, padded with 0.
        """
        return self._pad(self.ragged(strings, self.config.query_length), self.config.query_length)

    def tokenize_documents(self, strings: tf.Tensor) -> tf.Tensor:
        """Tokenizes documents.

        Args:
            strings: `[batch]` strings.

        Returns:
            `[batch, document_length]` int32 ids, padded with 0.
        """
        return self._pad(self.ragged(strings, self.config.document_length), self.config.document_length)

    def ragged(self, strings: tf.Tensor, length: int) -> tf.RaggedTensor:
        """Tokenizes without padding, for batches that are padded to their own longest row.

        Args:
            strings: `[batch]` strings.
            length: Maximum number of tokens per row, including the end of the sequence.

        Returns:
            `[batch, (tokens)]` int32, every row ending in `eos_id`.
        """
        return self.cut(strings, length)[0]

    def cut(self, strings: tf.Tensor, length: int) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Tokenizes like `ragged`, and says which texts were cut.

        Args:
            strings: `[batch]` strings.
            length: Maximum number of tokens per row, including the end of the sequence.

        Returns:
            `[batch, (tokens)]` int32 ids, and `[batch]` bool.
        """
        tokens = self._sentencepiece.tokenize(self._prepare(strings))
        return self._close(tokens, length, self.eos_id), tokens.row_lengths() > length - 1

    def with_offsets(self, strings: tf.Tensor, length: int) -> TokenSpans:
        """Tokenizes like `ragged`, with the pieces and their positions in the original text.

        The end-of-sequence token is at the end of the text and is empty. A piece that
        begins with a space (`▁`) includes it.

        Args:
            strings: `[batch]` strings.
            length: Maximum number of tokens per row, including the end of the sequence.

        Returns:
            The `TokenSpans`; offsets refer to `strings` as given, before lower-casing.
        """
        prepared = self._prepare(strings)
        tokens, starts, limits = self._sentencepiece.tokenize_with_offsets(prepared)
        character_map = CharacterMap(strings, lowered=self.config.lowercase)
        end = tf.strings.length(prepared)[:, tf.newaxis]
        starts = character_map.characters(self._close(starts, length, end))
        limits = character_map.characters(self._close(limits, length, end))
        ids = self._close(tokens, length, self.eos_id)
        return TokenSpans(
            ids=ids,
            pieces=ids.with_values(self.pieces(ids.values)),
            character_starts=starts,
            character_limits=limits,
            byte_starts=character_map.bytes(starts),
            byte_limits=character_map.bytes(limits),
        )

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the pieces of ids.

        Args:
            ids: int32 ids of any shape.

        Returns:
            Strings of the same shape; "" for ids outside the vocabulary.
        """
        known = tf.logical_and(ids >= 0, ids < self.vocabulary_size)
        strings = self._sentencepiece.id_to_string(tf.where(known, ids, 0))
        return tf.where(known, strings, "")

    def document_text(self, title: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
        """Returns what is encoded of a document: `"{title} {text}"`, or only the text if it has no title.

        Args:
            title: `[documents]` strings, "" for none.
            text: `[documents]` strings.

        Returns:
            `[documents]` strings.
        """
        return tf.where(tf.equal(title, ""), text, tf.strings.join([title, text], separator=" "))

    def _prepare(self, strings: tf.Tensor) -> tf.Tensor:
        return lowercase(strings) if self.config.lowercase else tf.convert_to_tensor(strings)

    def _close(self, rows: tf.RaggedTensor, length: int, last: int | tf.Tensor) -> tf.RaggedTensor:
        """Cuts ragged rows to `length - 1` and appends `last` to each."""
        rows = rows[:, : length - 1]
        last = tf.broadcast_to(tf.cast(last, rows.dtype), [rows.nrows(), 1])
        return tf.concat([rows, last], axis=1)

    def _pad(self, ids: tf.RaggedTensor, length: int) -> tf.Tensor:
        return ids.to_tensor(self.pad_id, shape=[None, length])

    def _id_of(self, piece: str) -> int:
        found = self._sentencepiece.string_to_id(piece)
        if self._sentencepiece.id_to_string(found) != piece:
            raise InputError(
                f"The SentencePiece model has no {piece} piece; train it with one, as T5's are. "
                f"Received: a model of {self.vocabulary_size} pieces."
            )
        return int(found)

    def _find_eos(self) -> int:
        """The model's own end-of-sequence id, the only id of an empty text."""
        closing = SentencePiece(self._model, add_eos=True)
        try:
            return int(closing.tokenize("")[0])
        except tf.errors.OpError as error:
            raise InputError(
                "The SentencePiece model has no end-of-sequence piece; train it with one, as T5's are. "
                f"Received: a model of {self.vocabulary_size} pieces."
            ) from error


def _read_model(path: str) -> bytes:
    if not path:
        raise InputError(
            "The tokenizer has no model; set `tokenizer.model` to a SentencePiece file. Received: ''."
        )
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"The SentencePiece model cannot be read; set `tokenizer.model` to a file. Received: {path!r}."
        ) from error


class SharedModel(tf.saved_model.experimental.TrackableResource):
    """A SentencePiece model in TensorFlow's resource manager, named by the hash of its content.

    tf.text creates it without a name. Such a resource belongs to the kernel that made it, and
    disappears when TensorFlow clears its cache of kernels, as it does when a seed is set or a strategy
    is made. With a name it stays, and tokenizers of the same model share it.

    Args:
        model: The content of a `.model` file.
    """

    def __init__(self, model: bytes) -> None:
        super().__init__()
        self._model = model
        self._shared_name = f"sentencepiece_{hashlib.sha256(model).hexdigest()}"
        _ = self.resource_handle  # Created now, so that a bad model fails here.

    def _create_resource(self) -> tf.Tensor:
        return gen_sentencepiece_tokenizer.sentencepiece_op(model=self._model, shared_name=self._shared_name)


class SentencePiece(tf_text.SentencepieceTokenizer):
    """`tf_text.SentencepieceTokenizer` giving int32 ids, on a `SharedModel`.

    tf.text's own initialiser is skipped. It would read the model a second time (1.3 s for mT5's) into the
    unnamed resource that `SharedModel` avoids, and it cannot be given another one. So the attributes that
    its methods read are set here instead; a version of tf.text that reads one more fails at the first call.

    Args:
        model: The content of a `.model` file.
        add_eos: Whether texts end in the model's end-of-sequence id.
    """

    def __init__(self, model: bytes, add_eos: bool = False) -> None:
        super(tf_text.SentencepieceTokenizer, self).__init__()
        self.out_type = tf.int32
        self.nbest_size, self.alpha, self.return_nbest = 0, 1.0, False
        self.reverse, self.add_bos, self.add_eos = False, False, add_eos
        self._model_resource = SharedModel(model)
