"""What one query token retrieved: some ranks with their context, as in the paper.

Knows nothing about how a report shows it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from xtr_tf.collections.dataset import Dataset, Query
from xtr_tf.evaluation.exact import ExactRetriever, Similarities
from xtr_tf.vectors.query_encoder import EncodedQuery

RANKS = (1, 2, 5, 50, 100)
_CONTEXT_CHARACTERS = 70


@dataclasses.dataclass(frozen=True)
class RetrievedToken:
    """One token in its context.

    Attributes:
        rank: From 1.
        score: Its similarity.
        document: Id of its document.
        before: Text before it.
        token: The token as it is in the text; empty for the end of a passage.
        after: Text after it.
        is_relevant: Whether the document is judged relevant to the query.
    """

    rank: int
    score: float
    document: str
    before: str
    token: str
    after: str
    is_relevant: bool


@dataclasses.dataclass(frozen=True)
class WorkedExample:
    """What one token of a query retrieved.

    Attributes:
        dataset: Name of the dataset.
        query: Text of the query.
        language: Language of the query.
        token: The query token, as a piece without its leading space.
        same_piece: Share of the first 100 tokens that are the same piece.
        tokens: Some of the tokens that it retrieved, by rank.
    """

    dataset: str
    query: str
    language: str
    token: str
    same_piece: float
    tokens: tuple[RetrievedToken, ...]


def work_examples(
    retriever: ExactRetriever, dataset: Dataset, queries: Sequence[EncodedQuery], count: int
) -> list[WorkedExample]:
    """Makes examples from the first queries with text, each for the token with the longest piece.

    Args:
        retriever: Retriever over the dataset's corpus, with pieces and spans.
        dataset: The dataset.
        queries: Its queries, or the first of them, encoded, with pieces.
        count: Number of examples.

    Returns:
        Up to `count` examples.
    """
    with_text = [pair for pair in zip(dataset.queries, queries, strict=False) if len(pair[1].vectors)]
    return [_work(retriever, dataset, *pair) for pair in with_text[:count]]


def _work(retriever: ExactRetriever, dataset: Dataset, query: Query, encoded: EncodedQuery) -> WorkedExample:
    corpus = retriever.corpus
    assert corpus.pieces is not None
    assert corpus.spans is not None
    assert encoded.pieces is not None
    grades = dataset.judgements.get(query.id, {})
    words = [word.lstrip("▁") for word in encoded.words[:-1]]  # the last token is the end of the sequence
    chosen = max(range(len(words)), key=lambda position: len(words[position]))
    tokens, scores = Similarities(corpus, encoded.vectors[chosen : chosen + 1]).top_tokens(RANKS[-1])
    document_of_token = corpus.document_of_token
    retrieved = []
    for rank in (rank for rank in RANKS if rank <= tokens.shape[1]):
        token = tokens[0, rank - 1]
        document = corpus.documents[document_of_token[token]]
        text, (start, end) = document.full_text, corpus.spans[token]
        start += len(text[start:end]) - len(text[start:end].lstrip())
        retrieved.append(
            RetrievedToken(
                rank=rank,
                score=float(scores[0, rank - 1]),
                document=document.id,
                before=_shorten(text[:start], keep_end=True),
                token=text[start:end],
                after=_shorten(text[end:], keep_end=False),
                is_relevant=grades.get(document.id, 0) > 0,
            )
        )
    return WorkedExample(
        dataset=dataset.name,
        query=query.text,
        language=query.language,
        token=words[chosen],
        same_piece=float((corpus.pieces[tokens[0]] == encoded.pieces[chosen]).mean()),
        tokens=tuple(retrieved),
    )


def _shorten(text: str, keep_end: bool) -> str:
    """Returns one line of at most `_CONTEXT_CHARACTERS`, with an ellipsis where it was cut."""
    line = " ".join(text.split()) if text.strip() else ""
    padded = f"{' ' if text[:1].isspace() else ''}{line}{' ' if text[-1:].isspace() else ''}" if line else ""
    if len(padded) <= _CONTEXT_CHARACTERS:
        return padded
    return f"…{padded[-_CONTEXT_CHARACTERS:]}" if keep_end else f"{padded[:_CONTEXT_CHARACTERS]}…"
