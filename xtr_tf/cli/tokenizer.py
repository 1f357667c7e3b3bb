"""`xtr-tf tokenizer`: train or trim a vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Make SentencePiece vocabularies.", no_args_is_help=True)

# A corpus has a title and a text (or contents); training pairs have a query too.
_TEXT_FIELDS = ("query", "title", "text", "contents")


@app.command("train")
def train(
    corpora: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS...",
            help="JSONL, TSV or Parquet files with `title` and `text`, folders of them, or BEIR folders.",
            show_default=False,
        ),
    ],
    vocabulary_size: Annotated[
        int, typer.Option(help="Number of pieces, including 256 bytes and three special ones.")
    ],
    out: Annotated[Path, typer.Option(help="The `.model` file to write.")],
    lowercase: Annotated[
        bool, typer.Option(help="Lower-case the texts, as the tokenizer does by default.")
    ] = True,
) -> None:
    """Train a vocabulary on corpora.

    A unigram model with byte fallback, so that no text is unknown, and with T5's special ids.
    """
    from xtr_tf.model.vocabulary import train_vocabulary

    texts = (text for corpus in corpora for text in _texts(corpus))
    lines = train_vocabulary(texts, vocabulary_size, out, lowercase)
    typer.echo(f"{out}: {vocabulary_size} pieces from {lines} lines")


@app.command("trim")
def trim(
    vocabulary: Annotated[
        Path, typer.Argument(help="A `.model` file, such as mT5's `spiece.model`.", show_default=False)
    ],
    pieces: Annotated[int, typer.Option(help="Number of pieces to keep, the most likely ones.")],
    out: Annotated[Path, typer.Option(help="The `.model` file to write.")],
    lowercase: Annotated[
        bool, typer.Option(help="Drop pieces with capitals: the tokenizer lower-cases by default.")
    ] = True,
) -> None:
    """Cut a vocabulary down to its most likely pieces.

    For a small model from scratch in every language that the vocabulary covers. Single characters,
    bytes and special pieces stay. To cut a pretrained model's vocabulary and embeddings down to a corpus,
    see `checkpoint import --keep-pieces-of`.
    """
    from xtr_tf.errors import InputError
    from xtr_tf.model.vocabulary import SentencePieceModel, keep_best_pieces, write_vocabulary

    if not vocabulary.is_file():
        raise InputError(f"The vocabulary must be a SentencePiece `.model` file. Received: {vocabulary}.")
    model = SentencePieceModel.read(vocabulary)
    trimmed = keep_best_pieces(model, pieces, lowercase=lowercase)
    write_vocabulary(out, trimmed.model)
    typer.echo(f"{out}: {len(trimmed.rows)} of {len(model)} pieces")


def _texts(corpus: Path) -> Iterator[str]:
    """Yields every text field of every record; unlike documents to search, these need no ids."""
    from xtr_tf.collections.corpus import CorpusReader

    for record in CorpusReader(corpus).records():
        for field in _TEXT_FIELDS:
            if isinstance(value := record.get(field), str):
                yield value
