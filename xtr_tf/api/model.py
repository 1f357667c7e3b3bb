"""`Model`: an encoder with its tokenizer. It encodes, indexes, scores and evaluates.

A thin layer: every method calls the same code as the command of the same name.
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
    """An XTR encoder. `xtr_tf.load` and `xtr_tf.train` return one.

    Args:
        directory: The directory of an encoder.
        name: Name of the model; by default the name of the directory.
        dtype: The dtype policy to compute with; by default the one it was saved with.

    Attributes:
        name: Name of the model.
        directory: The directory it was loaded from.
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
        length_penalty: float = EncodingConfig.length_penalty,
        repetition_bonus: float = EncodingConfig.repetition_bonus,
        compute_dtype: Literal["", "float32", "mixed_bfloat16"] = EncodingConfig.compute_dtype,
        fields: Mapping[str, str] | None = None,
        num_leaves: int = IndexConfig.num_leaves,
        num_leaves_to_search: int = IndexConfig.num_leaves_to_search,
        sample_size: int = IndexConfig.sample_size,
        kmeans_iterations: int = IndexConfig.kmeans_iterations,
        seed: int = IndexConfig.seed,
        dims_per_block: int = IndexConfig.dims_per_block,
        anisotropic_threshold: float = IndexConfig.anisotropic_threshold,
        reordering: bool = IndexConfig.reordering,
        index_dtype: Literal["", "int8", "int4", "bfloat16", "float16", "float32"] = IndexConfig.dtype,
        num_shards: int = IndexConfig.num_shards,
        parallel_searches: int = IndexConfig.parallel_searches,
        lexical: Literal["none", "words", "ngrams"] = IndexConfig.lexical,
        progress: bool = True,
    ) -> LiveIndex:
        """Encodes documents and makes them searchable.

        Args:
            documents: Strings; mappings with `text` and optionally `id`, `title` and `language`;
                `Document`s; any iterable of these, which is read once; a data frame with such columns; or the
                path of a corpus (JSONL, TSV, Parquet, TFRecord, a BEIR folder). A document without an id gets
                its position as its id.
            language: Language of documents that do not name one.
            kind: `scann` (smallest, fastest), `core` (stock TensorFlow ops), `exact` (brute force), or
                `auto`: `exact` up to 200,000 tokens, `scann` above.
            passage_length: Tokens per passage, into which long documents are split; 0 for the model's own
                length.
            overlap: Tokens that neighbouring passages share; None for an eighth of a passage.
            vectors_dtype: Type of the stored vectors, `float16` or `bfloat16`.
            keep_text: Whether to keep texts, to return them with hits.
            batch_tokens: Tokens to encode at once, padding included.
            skip_punctuation: Whether to leave out pieces that are only punctuation.
            skip_pieces: Pieces to leave out, written as in the vocabulary (`▁the`).
            min_norm: Leave out tokens whose projection, before it is normalised, is shorter than this.
            max_tokens: Keep only this many tokens of each document; 0 keeps all.
            length_penalty: How much less the tokens of long documents count; 0 for not at all.
            repetition_bonus: How much more pieces count that a document repeats; 0 for not at all.
            compute_dtype: The dtype policy to encode documents with; empty for the model's own.
            fields: Names and types (`keyword`, `keywords`, `int`, `float`, `bool`) of additional document
                fields, for filters and hits; none by default.
            num_leaves: k-means leaves of `scann` and `core`; 0 for 4 times the square root of the number of
                tokens.
            num_leaves_to_search: Leaves to search; 0 derives it from the number of leaves and k'.
            sample_size: Tokens to train leaves and codebooks on; 0 for 64 per leaf.
            kmeans_iterations: Number of k-means iterations.
            seed: Seed of the sample and of k-means.
            dims_per_block: Dimensions that share one 4-bit code (`scann`).
            anisotropic_threshold: Similarity above which the codes are most precise (`scann`).
            reordering: Whether to score hits again by int8 vectors (`scann`).
            index_dtype: Type of the vectors in a `core` (`int8`, `int4`, `bfloat16`) or `exact`
                (`float32`, `float16`, `bfloat16`) index; empty for `int8` and `float16`.
            num_shards: Searchers to divide the tokens over; their results are merged exactly.
            parallel_searches: Parts of a large batch that one `scann` index searches at the same time.
            lexical: BM25 for hybrid search: over `words`, over character `ngrams`, which suit every script,
                or `none`.
            progress: Whether to show progress.

        Returns:
            The index. It lives in this process and in a temporary folder. `LiveIndex.save` publishes it.

        Raises:
            InputError: There are no documents, a document has no text, an id is used twice, or the iterable
                of documents fails.

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
            length_penalty=length_penalty,
            repetition_bonus=repetition_bonus,
            compute_dtype=compute_dtype,
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
        """Encodes queries to token vectors.

        Args:
            queries: A query, or a list of queries. Long queries are truncated to the model's query length.

        Returns:
            `[tokens, dim]` float32 vectors of unit length, the last one for the end of the text; a list of
            such arrays for a list of queries.

        Raises:
            InputError: A query has no text.

        Example:
            >>> model.encode_queries("How deep is Lake Baikal?").shape
            (8, 128)
        """
        texts = [queries] if isinstance(queries, str) else list(queries)
        check_queries(texts)
        vectors = [query.vectors for query in self._queries.encode(texts)]
        return vectors[0] if isinstance(queries, str) else vectors

    def encode_documents(self, documents: Documents, *, progress: bool = True) -> list[np.ndarray]:
        """Encodes documents to token vectors, as an index without a length penalty stores them.

        Args:
            documents: As for `index`. Long documents are encoded in overlapping passages.
            progress: Whether to show progress.

        Returns:
            One array per document: `[tokens, dim]` float32 vectors of unit length, rounded to float16.

        Raises:
            InputError: A document cannot be used.

        Example:
            >>> [vectors.shape for vectors in model.encode_documents(["The Nile flows north."])]
            [(8, 128)]
        """
        texts = [document.full_text for document in open_documents(documents)]
        with shown(quiet=not progress):
            encoded = self.document_encoder(EncodingConfig()).encode(texts)
        return [document.vectors.astype(np.float32) for document in encoded]

    def score(self, query: str, documents: Documents) -> np.ndarray:
        """Scores documents by exact f_ColBERT, to rerank the results of another system.

        All vectors have unit length, whatever lengths an index has.

        Args:
            query: The query.
            documents: As for `index`.

        Returns:
            `[documents]` float32: the mean, over the query tokens, of the best similarity in the document.

        Raises:
            InputError: The query has no text, or a document cannot be used.

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
        token_weights: str = "none",
        length_penalty: float = 0.0,
        repetition_bonus: float = 0.0,
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
        """Evaluates the model on datasets by exact search, next to BM25. Needs `xtr-tf[eval]`.

        Args:
            datasets: The folder of a dataset (in the layout of BEIR, MS MARCO, MIRACL, LoTTE or DPR) or of
                several datasets, or a list of such folders.
            split: Split of the judgements; by default the test split of each layout.
            out: Folder for the report; a new temporary one by default.
            baseline: Another model, or the folder of an earlier report, to compare with.
            k_prime: Document tokens that each query token retrieves.
            token_weights: Weights of query tokens, `none` or `idf`.
            length_penalty: As for `index`.
            repetition_bonus: As for `index`.
            depth: Documents to rank per query; 0 for 1,000 in a corpus of 20,000 documents or more, and 100
                in a smaller one.
            max_queries: Queries to sample per dataset; 0 for all.
            bm25: Whether to run the BM25 baselines.
            fusion: Whether to evaluate XTR and BM25 combined in one score, too.
            alpha: Weight of BM25 in the combined score.
            analysis_queries: Queries per dataset whose tokens are analysed; 0 for none.
            examples: Worked examples per dataset.
            seed: Seed of samples and resampling.
            progress: Whether to show progress.

        Returns:
            The figures by dataset, system and metric, and the folder of the report.

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
            token_weights=token_weights,
            length_penalty=length_penalty,
            repetition_bonus=repetition_bonus,
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
        """Saves the encoder to a directory that `xtr_tf.load` and every command accept.

        Args:
            directory: The directory to write. It appears only when it is complete.
            overwrite: Whether to replace a directory that exists.

        Returns:
            The directory.

        Raises:
            InputError: The directory exists and `overwrite` is not set.
        """
        return copy_encoder(self.directory, directory, overwrite)

    def document_encoder(self, config: EncodingConfig) -> DocumentEncoder:
        """Returns the document encoder for a configuration; each is made once."""
        resolved = config.resolved(self.tokenizer.config.document_length)
        if resolved not in self._documents:
            is_own = resolved.compute_dtype in ("", self.encoder.config.dtype)
            self._documents[resolved] = (
                DocumentEncoder(self.encoder, self.tokenizer, resolved)
                if is_own
                else DocumentEncoder.load(self.directory, resolved)
            )
        return self._documents[resolved]


def require_model(value: Any) -> Model:
    """Returns `value`, or raises `InputError` unless it is a `Model`."""
    if not isinstance(value, Model):
        raise InputError(
            f"The model must be a `Model`, as `xtr_tf.load` returns it. Received: {type(value).__name__}."
        )
    return value
