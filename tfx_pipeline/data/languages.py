"""What a corpus has of each language, and what nobody would notice: one that is not measured, or not spelt.

A language that arrives without questions is searched by everybody and judged by nobody. A vocabulary that was
trimmed before it arrived spells it in bytes, or not at all. Neither ends a run; both are said in its verdict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from xtr_tf.collections.document import Document
from xtr_tf.model.vocabulary import SentencePieceModel

# Enough to tell a language that the vocabulary knows (a few per cent at most, of rare Chinese characters in a
# small one) from one that it does not (nearly all).
_SAMPLED_DOCUMENTS, _SAMPLED_CHARACTERS = 100, 1_000
_MOST_UNSPELT = 0.2


@dataclasses.dataclass
class LanguagePart:
    """The documents of a language.

    Attributes:
        documents: How many.
        sample: The beginnings of some of their texts.
    """

    documents: int = 0
    sample: list[str] = dataclasses.field(default_factory=list)


class LanguageParts:
    """Counts documents that pass by.

    Attributes:
        found: By language.
    """

    def __init__(self) -> None:
        self.found: dict[str, LanguagePart] = {}

    def count(self, document: Document) -> Document:
        """Counts a document, and gives it back."""
        part = self.found.setdefault(document.language, LanguagePart())
        part.documents += 1
        if len(part.sample) < _SAMPLED_DOCUMENTS:
            part.sample.append(document.text[:_SAMPLED_CHARACTERS])
        return document


def unspelt_share(texts: Iterable[str], vocabulary: SentencePieceModel, lowercase: bool) -> float:
    """The share of the tokens of some texts that are bytes or unknown, for want of pieces.

    Args:
        texts: In one language.
        vocabulary: Of the encoder.
        lowercase: Whether its tokenizer lower-cases.

    Returns:
        From 0 to 1.
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
    """Sentences about languages that deserve a look.

    Args:
        languages: Of the corpus.
        measured: Languages that have judged queries.
        unspelt: `unspelt_share` by language.

    Yields:
        A sentence each.
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
