"""The languages of a corpus, and two problems that are easy to miss: not measured, or not in the vocabulary.

A new language without judged queries is searched, but its quality is not measured. A vocabulary that was
trimmed before the language was added splits its texts into bytes or unknown tokens. These problems do not
stop a run. Its verdict mentions them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from xtr_tf.collections.document import Document
from xtr_tf.model.vocabulary import SentencePieceModel

# Enough to tell a language that the vocabulary covers (at most a few per cent, for rare Chinese characters in
# a small vocabulary) from one that it does not cover (nearly all tokens).
_SAMPLED_DOCUMENTS, _SAMPLED_CHARACTERS = 100, 1_000
_MOST_UNSPELT = 0.2


@dataclasses.dataclass
class LanguagePart:
    """The documents of a language.

    Attributes:
        documents: Number of documents.
        sample: Beginnings of some of their texts.
    """

    documents: int = 0
    sample: list[str] = dataclasses.field(default_factory=list)


class LanguageParts:
    """Counts documents by language while they are read.

    Attributes:
        found: Counts and samples by language.
    """

    def __init__(self) -> None:
        self.found: dict[str, LanguagePart] = {}

    def count(self, document: Document) -> Document:
        """Counts a document and returns it."""
        part = self.found.setdefault(document.language, LanguagePart())
        part.documents += 1
        if len(part.sample) < _SAMPLED_DOCUMENTS:
            part.sample.append(document.text[:_SAMPLED_CHARACTERS])
        return document


def unspelt_share(texts: Iterable[str], vocabulary: SentencePieceModel, lowercase: bool) -> float:
    """Returns the share of tokens that are bytes or unknown because the vocabulary lacks pieces.

    Args:
        texts: Texts in one language.
        vocabulary: Vocabulary of the encoder.
        lowercase: Whether the tokenizer converts texts to lower case.

    Returns:
        The share, from 0 to 1.
    """
    poor = {
        number
        for number, piece in enumerate(vocabulary.proto.pieces)
        if piece.type in (piece.BYTE, piece.UNKNOWN)
    }
    encoded = vocabulary.processor.encode([text.lower() if lowercase else text for text in texts])
    tokens = [token for ids in encoded for token in ids]
    return sum(token in poor for token in tokens) / max(len(tokens), 1)


def remarks(
    languages: Mapping[str, LanguagePart], measured: Iterable[str], unspelt: Mapping[str, float]
) -> Iterator[str]:
    """Describes languages that need attention.

    Args:
        languages: Languages of the corpus.
        measured: Languages that have judged queries.
        unspelt: `unspelt_share` by language.

    Yields:
        One sentence per problem.
    """
    for language in sorted(languages.keys() - set(measured)):
        yield (
            f"{language} was not measured: the corpus has {languages[language].documents:,} documents in it, "
            "and no judged query."
        )
    for language, share in sorted(unspelt.items()):
        if share > _MOST_UNSPELT:
            yield (
                f"{share:.0%} of the tokens in {language} are bytes or unknown: the vocabulary has no pieces "
                "for it; make one that has, and run the full pipeline."
            )
