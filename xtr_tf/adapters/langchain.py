"""An index as a LangChain retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from xtr_tf.api.index import Index


class XTRRetriever(BaseRetriever):
    """A LangChain retriever that searches an index.

    The `page_content` of a document is its text. Its `metadata` has `score`, `title` and `language`.

    Attributes:
        index: An index from `Model.index` or `xtr_tf.open`.
        parameters: Keyword arguments of `Index.search`.

    Example:
        >>> retriever = XTRRetriever(index=xtr_tf.open("out/models"), parameters={"top_k": 3})
        >>> retriever.invoke("How deep is Lake Baikal?")[0].page_content
    """

    index: Index
    parameters: dict[str, Any] = {}  # noqa: RUF012

    model_config = {"arbitrary_types_allowed": True}  # noqa: RUF012

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document(
                id=hit.id,
                page_content=hit.text,
                metadata={"score": hit.score, "title": hit.title, "language": hit.language},
            )
            for hit in self.index.search(query, **self.parameters)
        ]
