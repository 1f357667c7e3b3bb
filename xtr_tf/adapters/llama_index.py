"""An index as a LlamaIndex retriever."""

from __future__ import annotations

from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from xtr_tf.api.index import Index


class XTRRetriever(BaseRetriever):
    """Finds documents of an index for a query engine.

    A node's text is the document's, its `metadata` has `title` and `language`.

    Args:
        index: What `Model.index` or `xtr_tf.open` returned.
        **parameters: Parameters of the search, as `Index.search` takes them.

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
