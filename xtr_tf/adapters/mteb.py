"""A model for the retrieval and reranking tasks of MTEB (version 2 and later)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mteb.models.model_meta import ModelMeta

from xtr_tf.api.live_index import LiveIndex
from xtr_tf.api.model import Model
from xtr_tf.errors import InputError


class XTRModel:
    """A model for `mteb.evaluate`: it indexes the corpus of a task and searches it.

    Args:
        model: A model from `xtr_tf.load` or `xtr_tf.train`.
        parameters: Keyword arguments of `Index.search`, except `top_k`, which the task sets.
        **settings: Keyword arguments of `Model.index`.

    Example:
        >>> mteb.evaluate(XTRModel(xtr_tf.load(), kind="scann"), mteb.get_task("SciFact"))
    """

    def __init__(self, model: Model, parameters: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._model = model
        self._parameters = dict(parameters or {})
        self._settings = {"progress": False, **settings}
        self._index: LiveIndex | None = None
        self._texts: dict[str, str] = {}

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """Name, size and limits of the model, as MTEB reports them."""
        manifest = self._model.manifest
        return ModelMeta.create_empty(
            {
                "name": f"xtr-tf/{self._model.name}",
                "revision": manifest.fingerprint[:12],
                "embed_dim": manifest.encoder.projection_dim,
                "max_tokens": manifest.tokenizer.document_length,
                "n_parameters": int(self._model.encoder.count_params()),
                "model_type": ["late-interaction"],
            }
        )

    def index(self, corpus: Any, **_: Any) -> None:
        """Indexes the documents of a task.

        Args:
            corpus: Rows with `id`, `text` (or `body`) and optionally `title`.
        """
        documents = [_document(row) for row in corpus]
        self._texts = {document["id"]: f"{document['title']} {document['text']}" for document in documents}
        self._index = self._model.index(
            [document for document in documents if self._texts[document["id"]].strip()], **self._settings
        )

    def search(
        self, queries: Any, *, top_k: int, top_ranked: Mapping[str, list[str]] | None = None, **_: Any
    ) -> dict[str, dict[str, float]]:
        """Answers the queries of a task.

        Args:
            queries: Rows with `id` and `text`.
            top_k: Documents to return per query.
            top_ranked: For reranking tasks, the documents to rank, by query.

        Returns:
            Scores by query and document.

        Raises:
            InputError: `index` has not been called.
        """
        if self._index is None:
            raise InputError(
                "There is no index to search yet; call `index` first. Received: a search before `index`."
            )
        texts = {str(row["id"]): _text(row) for row in queries}
        if top_ranked is not None:
            return {query: self._rerank(text, top_ranked[query], top_k) for query, text in texts.items()}
        asked = {query: text for query, text in texts.items() if text.strip()}
        answers = self._index.search(list(asked.values()), top_k=top_k, **self._parameters)
        found = {
            query: {hit.id: hit.score for hit in hits} for query, hits in zip(asked, answers, strict=True)
        }
        return {query: found.get(query, {}) for query in texts}

    def _rerank(self, query: str, candidates: list[str], top_k: int) -> dict[str, float]:
        named = [name for name in map(str, candidates) if self._texts[name].strip()]
        if not named or not query.strip():
            return {}
        scores = self._model.score(query, [self._texts[name] for name in named])
        best = scores.argsort()[::-1][:top_k]
        return {named[place]: float(scores[place]) for place in best}


def _document(row: Mapping[str, Any]) -> dict[str, str]:
    return {"id": str(row["id"]), "title": str(row.get("title") or ""), "text": _text(row)}


def _text(row: Mapping[str, Any]) -> str:
    return str(row.get("text") or row.get("body") or row.get("query") or "")
