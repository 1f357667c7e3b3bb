"""An index as a LangChain retriever."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from xtr_tf.api.index import Index


class XTRRetriever(BaseRetriever):
    """Finds documents of an index for a chain.

    A document's `page_content` is its text, its `metadata` has `score`, `title` and `language`.

    Attributes:
        index: What `Model.index` or `xtr_tf.open` returned.
        parameters: Parameters of the search, as `Index.search` takes them.

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
