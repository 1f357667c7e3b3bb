"""The requests that check and warm up an export: every signature, with edge cases.

First come token ids, which must be exact, and the vectors of the encoder. Then come searches with exactly
these vectors, so that the rounding of the encoder cannot affect the index. Then come requests of callers,
with strings.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from xtr_tf.config.retrieval import IMPUTATIONS, MAX_TOP_K, TOKEN_WEIGHTS
from xtr_tf.retriever import slack
from xtr_tf.retriever.lexical_part import LexicalPart
from xtr_tf.retriever.reference_cases import Reference, ReferenceCase
from xtr_tf.retriever.request import SearchRequest
from xtr_tf.retriever.retriever import Retriever
from xtr_tf.scoring.fusion import RRF_CONSTANT
from xtr_tf.scoring.fusion_reference import steepness

# Short lists of hits keep the file small. Which tokens are retrieved does not depend on their number.
_K_PRIME_OF_HITS = 50
# A small index is recorded completely, a large one around two vectors.
_K_PRIME_OF_PROBES = 4096
_MOST_QUERIES = 8
_MOST_EXPLAINED = 10
_LEAVES_OF_SHARP = 16
_WITHOUT_TITLES = ("What is it?", "Où est-ce ?", "誰ですか")
_NO_UTF_8 = b"\xff\xfe"

Arrays = dict[str, np.ndarray]


def default_queries(retriever: Retriever) -> list[str]:
    """Returns titles from the whole corpus, or some questions if it has none.

    Args:
        retriever: The retriever.

    Returns:
        Texts that are not blank.
    """
    titles = retriever.documents.titles
    count = int(titles.shape[0])
    if not count:
        return list(_WITHOUT_TITLES)
    places = np.unique(np.linspace(0, count - 1, _MOST_QUERIES).astype(np.int32))
    found = [title.decode() for title in tf.gather(titles, places).numpy()]
    return [title for title in found if title.strip()] or list(_WITHOUT_TITLES)


def record_reference(
    retriever: Retriever, signatures: Mapping[str, Any], queries: Sequence[str]
) -> Reference:
    """Records the answers of the retriever itself, before it is saved.

    Args:
        retriever: The retriever.
        signatures: Its functions by name.
        queries: Texts to search for; none may be blank.

    Returns:
        Requests, answers, and their tolerances for rounding.
    """
    defaults = {name: _defaults_of(function) for name, function in signatures.items()}
    with graphs_as_they_are():
        traces = _as_saved(signatures)
        recorder = _Recorder(retriever, traces, defaults, queries)
        recorder.record_encodings()
        recorder.record_vector_searches()
        recorder.record_text_searches()
    return Reference(recorder.cases, defaults)


@contextlib.contextmanager
def graphs_as_they_are() -> Iterator[None]:
    """Prevents Grappler from rewriting graphs that run a few times, which would take longer than the runs.

    Calls that are not inlined keep the setting of their trace. If they were traced outside, the first
    filtered query of a loaded model, and the first one with BM25, would wait for Grappler in every signature.
    """
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, **before})


def _as_saved(signatures: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Returns exactly the traces that will be saved.

    Functions keep their traces by context, and being saved is a context. If they were traced in another one,
    `tf.saved_model.save` would trace everything again, which takes longer than recording all answers.
    """
    from tensorflow.python.saved_model import save_context

    with save_context.save_context(tf.saved_model.SaveOptions()):
        return {name: function.get_concrete_function() for name, function in signatures.items()}


