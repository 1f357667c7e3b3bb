"""`Index`: what can be searched. `OpenedIndex` is an exported model, run by TensorFlow's C library.

Imports no TensorFlow. How documents come and go is `live_index.py`'s business.
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
    """Documents that can be searched; `Model.index` and `xtr_tf.open` give one.

    Searching may be done from many threads at once.
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
        """Finds documents. Parameters that are not given are the index's own defaults.

        Args:
            query: What to look for; a list of queries is answered with a list.
            top_k: Documents to return, 10 by default.
            k_prime: Document tokens that each query token retrieves (k' of the paper), 1,000 by default.
            leaves: Leaves of the index to search; 0, the default, leaves it to the index.
            imputation: How a query token counts for a document of which it retrieved nothing: `top_k_prime`
                (with the score of the last token it retrieved, the default), `zero`, `constant` or `none`.
            constant: What it counts with under the imputation `constant`; 0 by default.
            languages: Only documents in this language, or in one of these; all by default.
            rescore: Candidates that are ranked again by exact f_ColBERT, 0 for none (the default); needs an
                index that keeps vectors: `exact`, `core`, or `scann` with reordering.
            token_weights: What query tokens count for: `none` (all the same, the default), or `idf` (by how
                few documents have them).
            filter: Conditions on fields that documents must meet, such as `year>=2020;source=wiki|faq`.
            min_score: Documents that score less are not returned.
            alpha: What BM25 counts for in the score, from 0 (XTR only, the default) to 1 (BM25 only); needs
                an index with `lexical`.
            fusion: How the two scores are made one: `weighted` (a mean on one scale, the default) or `rrf`
                (reciprocal ranks).

        Returns:
            The documents found, the best first.

        Raises:
            InputError: A query has no text, or a parameter is out of its range.

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
        """Finds documents and says why: which of their tokens answered which tokens of the query.

        Args:
            query: What to look for; a list of queries is answered with a list.
            top_k: Documents to explain.
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
            The documents with their token alignments; in a notebook, coloured tables.

        Raises:
            InputError: A query has no text, or a parameter is out of its range.

        Example:
            >>> found = index.explain("How deep is Lake Baikal?", top_k=1)[0]
            >>> found.matches[1].token, found.matches[1].match
            ('▁deep', '▁deep')
        """
        return _answer(self._session, "explain", query, _parameters(locals()), to_explanation)

    def add(self, documents: Any, *, language: str | None = None, progress: bool = True) -> None:
        """Adds documents; only an index made by `Model.index` can, see `LiveIndex.add`.

        Args:
            documents: As for `Model.index`.
            language: Language of documents that name none.
            progress: Whether to show progress.

        Raises:
            InputError: This index was opened from an export, which cannot change.
        """
        self._refuse_change()

    def delete(self, ids: str | Sequence[str]) -> None:
        """Removes documents; only an index made by `Model.index` can, see `LiveIndex.delete`."""
        self._refuse_change()

    def _refuse_change(self) -> NoReturn:
        raise InputError(
            "An exported index cannot change; index the documents again with `Model.index`, or refresh it "
            f"with `xtr-tf index update`. Received: {self!r}."
        )


class OpenedIndex(Index):
    """An exported index, loaded by the library inside TensorFlow Serving; made by `xtr_tf.open`.

    A context manager: `close` frees its memory, as does the end of the program.

    Attributes:
        directory: The version's directory.
        card: What the version was made of, from its `model_card.json`; empty without one.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._session = SavedModelSession(directory)
        file = directory / MODEL_CARD_FILE
        self.card: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    @classmethod
    def newest(cls, path: str | Path) -> OpenedIndex:
        """Opens a version's directory, or the newest version of a base directory."""
        return cls(latest_version(Path(path)))

    def close(self) -> None:
        """Frees the model; searches that come later are refused."""
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
    """The parameters of a request among a method's arguments."""
    return {name: value for name, value in given.items() if name not in ("self", "query")}


def _answer(session: Session, signature: str, query: Any, request: Mapping[str, Any], convert: Any) -> Any:
    """One answer for a string, a list of them for a list."""
    if isinstance(query, str):
        [(_, answer)] = ask(session, signature, [query], request)
        return convert(query, answer)
    if not isinstance(query, Sequence) or isinstance(query, bytes):
        raise InputError(
            f"A query is a string; a list of strings asks several. Received: {type(query).__name__}."
        )
    return [convert(text, answer) for text, answer in ask(session, signature, query, request)]
