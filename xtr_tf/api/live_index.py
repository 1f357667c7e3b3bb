"""`LiveIndex`: an index in this process whose documents can change. `save` publishes it.

It keeps the directories that `xtr-tf encode` and `xtr-tf index` write in a temporary folder. Every change
makes their next version, as `xtr-tf index update` does. If a change fails, the last version stays.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xtr_tf.api.index import Index, OpenedIndex
from xtr_tf.collections.given import Documents, open_documents
from xtr_tf.config.retrieval import IndexConfig, SearchDefaults, StoreText
from xtr_tf.errors import InputError
from xtr_tf.index.build import build_index
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.refresh import refresh_index
from xtr_tf.index.rules import with_kind
from xtr_tf.progress import shown, track
from xtr_tf.retriever.assembly import Assembly, assemble
from xtr_tf.retriever.export import export_retriever
from xtr_tf.retriever.session import RetrieverSession
from xtr_tf.vectors.runners import run_with
from xtr_tf.vectors.store import TokenVectors

if TYPE_CHECKING:
    from xtr_tf.api.model import Model


class LiveIndex(Index):
    """An index in this process whose documents can change. `Model.index` returns one.

    Attributes:
        model: The model that encodes its documents and queries.

    Example:
        >>> index = model.index([{"id": "nile", "text": "The Nile is 6,650 km long."}])
        >>> index.add([{"id": "aral", "text": "The Aral Sea was once 68 m deep."}])
        >>> index.ids
        ['nile', 'aral']
    """

    def __init__(
        self,
        model: Model,
        work: tempfile.TemporaryDirectory[str],
        vectors: TokenVectors,
        index: TokenIndex,
        config: IndexConfig,
    ) -> None:
        self.model = model
        self._work = work
        self._config = config
        self._versions = itertools.count(1)
        self._adopt(vectors, index)
        self._next_id = len(self)

    @property
    def ids(self) -> list[str]:
        """The ids of all documents, in index order."""
        return list(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._ids

    def __repr__(self) -> str:
        index = self._index
        return (
            f"<xtr_tf index of {len(self):,} documents, {index.num_tokens:,} tokens ({index.config.kind}), "
            f"by {self.model.name}>"
        )

    def add(self, documents: Documents, *, language: str | None = None, progress: bool = True) -> None:
        """Adds documents, or replaces those with the same ids. The next search finds them.

        Only new and changed documents are encoded.

        Args:
            documents: As for `Model.index`.
            language: Language of documents that do not name one; by default the one given to `Model.index`.
            progress: Whether to show progress.

        Raises:
            InputError: A document cannot be used. The index is unchanged.

        Example:
            >>> index.add([{"id": "aral", "text": "The Aral Sea was once 68 m deep."}])
        """
        before = self._next_id
        try:
            manifest = self._vectors.manifest
            corpus = open_documents(documents, language or manifest.language, self.new_id, manifest.fields)
            with shown(quiet=not progress):
                self._refresh(add=corpus)
        except BaseException:
            self._next_id = before
            raise

    def delete(self, ids: str | Sequence[str]) -> None:
        """Removes documents. The next search no longer finds them.

        Args:
            ids: The id of a document, or several.

        Raises:
            InputError: A document is not in the index, or none would be left. The index is unchanged.

        Example:
            >>> index.delete(["aral"])
        """
        wanted = [ids] if isinstance(ids, str) else list(ids)
        unknown = [identifier for identifier in wanted if identifier not in self._ids]
        if unknown or not wanted:
            raise InputError(
                "Only documents of the index can be deleted; `index.ids` lists them. "
                f"Received: {', '.join(repr(identifier) for identifier in unknown[:5]) or 'no id'}."
            )
        self._refresh(delete=wanted)

    def save(
        self,
        base: str | Path,
        *,
        version: int | None = None,
        top_k: int = SearchDefaults.top_k,
        k_prime: int = SearchDefaults.k_prime,
        leaves: int = SearchDefaults.leaves,
        imputation: str = SearchDefaults.imputation,
        constant: float = SearchDefaults.constant,
        rescore: int = SearchDefaults.rescore,
        token_weights: str = SearchDefaults.token_weights,
        min_score: float = SearchDefaults.min_score,
        alpha: float = SearchDefaults.alpha,
        fusion: str = SearchDefaults.fusion,
        store_text: StoreText = "full",
        keep_spans: bool = True,
        queries: Sequence[str] | None = None,
        progress: bool = True,
    ) -> OpenedIndex:
        """Publishes the index as a version that TensorFlow Serving and `xtr_tf.open` load.

        The version appears only after a fresh process has loaded it and has given the same answers as this
        index.

        Args:
            base: Base directory of the model. The version becomes a folder in it.
            version: Number of the version; the next free one by default.
            top_k: Number of documents to return. This and the next nine arguments become the defaults of
                requests; `Index.search` describes them.
            k_prime: Document tokens that each query token retrieves.
            leaves: Leaves of the index to search; with 0 the index decides.
            imputation: How to impute missing similarities.
            constant: The score that `imputation="constant"` uses.
            rescore: Number of candidates to rank again by exact f_ColBERT; 0 for none.
            token_weights: Weights of query tokens, `none` or `idf`.
            min_score: Do not return documents with a lower score.
            alpha: Weight of BM25, from 0 to 1. Above 0 it needs an index with `lexical`.
            fusion: How to combine XTR and BM25, `weighted` or `rrf`.
            store_text: Text to return with each document: `none`, a `snippet` of up to 300 characters where
                the query matched, or `full`.
            keep_spans: Whether to store the piece and the position of every token, 12 bytes per token, for
                explanations.
            queries: Queries for warm-up requests and reference answers; document titles by default.
            progress: Whether to show progress.

        Returns:
            The published version, opened.

        Raises:
            InputError: The version exists, or the exported model answers differently. Nothing is left
                behind.

        Example:
            >>> index.save("out/models")
            <xtr_tf index of 3 documents, 'out/models/1'>
        """
        defaults = SearchDefaults(
            k_prime=k_prime,
            top_k=top_k,
            leaves=leaves,
            imputation=imputation,
            constant=constant,
            rescore=rescore,
            token_weights=token_weights,
            min_score=min_score,
            alpha=alpha,
            fusion=fusion,
        )
        with shown(quiet=not progress), track("export"):
            assembly = self._assemble(self._vectors, self._index, defaults, store_text, keep_spans)
            exported = export_retriever(assembly.retriever, base, assembly.card, version, queries)
        return OpenedIndex(exported.directory)

    def new_id(self) -> str:
        """Returns an id that no document has yet: the next number."""
        while str(self._next_id) in self._ids:
            self._next_id += 1
        self._next_id += 1
        return str(self._next_id - 1)

    def _refresh(self, **changes: Any) -> None:
        """Builds the next version of the vectors and the index, and switches to it."""
        folder = Path(self._work.name) / str(next(self._versions))
        try:
            report = refresh_index(
                self._index.directory,
                self._vectors.directory,
                folder / "index",
                folder / "vectors",
                model=self.model.directory,
                runner=self._run,
                **changes,
            )
            index = report.index
            if with_kind(self._config, index.num_tokens).kind != index.config.kind:
                index = build_index(report.vectors, folder / "grown", self._config)
            last = self._vectors.directory.parent
            self._adopt(report.vectors, index)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(last, ignore_errors=True)

    def _run(self, task: Any, shards: Sequence[Any]) -> None:
        run_with(self.model.document_encoder(task.config))(task, shards)

    def _adopt(self, vectors: TokenVectors, index: TokenIndex) -> None:
        assembly = self._assemble(vectors, index)
        self._ids = dict.fromkeys(vectors.document_ids)
        self._vectors, self._index, self._session = vectors, index, RetrieverSession(assembly.retriever)

    def _assemble(self, vectors: TokenVectors, index: TokenIndex, *settings: Any) -> Assembly:
        model = self.model
        return assemble(model.manifest, model.encoder, model.tokenizer, vectors, index, *settings)
