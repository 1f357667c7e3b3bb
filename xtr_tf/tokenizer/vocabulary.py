"""Training a SentencePiece vocabulary of the kind mT5 has. Needs no TensorFlow."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import sentencepiece

from xtr_tf.corpus.files import write_aside
from xtr_tf.errors import InputError

# The trainer draws this many lines at random from larger corpora.
_MAX_LINES = 5_000_000
# Longer lines would be left out silently; beyond it no ordinary text has a line.
_MAX_LINE_BYTES = 1 << 20
# Sums of floats depend on how the work is split, so the split must not depend on the machine.
_THREADS = 16


def train_vocabulary(
    texts: Iterable[str], vocabulary_size: int, path: str | Path, lowercase: bool = True
) -> int:
    """Trains a unigram vocabulary with byte fallback: no text has an unknown token.

    Ids are T5's: pad 0, end of sequence 1, unknown 2, no beginning of sequence. Text is
    normalised as for mT5 (`nmt_nfkc`). The same texts in the same order give the same file.

    Args:
        texts: What to learn from; every line of a text is a sentence.
        vocabulary_size: Pieces, the 256 bytes and three special ones included.
        path: The `.model` file to write, whole or not at all.
        lowercase: Whether the tokenizer that will use it lower-cases.

    Returns:
        The number of lines learned from.

    Raises:
        InputError: There is no text, or too little or too much of it for the size.
    """
    lines = _Lines(texts, lowercase)
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(0)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocabulary_size,
            byte_fallback=True,
            normalization_rule_name="nmt_nfkc",
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            input_sentence_size=_MAX_LINES,
            shuffle_input_sentence=True,
            max_sentence_length=_MAX_LINE_BYTES,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise _explained(error, vocabulary_size, lines.count) from error
    write_vocabulary(Path(path), model.getvalue())
    return lines.count


class _Lines:
    """The lines of texts that are not blank, counted as they are read."""

    def __init__(self, texts: Iterable[str], lowercase: bool) -> None:
        self._texts = texts
        self._lowercase = lowercase
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            for line in text.splitlines():
                if line.strip():
                    self.count += 1
                    # Half of a surrogate pair, which JSON can spell, is no UTF-8.
                    line = line.encode("utf-8", "replace").decode("utf-8")
                    yield line.lower() if self._lowercase else line


def _explained(error: Exception, vocabulary_size: int, lines: int) -> InputError:
    """The trainer's message, which names a source line, as a sentence that says what to do."""
    message = str(error)
    if not lines:
        return InputError("There is no text to train a vocabulary on. Received: 0 lines.")
    if too_high := re.search(r"Vocabulary size too high.*?<= (\d+)", message):
        return InputError(
            f"The texts yield at most {too_high[1]} pieces; ask for no more than that, or give more text. "
            f"Received: {vocabulary_size}."
        )
    if too_low := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return InputError(
            f"The texts need at least {too_low[1]} pieces, for bytes and frequent characters; ask for more. "
            f"Received: {vocabulary_size}."
        )
    return InputError(
        f"SentencePiece could not train a vocabulary ({message}). "
        f"Received: {lines} lines, {vocabulary_size} pieces."
    )


def write_vocabulary(path: Path, content: bytes) -> None:
    """Writes a `.model` file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, content)
