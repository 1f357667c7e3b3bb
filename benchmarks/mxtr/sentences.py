"""What an encoder lacks in a language without training questions, by what its words and n-grams are worth.

    python benchmarks/mxtr/sentences.py                        # models/mxtr_tiny
    python benchmarks/mxtr/sentences.py ENCODER --queries 100

The documents of xquad_r are sentences, so these are, too: every sentence of the passages of sets on which no
encoder was trained. Any sentence of the answering passage is an answer, and the best one counts. Compared are
BM25 over character n-grams, the encoder (f_XTR' at k' 1,000, IDF weights and lengths of vectors), the sum of
both after standardising each, and vectors in which nothing is learned: a token is a word, its vector is the
sum of random vectors of its n-grams, and its weight is the IDF of the word.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from training_sets import read

from xtr_tf.collections.document import Document, DocumentRecord
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.evaluation.encoded import CorpusTokens
from xtr_tf.evaluation.encoder_model import LoadedEncoder, weighted
from xtr_tf.evaluation.exact import ExactRetriever
from xtr_tf.index.term_postings import TermPostings
from xtr_tf.lexical.terms import words
from xtr_tf.model.folder import load_encoder, read_background
from xtr_tf.scoring.reference import idf_weights
from xtr_tf.vectors.query_encoder import EncodedQuery

sys.path.append(str(Path(__file__).resolve().parents[1]))
from engine_process import processor_name
from exported_model import LENGTHS

SETS = {
    "tquad_tr": 900,
    "idkmrc_id": 1_200,
    "squadshifts_new_wiki_en": 900,
    "squadshifts_amazon_reviews_en": 600,
}
K_PRIME, DEPTH = 1_000, 10
DIM, SIZES = 128, (3, 4)
SHORTEST = 25  # characters; shorter sentences belong to the one before
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class Questions(NamedTuple):
    """A set of questions for sentences.

    Attributes:
        documents: The sentences.
        texts: The questions.
        answers: The ordinals of the sentences that answer each.
    """

    documents: list[Document]
    texts: list[str]
    answers: list[list[int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", nargs="?", default="models/mxtr_tiny", type=Path)
    parser.add_argument("--queries", type=int, default=300, help="questions of each set")
    parser.add_argument("--data", default=".bench/study/data", type=Path, help="folder that unpack.sh made")
    arguments = parser.parse_args()
    search = searching(arguments.encoder)
    print("| | BM25, n-grams | the encoder | both | n-gram vectors |\n|---|---:|---:|---:|---:|")
    for name, passages in SETS.items():
        rows = read(arguments.data / "train" / f"{name}.jsonl")
        own = questions_of(rows, passages, arguments.queries)
        lexical, learned = bm25(own), search(own)
        found = (lexical, learned, standard(lexical) + standard(learned), scores(*spelled(own)))
        print(f"| {name} |", " | ".join(f"{gain(row, own.answers):.1f}" for row in found), "|", flush=True)
    print(f"{processor_name()}, {arguments.queries} questions of each set")


def questions_of(rows: Iterable[dict[str, str]], passages: int, queries: int) -> Questions:
    """Splits the first passages into sentences, and takes the first questions for them."""
    asked = list(rows)
    chosen = list(dict.fromkeys(row["text"] for row in asked))[:passages]
    documents: list[Document] = []
    sentences: dict[str, list[int]] = {}
    for passage in chosen:
        parts = split(passage)
        sentences[passage] = list(range(len(documents), len(documents) + len(parts)))
        documents += [Document(str(n), text=part) for n, part in zip(sentences[passage], parts, strict=True)]
    # Every passage's first question comes before any second one.
    seen: Counter[str] = Counter()
    turns = []
    for row in asked:
        if row["text"] in sentences:
            seen[row["text"]] += 1
            turns.append((seen[row["text"]], row))
    turns.sort(key=lambda turn: turn[0])
    kept = [row for _, row in turns[:queries]]
    return Questions(documents, [row["query"] for row in kept], [sentences[row["text"]] for row in kept])


def split(passage: str) -> list[str]:
    """Splits a passage into sentences."""
    found: list[str] = []
    for part in _SENTENCE_END.split(passage.strip()):
        if found and len(part) < SHORTEST:
            found[-1] += f" {part}"
        else:
            found.append(part)
    return found


def bm25(own: Questions) -> np.ndarray:
    """BM25 over character n-grams, `[questions, sentences]`."""
    postings = TermPostings.of([DocumentRecord.of(document) for document in own.documents], "ngrams")
    return np.stack([postings.scores(text, "ngrams") for text in own.texts])


def searching(folder: Path) -> Callable[[Questions], np.ndarray]:
    """Loads an encoder, and returns what scores all documents for all questions by f_XTR'."""
    encoder, tokenizer = load_encoder(folder)
    background = read_background(folder, tokenizer.vocabulary_size)
    loaded = LoadedEncoder(encoder, tokenizer, EncodingConfig(**LENGTHS))

    def search(questions: Questions) -> np.ndarray:
        corpus = loaded.encode_documents(questions.documents, "questions")
        return scores(corpus, weighted(loaded.encode_queries(questions.texts), corpus, background))

    return search


