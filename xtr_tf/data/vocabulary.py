"""Trains a SentencePiece vocabulary on a run's own texts, for a model that starts from nothing."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from xtr_tf.config.run import RunConfig
from xtr_tf.data.bad_records import BadRecords
from xtr_tf.data.open_source import open_source
from xtr_tf.errors import InputError


def train_vocabulary(config: RunConfig) -> Path:
    """Writes `tokenizer.model` with `encoder.vocabulary_size` pieces, learned from `data.train`.

    Special pieces have T5's ids: padding 0, end 1, unknown 2.

    Args:
        config: The run that the vocabulary is for.

    Returns:
        The file, which must not exist before.
    """
    import sentencepiece

    path = Path(config.tokenizer.model)
    if not config.tokenizer.model or path.exists():
        raise InputError(
            "`tokenizer.model` must name a file that does not exist yet, to write the vocabulary to. "
            f"Received: {config.tokenizer.model!r}."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        prefix = Path(folder) / "vocabulary"
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_texts(config),
                model_prefix=str(prefix),
                vocab_size=config.encoder.vocabulary_size,
                character_coverage=0.9995,
                byte_fallback=False,
                pad_id=0,
                eos_id=1,
                unk_id=2,
                bos_id=-1,
                minloglevel=2,
                num_threads=os.cpu_count() or 1,
            )
        except RuntimeError as error:
            raise InputError(
                f"No vocabulary of this size can be learned from the texts ({error}); change "
                f"`encoder.vocabulary_size`. Received: {config.encoder.vocabulary_size}."
            ) from error
        with contextlib.suppress(FileExistsError):
            os.link(prefix.with_suffix(".model"), path)
    return path


def _texts(config: RunConfig) -> Iterator[str]:
    """Queries and positives, each document once."""
    bad_records = BadRecords(config.data.max_bad_records)
    seen: set[int] = set()
    for source_config in config.data.train:
        for source in open_source(source_config, bad_records):
            for index in range(len(source)):
                example = source[index]
                for text in (example.query, *(document.content for document in example.positives)):
                    if (key := hash(text)) not in seen:
                        seen.add(key)
                        yield text.lower() if config.tokenizer.lowercase else text
