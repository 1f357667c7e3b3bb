"""A whole refresh: encodes new documents, then writes the next version of the vectors and of the index.

Knows the order of the steps, and cleans up after a failed one. The steps are in `vectors.update` and
`index.update`.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

import numpy as np

from xtr_tf.collections.corpus import Corpus, CorpusReader
from xtr_tf.collections.document import UNKNOWN_LANGUAGE
from xtr_tf.config.retrieval import EncodingConfig
from xtr_tf.errors import InputError
from xtr_tf.index.folder import TokenIndex
from xtr_tf.index.one_pass import OnePass
from xtr_tf.index.quantizer import trained_quantizer
from xtr_tf.index.update import TrainingState, advice, check_belongs, check_encoder, drift, update_index
from xtr_tf.model.folder import read_manifest
from xtr_tf.vectors.encode import SHARD_CHARACTERS, encode_corpus
from xtr_tf.vectors.manifest import MANIFEST_FILE
from xtr_tf.vectors.runners import Runner, run_locally
from xtr_tf.vectors.store import TokenVectors
from xtr_tf.vectors.update import ChangedDocuments, DocumentChanges, compare_documents, update_vectors


@dataclasses.dataclass(frozen=True)
class RefreshReport:
    """The result of a refresh.

    Attributes:
        changes: Which documents changed.
        index: The new version of the index.
        vectors: Its token vectors.
        tokens_before: Number of tokens in the last version.
        tokens_added: Number of tokens that were assigned and coded in this refresh.
        documents_encoded: Number of documents that were encoded in this refresh.
        drift: How much farther new tokens are from the centres of their leaves; 1 if this cannot be measured.
        advice: Why leaves and codebooks should be trained again, or "".
        seconds: Time of the refresh.
    """

    changes: DocumentChanges
    index: TokenIndex
    vectors: TokenVectors
    tokens_before: int
    tokens_added: int
    documents_encoded: int
    drift: float
    advice: str
    seconds: float


def refresh_index(
    index: str | Path,
    vectors: str | Path,
    out: str | Path,
    vectors_out: str | Path,
    *,
    add: str | Path | Corpus | None = None,
    delete: Collection[str] = (),
    model: str | Path | None = None,
    language: str | None = None,
    runner: Runner = run_locally,
) -> RefreshReport:
    """Writes the next version of an index.

    Args:
        index: The last version.
        vectors: The token vectors that it was built from.
        out: Directory of the new index.
        vectors_out: Directory of its token vectors.
        add: New and changed documents: the path of a corpus, documents, or a directory of token vectors.
        delete: Ids of documents to delete.
        model: The encoder, if a corpus must be encoded.
        language: Language of documents in the corpus that name none; the language of the last version if
            None.
        runner: The runner that encodes the corpus.

    Returns:
        What changed, and whether new leaves should be trained.

    Raises:
        InputError: If an argument cannot be used. Nothing is left behind.

    Example:
        >>> refresh_index("index", "vectors", "index-2", "vectors-2", add="new.jsonl", model="encoders/mine")
    """
    started = time.monotonic()
    last, base = TokenIndex.open(index), TokenVectors.open(vectors)
    check_belongs(last, base, np.ones(last.num_documents, bool))
    for path in (Path(out), Path(vectors_out)):
        if path.exists():
            raise InputError(
                f"A refresh makes a new directory; choose another name. Received: {str(path)!r}."
            )
    if add is None and not delete:
        raise InputError(
            f"A refresh needs documents to add or ids to delete. Received: add {add!r}, delete {delete!r}."
        )
    Path(vectors_out).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=Path(vectors_out).parent, prefix=".refresh-") as work:
        added, encoded = _added(base, last, add, delete, model, language, Path(work) / "added", runner)
        changes = compare_documents(base, added, delete)
        new_vectors = update_vectors(base, added, changes, vectors_out)
    try:
        new_index = update_index(last, new_vectors, changes.kept, out)
    except BaseException:
        shutil.rmtree(vectors_out)
        raise
    stay = int(new_vectors.document_offsets[changes.kept.sum()])
    quantizer = trained_quantizer(last)
    ratio = drift(quantizer, new_vectors, stay) if quantizer else 1.0
    return RefreshReport(
        changes=changes,
        index=new_index,
        vectors=new_vectors,
        tokens_before=base.num_tokens,
        tokens_added=new_vectors.num_tokens - stay,
        documents_encoded=encoded,
        drift=ratio,
        advice=advice(TrainingState.read(new_index), new_index.num_tokens, ratio) if quantizer else "",
        seconds=time.monotonic() - started,
    )


def _added(
    base: TokenVectors,
    last: TokenIndex,
    add: str | Path | Corpus | None,
    delete: Collection[str],
    model: str | Path | None,
    language: str | None,
    work: Path,
    runner: Runner,
) -> tuple[TokenVectors | None, int]:
    """Returns the vectors of documents to add, and how many of the documents were encoded."""
    if add is None:
        return None, 0
    if isinstance(add, str | Path) and (Path(add) / MANIFEST_FILE).is_file():
        return TokenVectors.open(add), 0
    if model is None:
        raise InputError(
            "A corpus to add must be encoded: name the index's encoder, or add token vectors. "
            f"Received: {add!s:.60} without a model."
        )
    check_encoder(base.encoder_fingerprint, read_manifest(Path(model)).fingerprint)
    language = language or base.manifest.language
    if not base.has_vectors:
        fields = base.manifest.fields
        corpus = CorpusReader(add, language, fields=fields) if isinstance(add, str | Path) else add
        changed = ChangedDocuments(corpus, base, delete)
        return encode_changes(changed, base, last, model, work, runner, language)
    report = encode_corpus(
        *(add, model, work, _config_of(base)), language=language, reuse=base.files, runner=runner
    )
    return TokenVectors.open(work), report.counters["documents_encoded"]


def encode_changes(
    changed: ChangedDocuments,
    base: TokenVectors,
    last: TokenIndex,
    model: str | Path,
    out: Path,
    runner: Runner,
    language: str = UNKNOWN_LANGUAGE,
    shard_characters: int = SHARD_CHARACTERS,
) -> tuple[TokenVectors | None, int]:
    """Encodes new and changed documents of a corpus without vectors, and codes them as the last index.

    Args:
        changed: The documents.
        base: The last version, without vectors.
        last: Its index.
        model: The encoder.
        out: The directory to write.
        runner: The runner.
        language: Language of documents that name none.
        shard_characters: Characters per shard.

    Returns:
        The documents, with parts of the index in place of vectors, and their number; None and 0 if there are
        none.
    """
    if next(iter(changed), None) is None:
        return None, 0
    one_pass = OnePass(runner, last.config, trained_quantizer(last))
    report = encode_corpus(
        *(changed, model, out, _config_of(base)),
        language=language,
        shard_characters=shard_characters,
        runner=one_pass,
        coding=one_pass.settings,
    )
    return TokenVectors.open(out), report.counters["documents_encoded"]


def _config_of(base: TokenVectors) -> EncodingConfig:
    """Returns the configuration that encodes new documents with the settings of the base."""
    keep_text = next(base.documents()).text is not None
    return EncodingConfig.from_vector_settings(base.manifest.settings, keep_text, base.manifest.fields)