def scores(corpus: CorpusTokens, queries: Sequence[EncodedQuery]) -> np.ndarray:
    """f_XTR', `[queries, documents]`, `-inf` for documents of which nothing was retrieved."""
    found = np.full((len(queries), len(corpus.documents)), -np.inf, np.float32)
    for block in ExactRetriever(corpus).blocks(queries):
        found[block.queries] = block.xtr_scores(block.similarities.cutoffs(K_PRIME))
    return found


def standard(values: np.ndarray) -> np.ndarray:
    """Scales every row to a mean of 0 and a variance of 1; `-inf` becomes the smallest value."""
    values = np.maximum(values, values[np.isfinite(values)].min())
    return (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)


def spelled(own: Questions) -> tuple[CorpusTokens, list[EncodedQuery]]:
    """Makes vectors of words by their n-grams. Rare n-grams have longer vectors, as in BM25."""
    split_documents = [words(document.text) or [""] for document in own.documents]
    asked = [words(text) or [""] for text in own.texts]
    documents = len(split_documents)
    with_word = Counter(word for own_words in split_documents for word in set(own_words))
    with_gram = Counter(
        gram for own_words in split_documents for gram in {g for word in own_words for g in ngrams(word)}
    )
    numbers = {
        word: n for n, word in enumerate(dict.fromkeys(w for row in (*split_documents, *asked) for w in row))
    }
    vectors = np.stack(
        [
            np.sqrt(rarities(with_gram, ngrams(word), documents))
            @ np.stack([random_vector(gram) for gram in ngrams(word)])
            for word in numbers
        ]
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    counts = np.array([len(row) for row in split_documents])
    lengths = np.repeat((counts / counts.mean()) ** -LENGTHS["length_penalty"], counts)
    tokens = vectors[[numbers[word] for row in split_documents for word in row]]
    corpus = CorpusTokens(
        own.documents, (tokens * lengths[:, None]).astype(np.float32), np.cumsum([0, *counts])
    )
    queries = [
        EncodedQuery(
            vectors[[numbers[word] for word in row]].astype(np.float32),
            weights=rarities(with_word, row, documents).astype(np.float32),
        )
        for row in asked
    ]
    return corpus, queries


def rarities(containing: Counter[str], terms: Sequence[str], documents: int) -> np.ndarray:
    """The IDF of each term, `[terms]`."""
    return idf_weights(np.array([containing[term] for term in terms]), documents)


def ngrams(word: str) -> list[str]:
    """The n-grams of a word with a space at both ends."""
    padded = f" {word} "
    return [padded[at : at + size] for size in SIZES for at in range(max(len(padded) - size, 0) + 1)]


@functools.cache
def random_vector(gram: str) -> np.ndarray:
    """`[DIM]`, always the same for an n-gram."""
    return np.random.default_rng(zlib.crc32(gram.encode())).standard_normal(DIM)


def gain(found: np.ndarray, answers: Sequence[Sequence[int]]) -> float:
    """The mean of `1 / log2(rank + 1)` in percent for the best answer among the first ten."""
    gains = []
    for row, own in zip(found, answers, strict=True):
        best = row[list(own)].max()
        rank = int((row > best).sum()) + 1
        gains.append(1 / np.log2(rank + 1) if np.isfinite(best) and rank <= DEPTH else 0.0)
    return 100 * float(np.mean(gains))


if __name__ == "__main__":
    main()
