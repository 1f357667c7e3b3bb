"""`Model`: an encoder with its tokenizer, loaded from a directory: it encodes, indexes, scores, is measured.

A thin layer: every method calls what the command of the same name calls.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xtr_tf.api.live_index import LiveIndex
from xtr_tf.api.requests import check_queries
from xtr_tf.api.results import Evaluation
from xtr_tf.collections.document import UNKNOWN_LANGUAGE
from xtr_tf.collections.given import Documents, open_documents
from xtr_tf.config.retrieval import EncodingConfig, IndexConfig
from xtr_tf.errors import InputError, needs_extra
from xtr_tf.model.folder import copy_encoder, load_encoder, read_manifest
from xtr_tf.progress import shown
from xtr_tf.retriever.building import build_parts
from xtr_tf.scoring.reference import colbert_scores
from xtr_tf.vectors.document_encoder import DocumentEncoder
from xtr_tf.vectors.query_encoder import QueryEncoder
from xtr_tf.vectors.runners import run_with

if TYPE_CHECKING:
    from xtr_tf.config.model import Dtype


class Model:
    """An XTR encoder; `xtr_tf.load` and `xtr_tf.train` give one.

    Args:
        directory: An encoder's directory.
        name: What to call it; the directory's name if not given.
        dtype: The dtype policy to compute with, instead of the one it was saved with.

    Attributes:
        name: What it is called.
        directory: Where it was loaded from.
        manifest: Shape of the encoder, settings of the tokenizer, and the fingerprint of both.
        encoder: The Keras model.
        tokenizer: Its tokenizer.

    Example:
        >>> model = xtr_tf.load()
        >>> index = model.index(["Baikal is 1,642 m deep.", "The Nile is 6,650 km long."])
        >>> index.search("How deep is Lake Baikal?")[0].text
        'Baikal is 1,642 m deep.'
    """

    def __init__(self, directory: str | Path, name: str = "", dtype: Dtype | None = None) -> None:
        self.directory = Path(directory)
        self.name = name or self.directory.resolve().name
        self.manifest = read_manifest(self.directory)
        self.encoder, self.tokenizer = load_encoder(self.directory, dtype)
        self._queries = QueryEncoder(self.encoder, self.tokenizer)
        self._documents: dict[EncodingConfig, DocumentEncoder] = {}

    def __repr__(self) -> str:
        shape = self.manifest.encoder
        return (
            f"<xtr_tf model {self.name!r}: {shape.num_layers} layers, {shape.model_dim} wide, "
            f"{shape.vocabulary_size:,} pieces, vectors of {shape.projection_dim}>"
        )

    def index(
        self,
        documents: Documents,
        *,
        language: str = UNKNOWN_LANGUAGE,
        kind: Literal["auto", "scann", "core", "exact"] = "auto",
        passage_length: int = EncodingConfig.passage_length,
        overlap: int | None = EncodingConfig.overlap,
        vectors_dtype: str = EncodingConfig.dtype,
        keep_text: bool = EncodingConfig.keep_text,
        batch_tokens: int = EncodingConfig.batch_tokens,
        skip_punctuation: bool = EncodingConfig.skip_punctuation,
        skip_pieces: Iterable[str] = (),
        min_norm: float = EncodingConfig.min_norm,
        max_tokens: int = EncodingConfig.max_tokens,
        fields: Mapping[str, str] | None = None,
        num_leaves: int = IndexConfig.num_leaves,
        num_leaves_to_search: int = IndexConfig.num_leaves_to_search,
        sample_size: int = IndexConfig.sample_size,
        kmeans_iterations: int = IndexConfig.kmeans_iterations,
        seed: int = IndexConfig.seed,
        dims_per_block: int = IndexConfig.dims_per_block,
        anisotropic_threshold: float = IndexConfig.anisotropic_threshold,
        reordering: bool = IndexConfig.reordering,
        index_dtype: Literal["", "int8", "bfloat16", "float16", "float32"] = IndexConfig.dtype,
        num_shards: int = IndexConfig.num_shards,
        parallel_searches: int = IndexConfig.parallel_searches,
        lexical: Literal["none", "words", "ngrams"] = IndexConfig.lexical,
        progress: bool = True,
    ) -> LiveIndex:
        """Encodes documents and makes them searchable.

        Args:
            documents: Strings; mappings with `text` and, if there are, `id`, `title` and `language`;
                `Document`s; any iterable of these, which is read once; a data frame with such columns; or the
                path of a corpus (JSONL, TSV, Parquet, TFRecord, a BEIR folder). A document without an id gets
                its position.
            language: Of documents that do not name one.
            kind: `scann` (smallest, fastest), `core` (stock TensorFlow ops), `exact` (brute force), or
                `auto`: `exact` up to 200,000 tokens, `scann` beyond.
            passage_length: Tokens of a passage, into which long documents are split; 0 takes the model's own
                length.
            overlap: Tokens that two neighbouring passages share; None takes an eighth of a passage.
            vectors_dtype: What vectors are stored as, `float16` or `bfloat16`.
            keep_text: Whether texts are kept, to be returned with hits.
            batch_tokens: Tokens encoded at once, padding included.
            skip_punctuation: Leaves out pieces that are only punctuation.
            skip_pieces: Leaves out these pieces, written as in the vocabulary (`▁the`).
            min_norm: Leaves out tokens whose projection, before it is normalised, is shorter.
            max_tokens: Keeps only the first N tokens of a document; 0 keeps all.
            fields: Names and types (`keyword`, `keywords`, `int`, `float`, `bool`) of what documents have
                besides, for filters and hits; none by default.
            num_leaves: k-means leaves of `scann` and `core`; 0 takes 4 times the root of the tokens.
            num_leaves_to_search: Leaves that a search looks into; 0 lets it follow from their number and k'.
            sample_size: Tokens that leaves and codebooks are trained on; 0 takes 64 per leaf.
            kmeans_iterations: How often k-means assigns the sample and moves the centres.
            seed: Of the sample and of k-means.
            dims_per_block: Dimensions that share one 4-bit code (`scann`).
            anisotropic_threshold: Similarity from which precision matters when codes are chosen (`scann`).
            reordering: Whether hits are scored again by int8 vectors (`scann`).
            index_dtype: What `core` (`int8`, `bfloat16`) and `exact` (`float32`, `float16`, `bfloat16`) keep
                vectors as; empty takes `int8` and `float16`.
            num_shards: Searchers that the tokens are divided over, merged exactly.
            parallel_searches: Parts of a large batch that one `scann` index searches at the same time.
            lexical: BM25 for hybrid search: over `words`, over character `ngrams`, which suit every script,
                or `none`.
            progress: Whether to show progress.

        Returns:
            The index. It lives in this process and in a temporary folder; `LiveIndex.save` keeps it.

        Raises:
            InputError: There is no document, one has no text, an id comes twice, or what gives the documents
                fails.

        Example:
            >>> index = model.index([{"id": "baikal", "text": "Baikal is 1,642 m deep.", "language": "en"}])
        """
        encoding = EncodingConfig(
            passage_length=passage_length,
            overlap=overlap,
            dtype=vectors_dtype,
            keep_text=keep_text,
            batch_tokens=batch_tokens,
            skip_punctuation=skip_punctuation,
            skip_pieces=tuple(skip_pieces),
            min_norm=min_norm,
            max_tokens=max_tokens,
            fields=fields or {},
        )
        config = IndexConfig(
            kind=kind,
            num_leaves=num_leaves,
            num_leaves_to_search=num_leaves_to_search,
            sample_size=sample_size,
            kmeans_iterations=kmeans_iterations,
            seed=seed,
            dims_per_block=dims_per_block,
            anisotropic_threshold=anisotropic_threshold,
            reordering=reordering,
            dtype=index_dtype,
            num_shards=num_shards,
            parallel_searches=parallel_searches,
            lexical=lexical,
        )
        corpus = open_documents(documents, language, fields=encoding.fields)
        work = tempfile.TemporaryDirectory(prefix="xtr_tf-")
        with shown(quiet=not progress):
            built = build_parts(
                corpus,
                self.directory,
                Path(work.name) / "0",
                encoding,
                config,
                language=language,
                runner=run_with(self.document_encoder(encoding)),
            )
        return LiveIndex(self, work, built.vectors, built.index, config)

    def encode_queries(self, queries: str | Sequence[str]) -> np.ndarray | list[np.ndarray]:
        """The token vectors of queries.

        Args:
            queries: One query, or several; cut to the model's longest query.

        Returns:
            `[tokens, dim]` float32 of unit length, the last of which is the end of the text; a list of them
            for a list of queries.

        Example:
            >>> model.encode_queries("How deep is Lake Baikal?").shape
            (8, 128)
        """
        texts = [queries] if isinstance(queries, str) else list(queries)
        check_queries(texts)
        vectors = [query.vectors for query in self._queries.encode(texts)]
        return vectors[0] if isinstance(queries, str) else vectors

    def encode_documents(self, documents: Documents, *, progress: bool = True) -> list[np.ndarray]:
        """The token vectors of documents, as an index keeps them.

        Args:
            documents: As for `index`; a long document is encoded in overlapping passages.
            progress: Whether to show progress.

        Returns:
            `[tokens, dim]` float32 of unit length, rounded to float16, one per document.

        Example:
            >>> [vectors.shape for vectors in model.encode_documents(["The Nile flows north."])]
            [(8, 128)]
        """
        texts = [document.full_text for document in open_documents(documents)]
        with shown(quiet=not progress):
            encoded = self.document_encoder(EncodingConfig()).encode(texts)
        return [document.vectors.astype(np.float32) for document in encoded]

    def score(self, query: str, documents: Documents) -> np.ndarray:
        """Exact f_ColBERT of documents that something else found, to rank them again.

        Args:
            query: The query.
            documents: As for `index`.

        Returns:
            `[documents]` float32: the mean, over the query's tokens, of the best similarity in the document.

        Example:
            >>> scores = model.score("deepest lake", ["The Nile is a river.", "Baikal is the deepest lake."])
            >>> int(scores.argmax())
            1
        """
        check_queries([query])
        vectors = self.encode_documents(documents, progress=False)
        starts = np.cumsum([0, *(len(tokens) for tokens in vectors)])[:-1]
        similarities = self._queries.encode([query])[0].vectors @ np.concatenate(vectors).T
        return colbert_scores(np.maximum.reduceat(similarities, starts, axis=1))[0]

    def evaluate(
        self,
        datasets: str | Path | Sequence[str | Path],
        *,
        split: str | None = None,
        out: str | Path | None = None,
        baseline: str | Path | Model | None = None,
        k_prime: int = 1_000,
        depth: int = 0,
        max_queries: int = 0,
        bm25: bool = True,
        fusion: bool = False,
        alpha: float = 0.5,
        analysis_queries: int = 100,
        examples: int = 1,
        seed: int = 0,
        progress: bool = True,
    ) -> Evaluation:
        """Measures the model on datasets by exact search, next to BM25. Needs `xtr-tf[eval]`.

        Args:
            datasets: A folder of a dataset (BEIR's, MS MARCO's, MIRACL's, LoTTE's or DPR's layout) or of
                several, or a list of such folders.
            split: Which judgements; each layout's test split if not given.
            out: Folder for the report; a new temporary one if not given.
            baseline: Another model, or the folder of an earlier report, to compare with.
            k_prime: Tokens that each query token retrieves.
            depth: Documents ranked of each query; 0 means 1,000 in a corpus of 20,000 documents or more, and
                100 in a smaller one.
            max_queries: Queries of each dataset, sampled; 0 for all.
            bm25: Whether to run the BM25 baselines.
            fusion: Whether to measure XTR and BM25 in one score, too.
            alpha: What BM25 counts for in it.
            analysis_queries: Queries of each dataset whose tokens are analysed; 0 for none.
            examples: Worked examples of each dataset.
            seed: Of samples and resampling.
            progress: Whether to show progress.

        Returns:
            The figures by dataset, system and metric, and where the report is.

        Raises:
            InputError: A folder has no dataset, or `out` is in use.

        Example:
            >>> found = model.evaluate("examples/atlas", max_queries=10)
            >>> 0.5 < found["atlas"]["nDCG@10"] <= 1
            True
        """
        with needs_extra("Evaluating", "eval"):
            from xtr_tf.collections.loading import load_datasets
            from xtr_tf.evaluation.evaluate import evaluate_model
            from xtr_tf.evaluation.evaluator import EvaluationSettings

        settings = EvaluationSettings(
            k_prime=k_prime,
            depth=depth,
            max_queries=max_queries,
            bm25=bm25,
            fusion=fusion,
            alpha=alpha,
            analysis_queries=analysis_queries,
            examples=examples,
            seed=seed,
        )
        folders = [datasets] if isinstance(datasets, str | Path) else list(datasets)
        report = Path(out) if out else Path(tempfile.mkdtemp(prefix="xtr_tf-report-"))
        compared = baseline.directory if isinstance(baseline, Model) else baseline
        with shown(quiet=not progress):
            content = evaluate_model(
                self.directory, load_datasets(folders, split), report, settings, compared
            )
        return Evaluation(
            figures={
                row["name"]: {
                    system: {metric: figure["value"] for metric, figure in metrics.items()}
                    for system, metrics in row["figures"].items()
                }
                for row in content["datasets"]
            },
            metric={row["name"]: row["metric"] for row in content["datasets"]},
            report=report,
        )

    def save(self, directory: str | Path, *, overwrite: bool = False) -> Path:
        """Writes the encoder's directory, which `xtr_tf.load` and every command take.

        Args:
            directory: Where to; it appears only when complete.
            overwrite: Whether to replace a directory that is already there.

        Returns:
            The directory.

        Raises:
            InputError: The directory exists.
        """
        return copy_encoder(self.directory, directory, overwrite)

    def document_encoder(self, config: EncodingConfig) -> DocumentEncoder:
        """What encodes documents by a configuration; made once for each."""
        resolved = config.resolved(self.tokenizer.config.document_length)
        if resolved not in self._documents:
            self._documents[resolved] = DocumentEncoder(self.encoder, self.tokenizer, resolved)
        return self._documents[resolved]


def require_model(value: Any) -> Model:
    """The value if it is a `Model`; raises `InputError` otherwise."""
    if not isinstance(value, Model):
        raise InputError(f"A model is what `xtr_tf.load` returns. Received: {type(value).__name__}.")
    return value
