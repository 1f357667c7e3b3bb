"""What one query token retrieved: some ranks with their context, as the paper shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from xtr_tf.collections.dataset import Dataset
from xtr_tf.evaluation.encoded import EncodedQuery
from xtr_tf.evaluation.exact import ExactRetriever, Similarities

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
        token: The token as it stands in the text; empty for the end of a passage.
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
        language: Of the query.
        token: The query token, as a piece without its leading space.
        same_piece: Share of the first 100 tokens that are the same piece.
        tokens: Some of what it retrieved, by rank.
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
    """Examples of the first queries with text: of each the token with the longest piece.

    Args:
        retriever: Over the dataset's corpus, with pieces and spans.
        dataset: The dataset.
        queries: Its queries, encoded, with pieces.
        count: How many examples.
    """
    places = [place for place, query in enumerate(queries) if len(query.vectors)]
    return [_work(retriever, dataset, place, queries[place]) for place in places[:count]]


def _work(retriever: ExactRetriever, dataset: Dataset, place: int, query: EncodedQuery) -> WorkedExample:
    index = retriever.index
    assert index.pieces is not None
    assert index.spans is not None
    assert query.pieces is not None
    grades = dataset.judgements.get(dataset.queries[place].id, {})
    words = [word.lstrip("▁") for word in query.words[:-1]]  # the last one ends the query
    chosen = max(range(len(words)), key=lambda position: len(words[position]))
    tokens, scores = Similarities(index, query.vectors[chosen : chosen + 1]).top_tokens(RANKS[-1])
    owners = index.document_of_token
    retrieved = []
    for rank in (rank for rank in RANKS if rank <= tokens.shape[1]):
        token = tokens[0, rank - 1]
        document = index.documents[owners[token]]
        text, (start, end) = document.full_text, index.spans[token]
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
        query=dataset.queries[place].text,
        language=dataset.queries[place].language,
        token=words[chosen],
        same_piece=float((index.pieces[tokens[0]] == query.pieces[chosen]).mean()),
        tokens=tuple(retrieved),
    )


def _shorten(text: str, keep_end: bool) -> str:
    """One line of at most `_CONTEXT_CHARACTERS`, an ellipsis where it was cut."""
    line = " ".join(text.split()) if text.strip() else ""
    padded = f"{' ' if text[:1].isspace() else ''}{line}{' ' if text[-1:].isspace() else ''}" if line else ""
    if len(padded) <= _CONTEXT_CHARACTERS:
        return padded
    return f"…{padded[-_CONTEXT_CHARACTERS:]}" if keep_end else f"{padded[:_CONTEXT_CHARACTERS]}…"
