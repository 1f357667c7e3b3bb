"""One exact retriever over the tiny corpus, as its signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tiny_retriever(tiny_corpus: Any) -> Any:
    from xtr_tf.retriever import DocumentTable, Retriever, SearchDefaults, TokenTable
    from xtr_tf.search.exact_searcher import ExactSearcher

    return Retriever(
        tiny_corpus.encoder,
        tiny_corpus.tokenizer,
        ExactSearcher(tiny_corpus.vectors),
        tiny_corpus.document_of_token,
        DocumentTable(tiny_corpus.documents),
        TokenTable(tiny_corpus.pieces, tiny_corpus.spans),
        SearchDefaults(k_prime=100, top_k=5),
    )


@pytest.fixture(scope="session")
def signatures(tiny_retriever: Any) -> dict[str, Callable[..., Any]]:
    from xtr_tf.retriever.signatures import build_signatures

    return build_signatures(tiny_retriever)
