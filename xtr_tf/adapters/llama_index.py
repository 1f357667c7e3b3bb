"""An index as a LlamaIndex retriever."""

from __future__ import annotations

from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from xtr_tf.api.index import Index


class XTRRetriever(BaseRetriever):
    """A LlamaIndex retriever that searches an index.

    The text of a node is the text of the document. Its `metadata` has `title` and `language`.

    Args:
        index: An index from `Model.index` or `xtr_tf.open`.
        **parameters: Keyword arguments of `Index.search`.

    Example:
        >>> retriever = XTRRetriever(xtr_tf.open("out/models"), top_k=3)
        >>> retriever.retrieve("How deep is Lake Baikal?")[0].node.text
    """

    def __init__(self, index: Index, **parameters: Any) -> None:
        self._index = index
        self._parameters = parameters
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    id_=hit.id, text=hit.text, metadata={"title": hit.title, "language": hit.language}
                ),
                score=hit.score,
            )
            for hit in self._index.search(query_bundle.query_str, **self._parameters)
        ]
