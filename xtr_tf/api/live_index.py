"""`LiveIndex`: an index that its own process built and can change; `save` publishes it.

It is built on the directories that `xtr-tf encode` and `xtr-tf index` write, in a temporary folder:
every change makes their next version, as `xtr-tf index update` does, and a change that fails leaves the last.
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
    """An index in this process, made by `Model.index`.

    Attributes:
        model: The model that it was made with.
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
        """The ids of all documents, in their order."""
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
        """Adds documents, or replaces those with the same ids; the next search finds them.

        Only what is new is encoded.

        Args:
            documents: As for `Model.index`.
            language: Of documents that do not name one; as for `Model.index` if not given.
            progress: Whether to show progress.

        Raises:
            InputError: A document cannot be used; the index is as it was before.

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
        """Removes documents; the next search does not find them.

        Args:
            ids: Their ids, or a single one.

        Raises:
            InputError: There is no such document, or none would be left; the index is as it was before.

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

        The version appears only after a fresh process has loaded it and given this index's own answers.

        Args:
            base: The model's base directory; the version is made in it.
            version: Its number; the next one if not given.
            top_k: Documents returned by default. This and the next nine are the defaults of requests that
                do not set them; `Index.search` describes each.
            k_prime: Tokens that each query token retrieves by default.
            leaves: Leaves of the index to search by default; 0 for the index's own rule.
            imputation: How missing similarities are imputed by default.
            constant: Default value of the imputation `constant`.
            rescore: Candidates ranked again by exact f_ColBERT by default; 0 for none.
            token_weights: Default weights of query tokens, `none` or `idf`.
            min_score: Documents that score less are not returned by default.
            alpha: Default weight of BM25, from 0 to 1; needs an index with `lexical`.
            fusion: How XTR and BM25 are combined by default, `weighted` or `rrf`.
            store_text: What the version returns of the texts: `none`, a `snippet` of up to 300 characters
                where the query matched, or `full`.
            keep_spans: Whether it carries pieces and places of tokens, 12 bytes each, for explanations.
            queries: Texts for warm-up requests and reference answers; titles of the documents if not given.
            progress: Whether to show progress.

        Returns:
            The version, opened.

        Raises:
            InputError: The version exists, or the exported model does not give this index's answers; nothing
                is left behind.

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
        """An id that no document has: the next number."""
        while str(self._next_id) in self._ids:
            self._next_id += 1
        self._next_id += 1
        return str(self._next_id - 1)

    def _refresh(self, **changes: Any) -> None:
        """Makes the next version of vectors and index, and takes it."""
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
