"""An encoder's directory under test: each corpus is encoded and searched exactly.

Knows nothing about indexes or exported models.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtr_tf.collections.dataset import Dataset
from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.evaluation.encoded import CorpusTokens, check_size
from xtr_tf.evaluation.evaluator import ENCODER_KIND, EvaluationSettings
from xtr_tf.evaluation.exact import ExactRetriever, Hybrid
from xtr_tf.evaluation.results import ModelResult
from xtr_tf.evaluation.run import Run
from xtr_tf.evaluation.token_analysis import TokenAnalysis, analyse_tokens
from xtr_tf.evaluation.worked_examples import WorkedExample, work_examples
from xtr_tf.index.frequencies import PieceFrequencies
from xtr_tf.index.term_postings import TermPostings
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import load_encoder, read_background
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.progress import track
from xtr_tf.scoring.reference import idf_weights
from xtr_tf.vectors.document_encoder import DocumentEncoder
from xtr_tf.vectors.query_encoder import EncodedQuery, QueryEncoder


class EncoderModel:
    """A trained encoder without an index.

    Args:
        directory: A directory that `xtr_tf.model.folder.save_encoder` wrote.
    """

    kind = ENCODER_KIND

    def __init__(self, directory: str | Path) -> None:
        self.name = Path(directory).resolve().name
        self._encoder, self._tokenizer = load_encoder(directory)
        self._background = read_background(directory, self._tokenizer.vocabulary_size)

    def evaluate(
        self, dataset: Dataset, documents: Sequence[Document], depth: int, settings: EvaluationSettings
    ) -> ModelResult:
        """Runs f_XTR' and f_ColBERT on a dataset, and analyses a sample of its queries.

        Args:
            dataset: Queries and judgements.
            documents: Its corpus, in order.
            depth: Documents to rank per query.
            settings: Settings of the evaluation.

        Returns:
            The runs by system, and the analyses.
        """
        started = time.perf_counter()
        encoder = LoadedEncoder(self._encoder, self._tokenizer, settings.encoding)
        corpus = encoder.encode_documents(documents, dataset.name)
        queries = encoder.encode_queries([query.text for query in dataset.queries])
        if settings.token_weights == "idf":
            queries = weighted(queries, corpus, self._background)
        encoded = time.perf_counter()
        retriever = ExactRetriever(corpus)
        hybrid = _hybrid(dataset, documents, settings.alpha) if settings.fusion else None
        rankings = retriever.search(queries, settings.k_prime, depth, hybrid)
        ids = [query.id for query in dataset.queries]
        runs = {
            system: Run.from_arrays(system, ids, corpus.document_ids, *ranking)
            for system, ranking in zip(("xtr", "colbert", "fusion"), rankings, strict=False)
        }
        searched = time.perf_counter()
        analysis, examples = self._analyse(retriever, dataset, queries, settings)
        return ModelResult(
            runs=runs,
            tokens=corpus.num_tokens,
            seconds={
                "encode": encoded - started,
                "search": searched - encoded,
                "analyse": time.perf_counter() - searched,
            },
            analysis=analysis,
            examples=examples,
        )

    def _analyse(
        self,
        retriever: ExactRetriever,
        dataset: Dataset,
        queries: Sequence[EncodedQuery],
        settings: EvaluationSettings,
    ) -> tuple[TokenAnalysis | None, list[WorkedExample]]:
        if not settings.analysis_queries or dataset.is_judged_by_answers:
            return None, []
        sample = dataset.sample(settings.analysis_queries, settings.seed)
        chosen = {query.id for query in sample.queries}
        encoded = [
            tokens for query, tokens in zip(dataset.queries, queries, strict=True) if query.id in chosen
        ]
        analysis = analyse_tokens(retriever, sample, encoded, settings.k_prime)
        return analysis, work_examples(retriever, sample, encoded, settings.examples)


def _hybrid(dataset: Dataset, documents: Sequence[Document], alpha: float) -> Hybrid:
    """BM25 over n-grams, as in an index with `lexical`."""
    postings = TermPostings.of([DocumentRecord.of(document) for document in documents], "ngrams")
    return Hybrid(lambda query: postings.scores(dataset.queries[query].text, "ngrams"), alpha)


def weighted(
    queries: Sequence[EncodedQuery], corpus: CorpusTokens, background: np.ndarray | None
) -> list[EncodedQuery]:
    """Returns the queries with weights: tokens count more if fewer documents contain their pieces.

    Args:
        queries: Queries with pieces.
        corpus: A corpus with pieces.
        background: `[vocabulary]` floats, how common pieces are elsewhere, or None.

    Returns:
        The queries with weights.
    """
    assert corpus.pieces is not None, "these tokens came without pieces"
    frequencies = PieceFrequencies.of(corpus.pieces, corpus.offsets)
    asked = [np.zeros(0, np.int32) if query.pieces is None else query.pieces for query in queries]
    largest = max(int(pieces.max(initial=0)) for pieces in (*asked, frequencies.pieces))
    documents = frequencies.of_vocabulary(largest + 1)
    return [
        dataclasses.replace(
            query,
            weights=idf_weights(
                documents[pieces],
                len(corpus.documents),
                None if background is None else background[pieces],
            ),
        )
        for query, pieces in zip(queries, asked, strict=True)
    ]


_DOCUMENTS_AT_ONCE = 512


class LoadedEncoder:
    """Encodes with `Encoder` and `Tokenizer`, documents as `xtr-tf encode` does.

    Long documents are split into passages, so none is cut; vectors are rounded to float16 as in an index.

    Args:
        encoder: The encoder.
        tokenizer: Its tokenizer.
        config: How documents are split and pruned; the command's defaults if None.
    """

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer, config: EncodingConfig | None = None) -> None:
        self._queries = QueryEncoder(encoder, tokenizer)
        self.vocabulary_size = tokenizer.vocabulary_size
        self._documents = DocumentEncoder(encoder, tokenizer, config or EncodingConfig())

    def encode_queries(self, texts: Sequence[str]) -> list[EncodedQuery]:
        """Encodes queries, and returns the tokens of each in order."""
        return self._queries.encode(texts)

    def encode_documents(self, documents: Sequence[Document], dataset: str) -> CorpusTokens:
        """Encodes a corpus.

        Args:
            documents: The corpus.
            dataset: Its name, for messages.

        Returns:
            Vectors, and where each document begins.

        Raises:
            InputError: The corpus does not fit into memory.
        """
        encoded = []
        tokens = 0
        with track("encode", len(documents), "documents") as progress:
            for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
                group = documents[start : start + _DOCUMENTS_AT_ONCE]
                encoded += self._documents.encode([document.full_text for document in group])
                tokens += sum(len(document.pieces) for document in encoded[start:])
                check_size(tokens, dataset)
                progress.advance(len(group))
        return CorpusTokens(
            documents,
            np.concatenate([document.vectors for document in encoded], dtype=np.float32),
            np.cumsum([0, *(len(document.pieces) for document in encoded)]),
            np.concatenate([document.pieces for document in encoded]),
            np.concatenate([document.spans for document in encoded]),
        )
