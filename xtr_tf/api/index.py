"""`Index` searches and explains. `OpenedIndex` is an exported model, run by TensorFlow's C library.

Imports no TensorFlow. Adding and deleting documents is in `live_index.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, overload

from xtr_tf.api.requests import (
    ExplanationParameters,
    Parameters,
    Session,
    ask,
    to_explanation,
    to_hits,
)
from xtr_tf.api.results import Explanation, Hits
from xtr_tf.errors import InputError
from xtr_tf.retriever.model_card import MODEL_CARD_FILE
from xtr_tf.retriever.versions import latest_version
from xtr_tf.runtime import SavedModelSession

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Index:
    """Searchable documents. `Model.index` and `xtr_tf.open` return one.

    An index can be searched from many threads at once.

    Example:
        >>> len(index)
        3
        >>> answers = index.search(["How deep is Lake Baikal?", "How long is the Nile?"], top_k=1)
        >>> [hits.ids for hits in answers]
        [['baikal'], ['nile']]
    """

    _session: Session

    @overload
    def search(self, query: str, **request: Unpack[Parameters]) -> Hits: ...
    @overload
    def search(self, query: list[str] | tuple[str, ...], **request: Unpack[Parameters]) -> list[Hits]: ...
    def search(
        self,
        query: str | list[str] | tuple[str, ...],
        *,
        top_k: int | None = None,
        k_prime: int | None = None,
        leaves: int | None = None,
        imputation: str | None = None,
        constant: float | None = None,
        languages: str | Sequence[str] | None = None,
        rescore: int | None = None,
        token_weights: str | None = None,
        filter: str | None = None,  # noqa: A002
        min_score: float | None = None,
        alpha: float | None = None,
        fusion: str | None = None,
    ) -> Hits | list[Hits]:
        """Finds the documents that answer a query. The index sets the defaults of all parameters.

        Args:
            query: The query, or a list of queries.
            top_k: Number of documents to return, 10 by default.
            k_prime: Document tokens that each query token retrieves (k' in the paper), 1,000 by default.
            leaves: Leaves of the index to search; with 0, the default, the index decides.
            imputation: Score of a query token for a document of which it retrieved nothing: `top_k_prime`
                (the score of the last token it retrieved, the default), `zero`, `constant`, or `none` (the
                token does not count).
            constant: The score that `imputation="constant"` uses, 0 by default.
            languages: Return only documents in this language or these languages; all by default.
            rescore: Number of candidates to rank again by exact f_ColBERT; 0, the default, for none. Needs
                an index that keeps vectors: `exact`, `core`, or `scann` with reordering.
            token_weights: Weights of query tokens: `none` (all equal, the default) or `idf` (the fewer
                documents contain a token, the higher its weight).
            filter: Conditions on document fields, such as `year>=2020;source=wiki|faq`.
            min_score: Do not return documents with a lower score.
            alpha: Weight of BM25 in the score, from 0 (XTR only, the default) to 1 (BM25 only). Needs an
                index with `lexical`.
            fusion: How to combine the two scores: `weighted` (a weighted mean on one scale, the default) or
                `rrf` (reciprocal rank fusion).

        Returns:
            A `Hits` with the documents found, best first; a list of `Hits` for a list of queries.

        Raises:
            InputError: A query has no text, or a parameter is out of range.

        Example:
            >>> index.search("How deep is Lake Baikal?", top_k=1).ids
            ['baikal']
        """
        return _answer(self._session, "search", query, _parameters(locals()), to_hits)

    @overload
    def explain(self, query: str, **request: Unpack[ExplanationParameters]) -> Explanation: ...
    @overload
    def explain(
        self, query: list[str] | tuple[str, ...], **request: Unpack[ExplanationParameters]
    ) -> list[Explanation]: ...
    def explain(
        self,
        query: str | list[str] | tuple[str, ...],
        *,
        top_k: int | None = 3,
        k_prime: int | None = None,
        leaves: int | None = None,
        imputation: str | None = None,
        constant: float | None = None,
        languages: str | Sequence[str] | None = None,
        token_weights: str | None = None,
        filter: str | None = None,  # noqa: A002
        min_score: float | None = None,
        alpha: float | None = None,
        fusion: str | None = None,
    ) -> Explanation | list[Explanation]:
        """Finds documents and shows why: which of their tokens matched which query tokens.

        Args:
            query: The query, or a list of queries.
            top_k: Number of documents to explain.
            k_prime: As for `search`.
            leaves: As for `search`.
            imputation: As for `search`.
            constant: As for `search`.
            languages: As for `search`.
            token_weights: As for `search`.
            filter: As for `search`.
            min_score: As for `search`.
            alpha: As for `search`.
            fusion: As for `search`.

        Returns:
            An `Explanation` with the documents and their token alignments, which a notebook shows as coloured
            tables; a list of them for a list of queries.

        Raises:
            InputError: A query has no text, or a parameter is out of range.

        Example:
            >>> found = index.explain("How deep is Lake Baikal?", top_k=1)[0]
            >>> found.matches[1].token, found.matches[1].match
            ('▁deep', '▁deep')
        """
        return _answer(self._session, "explain", query, _parameters(locals()), to_explanation)

    def add(self, documents: Any, *, language: str | None = None, progress: bool = True) -> None:
        """Adds documents. Only an index made by `Model.index` supports this, see `LiveIndex.add`.

        Args:
            documents: As for `Model.index`.
            language: Language of documents that do not name one.
            progress: Whether to show progress.

        Raises:
            InputError: This index was opened from an export, which cannot change.
        """
        self._refuse_change()

    def delete(self, ids: str | Sequence[str]) -> None:
        """Removes documents. Only an index made by `Model.index` supports this, see `LiveIndex.delete`.

        Args:
            ids: The id of a document, or several.

        Raises:
            InputError: This index was opened from an export, which cannot change.
        """
        self._refuse_change()

    def _refuse_change(self) -> NoReturn:
        raise InputError(
            "An exported index cannot change; index the documents again with `Model.index`, or refresh it "
            f"with `xtr-tf index update`. Received: {self!r}."
        )


class OpenedIndex(Index):
    """An exported index, opened by `xtr_tf.open` and run by TensorFlow's C library.

    It is a context manager: leaving the block calls `close`, which frees its memory.

    Args:
        directory: The directory of one exported version.

    Attributes:
        directory: The directory of the version.
        card: The content of its `model_card.json`; empty if it has none.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._session = SavedModelSession(directory)
        file = directory / MODEL_CARD_FILE
        self.card: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    @classmethod
    def newest(cls, path: str | Path) -> OpenedIndex:
        """Opens the directory of a version, or the newest version in a base directory.

        Args:
            path: Directory of a version, or a base directory of numbered versions.

        Returns:
            The index.

        Raises:
            InputError: There is no version, or it cannot be loaded.
        """
        return cls(latest_version(Path(path)))

    def close(self) -> None:
        """Frees the model. Later searches raise `InputError`."""
        self._session.close()  # type: ignore[attr-defined]

    def __enter__(self) -> OpenedIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self.card.get("corpus", {}).get("documents", 0))

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<xtr_tf index of {len(self):,} documents, {str(self.directory)!r}>"


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the request parameters among a method's arguments."""
    return {name: value for name, value in given.items() if name not in ("self", "query")}


def _answer(session: Session, signature: str, query: Any, request: Mapping[str, Any], convert: Any) -> Any:
    """Returns one answer for a string, and a list of answers for a list."""
    if isinstance(query, str):
        [(_, answer)] = ask(session, signature, [query], request)
        return convert(query, answer)
    if not isinstance(query, Sequence) or isinstance(query, bytes):
        raise InputError(f"A query must be a string or a list of strings. Received: {type(query).__name__}.")
    return [convert(text, answer) for text, answer in ask(session, signature, query, request)]