class _Recorder:
    """Measures tolerances of answers, and records answers one by one in `cases`."""

    def __init__(
        self,
        retriever: Retriever,
        signatures: Mapping[str, Callable[..., Any]],
        defaults: Mapping[str, Arrays],
        queries: Sequence[str],
    ) -> None:
        self._retriever = retriever
        self._signatures = signatures
        self._defaults = defaults
        self._texts = _strings(queries)
        self._parameters = {
            name: value.numpy() for name, value in SearchRequest.default(retriever.defaults)._asdict().items()
        }
        self.cases: list[ReferenceCase] = []
        encoded = self._ask("encode_query", {"query": self._texts})
        self._vectors, self._mask = encoded["encodings"], encoded["mask"]
        self._weights = self._ask("explain", {"query": self._texts})["weights"]
        alone = [self._ask("encode_query", {"query": self._texts[[place]]}) for place in range(len(queries))]
        self._of_encoder = slack.encoder_tolerance(encoded, alone)
        self._measure_index()

    def _measure_index(self) -> None:
        dim, distance = self._retriever.dim, self._of_encoder
        hits = self._asking("search_vectors_tokens", _for_all(k_prime=_K_PRIME_OF_HITS, leaves=0))
        by_ulps = slack.token_spread(hits, self._vectors, slack.moved_by_ulps(self._vectors))
        spread = slack.token_spread(hits, self._vectors, slack.moved_by(distance, self._vectors))
        self._of_hits_by_vectors = slack.slack(dim, by_ulps)
        self._of_hits = slack.slack(dim, max(by_ulps, spread))
        self._spread_of_tokens = spread
        self._steadiness = self._steadiness_of(self._parameters)
        of_documents = self._steadiness.tolerance
        # With other imputations, the score jumps when another token is retrieved.
        continuous = self._retriever.defaults.imputation == "top_k_prime"
        self._by_vectors = min(of_documents, self._of_hits_by_vectors) if continuous else of_documents

    def _steadiness_of(self, parameters: Mapping[str, Any]) -> slack.Steadiness:
        return slack.steadiness_of_rankings(
            self._asking("search_vectors", self._of_vectors(parameters)),
            self._vectors,
            slack.moved_by(self._of_encoder, self._vectors),
            self._spread_of_tokens,
        )

    def record_encodings(self) -> None:
        """Records token ids and vectors, of texts in lower and upper case and of texts that are too long."""
        counted = self._retriever.piece_weights
        largest_idf = np.log1p(2 * counted.num_documents + 1) if counted is not None else 0.0
        of_weights = slack.rounding_of_scores(self._retriever.dim) * float(largest_idf)
        tolerances = {"encodings": self._of_encoder, "idf": of_weights}
        odd = _strings([*(text.decode().upper() for text in self._texts[:2]), "", _NO_UTF_8])
        # Every text has at least one token.
        repeats = 1 + self._retriever.tokenizer.config.document_length // len(self._texts)
        long = _strings([b" ".join(self._texts.tolist() * repeats)])
        for signature, name in (("encode_query", "query"), ("encode_document", "document")):
            self._record(signature, {name: self._texts}, tolerances)
            self._record(signature, {name: odd}, tolerances)
            told = ("ids", "mask") if name == "query" else ("ids", "mask", "truncated")
            self._record(signature, {name: long}, {}, only=told)
        self._record_look_up()

    def _record_look_up(self) -> None:
        """Records the first and last document, no document, and the first and last token of the index."""
        documents = np.array([[0, -1, self._retriever.documents.num_documents - 1]], np.int32)
        tokens = np.array([[[0, -1], [-1, -1], [-1, self._retriever.searcher.num_tokens - 1]]], np.int32)
        scores = np.full(tokens.shape, 0.5, np.float32)
        self._record("look_up", {"documents": documents, "tokens": tokens, "scores": scores}, {})

    def record_vector_searches(self) -> None:
        """Records searches with the recorded vectors: token hits, the index as a whole, and documents."""
        tolerances = dict.fromkeys(("scores", "cutoffs"), self._of_hits_by_vectors)
        signature = "search_vectors_tokens"
        hits = _for_all(k_prime=_K_PRIME_OF_HITS, leaves=0)
        self._record(signature, {"encodings": self._vectors, "mask": self._mask, **hits}, tolerances)
        probes = {"encodings": self._vectors[[0, -1], :1], "mask": np.ones([2, 1], bool)}
        whole = min(self._retriever.searcher.num_tokens, _K_PRIME_OF_PROBES)
        self._record(signature, {**probes, **_for_all(k_prime=whole, leaves=0)}, tolerances)
        steady = self._steadiness.queries
        vectors = {"encodings": self._vectors[steady], "mask": self._mask[steady]}
        request = self._of_vectors(self._parameters, steady)
        self._record("search_vectors", {**vectors, **request}, {"scores": self._by_vectors})

    def record_text_searches(self) -> None:
        """Records requests of callers, for queries that are not at an edge of the index."""
        texts = self._texts[self._steadiness.queries]
        of_documents = {"scores": self._steadiness.tolerance}
        for query in (texts, texts[:1], np.concatenate([_strings(["", " "]), texts[:1]])):
            self._record("serving_default", {"query": query}, of_documents)
        self._record("search", {"query": texts, **self._parameters}, of_documents)
        if self._retriever.lexical is not None:
            self._record_hybrid(texts)
            self._record_hybrid_hits()
        self._record_sharp_searches()
        if self._retriever.keeps_vectors:
            self._record_rescored()
        hits = {"query": texts[:2], **_for_all(k_prime=_K_PRIME_OF_HITS, leaves=0)}
        self._record("search_tokens", hits, dict.fromkeys(("scores", "cutoffs"), self._of_hits))
        self._record_explanations(texts[:2])
        documents = np.stack([texts, texts[::-1]])[: len(texts[:2])]
        vectors = self._ask("encode_document", {"document": documents.ravel()})["encodings"]
        longest = max(1.0, float(np.linalg.norm(vectors, axis=-1).max()))
        rounding = 2 * self._of_encoder + slack.rounding_of_scores(self._retriever.dim)
        scored = {"scores": longest * rounding}
        self._record("score", {"query": texts[:2], "documents": documents}, scored)

    def _record_sharp_searches(self) -> None:
        """Records filters and imputations, with no token so near the cut-off that rounding moves it over."""
        place, k_prime, fall = self._sharpest()
        request = {
            **self._parameters,
            **_for_all(k_prime=k_prime, leaves=_LEAVES_OF_SHARP, rescore=0),
            "alpha": np.zeros(1, np.float32),
        }
        query = {"query": self._texts[[place]]}
        vectors = {"encodings": self._vectors[[place]], "mask": self._mask[[place]]}
        of_text, of_vectors = {"scores": self._of_hits}, {"scores": self._of_hits_by_vectors}
        language = self._ask("search", {**query, **request})["languages"][0, :1]
        sharp = fall > 2 * self._of_hits
        if self._retriever.defaults.imputation == "top_k_prime":  # as above, a score moves but never jumps
            name = language.tolist()[0]
            for filtered in ({"languages": language}, {"filter": _strings([b"language!=" + name])}):
                self._record("search", {**query, **request, **filtered}, of_text)
                self._record(
                    "search_vectors",
                    {**vectors, **self._of_vectors({**request, **filtered}, [place])},
                    of_vectors,
                )
        for name in TOKEN_WEIGHTS if self._retriever.piece_weights else ():
            self._record("search", {**query, **request, "token_weights": _strings([name])}, of_text)
        for name in IMPUTATIONS if sharp else ("top_k_prime",):
            asked = {**request, "imputation": _strings([name]), "constant": np.array([0.5], np.float32)}
            self._record("search", {**query, **asked}, of_text)
            self._record("search_vectors", {**vectors, **self._of_vectors(asked, [place])}, of_vectors)

    def _sharpest(self) -> tuple[int, int, float]:
        """Returns the query and k' after which the scores of all its tokens fall furthest, and how far."""
        request = _for_all(k_prime=_K_PRIME_OF_HITS, leaves=_LEAVES_OF_SHARP)
        hits = self._asking("search_vectors_tokens", request)(self._vectors)
        scores = -np.sort(-hits["scores"], axis=2)
        with np.errstate(invalid="ignore"):
            falls = np.nan_to_num(scores[:, :, :-1] - scores[:, :, 1:], nan=0.0, posinf=0.0)
        best = (0.0, 0, 1)
        for place in np.flatnonzero(self._steadiness.queries).tolist():
            of_query = falls[place][hits["mask"][place]].min(axis=0)
            if of_query.size:
                best = max(best, (float(of_query.max()), place, 1 + int(of_query.argmax())))
        return best[1], best[2], best[0]

    def _record_rescored(self) -> None:
        rescore = min(2 * self._retriever.defaults.top_k, MAX_TOP_K)
        parameters = {**self._parameters, **_for_all(rescore=rescore)}
        steadiness = self._steadiness_of(parameters)
        texts = self._texts[steadiness.queries]
        self._record("search", {"query": texts, **parameters}, {"scores": steadiness.tolerance})

    def _record_hybrid(self, texts: np.ndarray) -> None:
        """Records fusion by weights. By ranks only BM25, because the last bit of f_XTR' can change a rank."""
        for alpha, fusion in ((0.5, "weighted"), (1.0, "rrf")):
            asked = {"alpha": np.array([alpha], np.float32), "fusion": _strings([fusion])}
            request = {**self._parameters, **_for_all(rescore=0), **asked}
            self._record("search", {"query": texts, **request}, {"scores": self._steadiness.tolerance})

    def _record_hybrid_hits(self) -> None:
        """Records BM25 next to the hits of recorded vectors."""
        top_k = min(self._retriever.defaults.top_k, _MOST_EXPLAINED)
        request = _for_all(k_prime=_K_PRIME_OF_HITS, leaves=0, top_k=top_k)
        inputs = {"encodings": self._vectors, "mask": self._mask, "query": self._texts, **request}
        found = self._ask("search_hybrid_tokens", inputs)
        largest = max(float(np.max(found[name], initial=1)) for name in ("lexical_scores", "other_scores"))
        tolerances = {
            **dict.fromkeys(("scores", "cutoffs"), self._of_hits_by_vectors),
            "lexical_scores": slack.rounding_of_scores(self._retriever.dim) * largest,
        }
        self._record("search_hybrid_tokens", inputs, tolerances)

    def _record_explanations(self, texts: np.ndarray) -> None:
        request = {name: value for name, value in self._parameters.items() if name != "rescore"}
        request |= _for_all(top_k=min(self._retriever.defaults.top_k, _MOST_EXPLAINED))
        places = [self._texts.tolist().index(text) for text in texts]
        vectors = {"encodings": self._vectors[places], "mask": self._mask[places]}
        searched = {name: request[name] for name in ("k_prime", "leaves")}
        hits = self._ask("search_vectors_tokens", {**vectors, **searched})
        inputs = {"query": texts, **request}
        contested = _contested(self._ask("explain", inputs), hits, 2 * self._of_hits)
        tolerances = {
            "scores": self._steadiness.tolerance,
            "token_scores": self._of_hits,
            "weights": slack.rounding_of_scores(self._retriever.dim) * float(self._weights.max()),
        }
        self._record("explain", inputs, tolerances, contested=contested)

    def _of_vectors(self, parameters: Mapping[str, Any], places: Any = slice(None)) -> dict[str, Any]:
        """Returns the parameters for queries given as vectors, with the weights of the model's default."""
        of_text = ("token_weights", "alpha", "fusion")
        kept = {name: value for name, value in parameters.items() if name not in of_text}
        return {"weights": self._weights[places], **kept}

    def _ask(self, signature: str, inputs: Mapping[str, Any]) -> Arrays:
        asked = {**self._defaults[signature], **inputs}
        answer = self._signatures[signature](**{name: tf.constant(value) for name, value in asked.items()})
        return {name: np.asarray(value.numpy()) for name, value in answer.items()}

    def _asking(self, signature: str, request: Mapping[str, Any]) -> slack.Ask:
        return lambda vectors: self._ask(signature, {"encodings": vectors, "mask": self._mask, **request})

    def _record(
        self,
        signature: str,
        inputs: Mapping[str, Any],
        tolerances: Mapping[str, float],
        only: Sequence[str] = (),
        contested: np.ndarray | None = None,
    ) -> None:
        # As clients send them, with one value per query.
        rows = len(next(iter(inputs.values())))
        asked = {
            name: np.repeat(value, rows) if name in SearchRequest._fields else value
            for name, value in inputs.items()
        }
        outputs = self._ask(signature, asked)
        # The bounds of a snippet depend on tokens near the cut-off. `explain` has the whole text.
        snippets = self._retriever.documents.snippets and signature in ("search", "search_vectors")
        cut = ("texts",) if snippets else ()
        kept = {
            name: array for name, array in outputs.items() if (not only or name in only) and name not in cut
        }
        beyond = self._beyond(signature, inputs)
        if signature in ("serving_default", "search", "explain"):
            tolerances = self._of_fused(asked, outputs, tolerances)
        self.cases.append(ReferenceCase(signature, asked, kept, tolerances, contested, beyond))

    def _of_fused(
        self, inputs: Mapping[str, Any], outputs: Arrays, tolerances: Mapping[str, float]
    ) -> Mapping[str, float]:
        """Returns tolerances of both kinds of scores and of fused ones, given the tolerance of f_XTR'."""
        lexical = self._retriever.lexical
        if lexical is None:
            return tolerances
        of_xtr, defaults = tolerances["scores"], self._retriever.defaults
        alpha = float(np.max(inputs.get("alpha", defaults.alpha), initial=0))
        by_ranks = b"rrf" in inputs.get("fusion", _strings([defaults.fusion])).tolist()
        if alpha and by_ranks:
            of_fused = 2 / RRF_CONSTANT**2  # two places among the first
        else:
            of_fused = of_xtr * (1 + alpha * _steepness(lexical, inputs["query"]) if alpha else 1)
        largest = float(np.max(outputs.get("lexical_scores", 0.0), initial=1))
        of_bm25 = slack.rounding_of_scores(self._retriever.dim) * largest
        of_fused = max(of_fused, slack.rounding_of_scores(self._retriever.dim))
        return {**tolerances, "scores": of_fused, "xtr_scores": of_xtr, "lexical_scores": of_bm25}

    def _beyond(self, signature: str, inputs: Mapping[str, Any]) -> np.ndarray | None:
        """Returns the scores of the first documents that a ranking leaves out; None if it cannot be asked."""
        if signature == "serving_default":
            blank = np.array([not text.strip() for text in inputs["query"]])
            scores = np.full(len(blank), -np.inf, np.float32)
            found = self._beyond("search", {"query": inputs["query"][~blank], **self._parameters})
            if found is None:
                return None
            scores[~blank] = found
            return scores
        if signature == "search_hybrid_tokens":
            return None
        if "top_k" not in inputs or inputs["top_k"] in (MAX_TOP_K, inputs.get("rescore", 0)):
            return None
        return self._ask(signature, {**inputs, "top_k": inputs["top_k"] + np.int32(1)})["scores"][:, -1]


