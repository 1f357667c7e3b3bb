"""Token analyses of one model in the pool, computed once and kept as JSON.

Files are named by the model's fingerprint and the pool's key, so a stopped measurement continues with what
is missing. The pool is encoded into one array: ten million tokens of 128 float32 are 5.1 GB, and the
similarities of one query are up to 1.3 GB more. Knows nothing about claims.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pool import Pool

from xtr_tf.config.model import Dtype
from xtr_tf.evaluation.encoded import CorpusTokens
from xtr_tf.evaluation.encoder_model import LoadedEncoder
from xtr_tf.evaluation.exact import ExactRetriever
from xtr_tf.evaluation.token_analysis import TokenAnalysis, analyse_tokens
from xtr_tf.files import write_atomically
from xtr_tf.model.folder import load_encoder, read_manifest

#: The paper's k' divided by the tokens of MS MARCO: 8.8 million passages of 55 tokens, as in the paper.
PAPERS_SHARE = 40_000 / (8_800_000 * 55)
# Documents that are encoded before their vectors are copied into the array of all.
_ENCODED = 1_024


def analyses_of(
    encoder: Path, pool: Pool, names: Sequence[str], folder: Path, dtype: Dtype = "float32"
) -> dict[str, TokenAnalysis]:
    """Analyses a model at the paper's share of the pool's tokens, or reads what was analysed before.

    Args:
        encoder: Folder of the encoder.
        pool: The pool.
        names: The measured sets to analyse.
        folder: Folder of the stored analyses.
        dtype: The dtype policy to encode with.

    Returns:
        The analyses by set.
    """
    own = folder / f"{read_manifest(encoder).fingerprint[:16]}-{pool.key[:16]}-{dtype}"
    paths = {name: own / f"{name}.json" for name in names}
    missing = {name: path for name, path in paths.items() if not path.exists()}
    if missing:
        own.mkdir(parents=True, exist_ok=True)
        model = LoadedEncoder(*load_encoder(encoder, dtype))
        retriever = ExactRetriever(encode_pool(model, pool))
        for name, path in missing.items():
            dataset = pool.datasets[name]
            queries = model.encode_queries([query.text for query in dataset.queries])
            k_prime = max(1, round(PAPERS_SHARE * pool.tokens))
            write_analysis(path, analyse_tokens(retriever, dataset, queries, k_prime))
            print(f"{encoder.parent.name}: {name}", flush=True)
    return {name: read_analysis(path) for name, path in paths.items()}


def encode_pool(model: LoadedEncoder, pool: Pool) -> CorpusTokens:
    """Encodes the pool, with hardly more memory than its vectors take."""
    vectors = np.empty(0, np.float32)
    lengths: list[np.ndarray] = []
    pieces: list[np.ndarray] = []
    end = 0
    for start in range(0, len(pool.documents), _ENCODED):
        part = model.encode_documents(pool.documents[start : start + _ENCODED], "pool")
        assert part.pieces is not None
        if not start:
            vectors = np.empty((pool.tokens, part.vectors.shape[1]), np.float32)
        vectors[end : end + part.num_tokens] = part.vectors
        end += part.num_tokens
        lengths.append(np.diff(part.offsets))
        pieces.append(part.pieces)
    offsets = np.cumsum(np.concatenate([[0], *lengths]))
    return CorpusTokens(pool.documents, vectors, offsets, np.concatenate(pieces))


def write_analysis(path: Path, analysis: TokenAnalysis) -> None:
    """Writes an analysis as JSON."""
    write_atomically(path, json.dumps(dataclasses.asdict(analysis)).encode())


def read_analysis(path: Path) -> TokenAnalysis:
    """The inverse of `write_analysis`."""
    content = json.loads(path.read_text(encoding="utf-8"))
    by_k_prime = {int(k_prime): metrics for k_prime, metrics in content["k_prime_metrics"].items()}
    return TokenAnalysis(**{**content, "k_prime_metrics": by_k_prime})