def _contested(explained: Arrays, hits: Arrays, close: float) -> np.ndarray:
    """Returns where two retrieved tokens of a document are `close`, `[queries, documents, length]` bool."""
    contested = np.zeros(explained["retrieved"].shape, bool)
    for query, identifiers in enumerate(explained["document_ids"]):
        names = {identifier: place for place, identifier in enumerate(hits["document_ids"][query])}
        for position in np.flatnonzero(hits["mask"][query]):
            scores, documents = hits["scores"][query, position], hits["documents"][query, position]
            for place, identifier in enumerate(identifiers):
                best = -np.sort(-scores[documents == names.get(identifier, -2)])[:2]
                contested[query, place, position] = len(best) == 2 and best[0] - best[1] <= close
    return contested


def _defaults_of(function: Any) -> Arrays:
    """Returns the values of inputs that a caller may leave out."""
    parameters = inspect.signature(function.python_function).parameters
    return {
        name: parameter.default.numpy()
        for name, parameter in parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }


def _steepness(lexical: LexicalPart, texts: np.ndarray) -> float:
    """Returns how much further than f_XTR' a fused score of one of these queries can move."""
    terms = lexical.terms_of(tf.constant(texts))
    scores = [
        lexical.scores(tf.boolean_mask(terms.keys, terms.queries == place)).numpy()
        for place in range(len(texts))
    ]
    return steepness(np.stack(scores)) if scores else 0.0


def _strings(values: Sequence[str | bytes]) -> np.ndarray:
    encoded = np.empty(len(values), object)
    encoded[:] = [value.encode() if isinstance(value, str) else value for value in values]
    return encoded


def _for_all(**values: int) -> Arrays:
    """Returns parameters that are the same for all queries."""
    return {name: np.array([value], np.int32) for name, value in values.items()}
