"""From directories to a retriever: loads encoder, token vectors and index, which must belong together."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xtr_tf.collections.document import DocumentRecord
from xtr_tf.config.retrieval import STORE_TEXT, SearchDefaults
from xtr_tf.errors import InputError, require
from xtr_tf.index.folder import TokenIndex, stored_config
from xtr_tf.index.frequencies import PieceFrequencies
from xtr_tf.index.quantizer import TRAINED
from xtr_tf.index.searchers.opening import searcher_from_index
from xtr_tf.index.term_postings import TermPostings
from xtr_tf.index.update import check_lengths
from xtr_tf.model.encoder import Encoder
from xtr_tf.model.folder import Manifest, load_encoder, read_background, read_manifest
from xtr_tf.model.tokenizer import Tokenizer
from xtr_tf.retriever.lexical_part import LexicalPart
from xtr_tf.retriever.model_card import ModelCard
from xtr_tf.retriever.partitions import Partition, whole
from xtr_tf.retriever.piece_weights import PieceWeights
from xtr_tf.retriever.retriever import Identity, Retriever
from xtr_tf.retriever.snippets import needed_part
from xtr_tf.retriever.tables import DocumentTable, TokenTable
from xtr_tf.vectors.folders import Folder
from xtr_tf.vectors.store import TokenVectors


@dataclasses.dataclass(frozen=True)
class Assembly:
    """A retriever and its model card.

    Attributes:
        retriever: The retriever.
        card: The model card, which describes its parts.
    """

    retriever: Retriever
    card: ModelCard


def assemble_retriever(
    encoder_directory: str | Path,
    vectors_directory: str | Path | Folder,
    index_directory: str | Path | Folder,
    defaults: SearchDefaults | None = None,
    store_text: str = "full",
    keep_spans: bool = True,
    metrics: Mapping[str, float] | None = None,
) -> Assembly:
    """Loads the parts of a retriever.

    Args:
        encoder_directory: Directory of the encoder, for queries.
        vectors_directory: Token vectors of the corpus, with its documents, pieces and spans.
        index_directory: The index of these vectors.
        defaults: Default parameters of requests.
        store_text: Which texts the model returns: `none`, a `snippet` of up to 300 characters where the query
            matched, or `full`. For snippets, it stores texts up to their last token in the index, or only
            their beginnings without spans.
        keep_spans: Whether to store the pieces and spans of tokens for explanations, 12 bytes per token.
        metrics: Measured quality, for the card.

    Returns:
        The retriever, and a model card that describes its parts.

    Raises:
        InputError: If the parts do not belong together.

    Example:
        >>> assembly = assemble_retriever("models/mxtr_tiny", "out/work/vectors", "out/work/index")
        >>> export_retriever(assembly.retriever, "out/models", assembly.card)
    """
    manifest = read_manifest(Path(encoder_directory))
    corpus = TokenVectors.open(vectors_directory)
    index = TokenIndex.open(index_directory)
    check_origin(manifest.fingerprint, corpus, index)
    loaded = load_encoder(encoder_directory)
    return assemble(manifest, *loaded, corpus, index, defaults, store_text, keep_spans, metrics)


def assemble(
    manifest: Manifest,
    encoder: Encoder,
    tokenizer: Tokenizer,
    corpus: TokenVectors,
    index: TokenIndex,
    defaults: SearchDefaults | None = None,
    store_text: str = "full",
    keep_spans: bool = True,
    metrics: Mapping[str, float] | None = None,
    partition: Partition | None = None,
) -> Assembly:
    """Assembles a retriever from loaded parts. See `assemble_retriever`.

    Args:
        manifest: Manifest of the encoder's directory.
        encoder: The encoder in that directory.
        tokenizer: Its tokenizer.
        corpus: Token vectors of the corpus.
        index: The index of these vectors.
        defaults: As for `assemble_retriever`.
        store_text: As for `assemble_retriever`.
        keep_spans: As for `assemble_retriever`.
        metrics: As for `assemble_retriever`.
        partition: The documents and tokens to use. If None, all of them, which one model must be able to
            hold.

    Returns:
        The retriever, and a model card that describes its parts.

    Raises:
        InputError: If the parts do not belong together, if `store_text` is unknown, or if one model cannot
            hold all documents.
    """
    check_origin(manifest.fingerprint, corpus, index)
    require(store_text in STORE_TEXT, f"`store_text` must be one of {', '.join(STORE_TEXT)}.", store_text)
    part = partition or whole(index.document_offsets)
    records = list(corpus.documents(part.first_document, part.last_document))
    if store_text == "none":
        records = [dataclasses.replace(record, text=None) for record in records]
    elif store_text == "snippet":
        limits = _last_limits(corpus, part) if keep_spans else np.zeros(len(records), int)
        records = list(map(_for_snippets, records, limits.tolist()))
    table = DocumentTable(records, corpus.manifest.fields, store_text == "snippet")
    defaults = defaults or SearchDefaults()
    retriever = Retriever(
        encoder,
        tokenizer,
        searcher_from_index(index, part.tokens if partition else None),
        part.document_of_token,
        table,
        _token_table(corpus, part) if keep_spans else None,
        defaults,
        _piece_weights(
            *(index, Path(manifest.tokenizer.model).parent, tokenizer.vocabulary_size),
            _own_frequencies(corpus, part) if partition else None,
        ),
        identity := _identity(manifest.fingerprint, index, records),
        _lexical_part(index, partition),
        corpus.token_lengths,
    )
    card = ModelCard(
        encoder={"fingerprint": manifest.fingerprint, **dataclasses.asdict(manifest.encoder)},
        tokenizer={"fingerprint": tokenizer.fingerprint, **_without_path(manifest.tokenizer)},
        corpus={
            **_describe_corpus(records, part.num_tokens),
            "fields": dict(corpus.manifest.fields),
            "text": store_text,
            **corpus.token_lengths._asdict(),
            "field_bytes_per_document": round(table.field_bytes / len(records), 1),
        },
        index={
            "num_tokens": part.num_tokens,
            "bytes": round(index.num_bytes * part.num_tokens / index.num_tokens),
            **stored_config(index.config),
            "quantizer": identity.quantizer,
        },
        defaults=dataclasses.asdict(defaults),
        metrics=dict(metrics or {}),
    )
    return Assembly(retriever, card)


def _for_snippets(record: DocumentRecord, limit: int) -> DocumentRecord:
    if record.text is None:
        return record
    return dataclasses.replace(record, text=needed_part(record.text, record.title, limit))


def _last_limits(corpus: TokenVectors, part: Partition) -> np.ndarray:
    """Returns `[documents]`, the end of the last token of each; 0 for documents without tokens."""
    limits = corpus.of_tokens("spans", part.tokens.start, part.tokens.stop)[:, 1]
    starts = part.document_offsets - part.tokens.start
    has_tokens = np.diff(starts) > 0
    last = np.zeros(len(has_tokens), int)
    last[has_tokens] = np.maximum.reduceat(limits, starts[:-1][has_tokens])
    return last


def _token_table(corpus: TokenVectors, part: Partition) -> TokenTable:
    bounds = part.tokens.start, part.tokens.stop
    return TokenTable(corpus.of_tokens("pieces", *bounds), corpus.of_tokens("spans", *bounds))


def _own_frequencies(corpus: TokenVectors, part: Partition) -> PieceFrequencies:
    pieces = corpus.of_tokens("pieces", part.tokens.start, part.tokens.stop)
    return PieceFrequencies.of(pieces, part.document_offsets - part.tokens.start)


def _identity(encoder: str, index: TokenIndex, records: Sequence[DocumentRecord]) -> Identity:
    """Returns fingerprints of the trained parts, and of the documents with their tokens."""
    files = {name: digest for name, (_, digest) in index.manifest.files.items()}
    trained = {name: files.get(f"{name}.npy") for name in TRAINED}
    documents = [(record.id, record.content_hash) for record in records]
    quantizer, content = (
        hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        for parts in ([index.config.kind, trained], [encoder, files, documents])
    )
    return Identity(encoder, quantizer, content)


def _piece_weights(
    index: TokenIndex,
    encoder_directory: str | Path,
    vocabulary_size: int,
    own: PieceFrequencies | None = None,
) -> PieceWeights | None:
    frequencies = PieceFrequencies.read(index)
    if frequencies is None:
        return None
    background = read_background(encoder_directory, vocabulary_size)
    return PieceWeights(
        frequencies.of_vocabulary(vocabulary_size),
        index.num_documents,
        background,
        own.of_vocabulary(vocabulary_size) if own else None,
    )


def _lexical_part(index: TokenIndex, partition: Partition | None) -> LexicalPart | None:
    postings = TermPostings.read(index)
    if postings is None:
        return None
    if partition is not None:
        postings = postings.part(partition.first_document, partition.last_document)
    return LexicalPart(postings, index.config.lexical)


def check_origin(fingerprint: str, corpus: TokenVectors, index: TokenIndex) -> None:
    """Checks that token vectors and index come from the same encoder.

    Args:
        fingerprint: Fingerprint of the encoder.
        corpus: The token vectors.
        index: Their index.

    Raises:
        InputError: If they come from another encoder, or if the index was built from other vectors.
    """
    made_by = {
        "encoder": fingerprint,
        "token vectors": corpus.encoder_fingerprint,
        "index": index.encoder_fingerprint,
    }
    if len(set(made_by.values())) > 1:
        short = {part: made[:12] for part, made in made_by.items()}
        raise InputError(
            "Token vectors and index must come from this encoder; encode and index again. "
            f"Received: encoder fingerprints {short}."
        )
    check_lengths(index, corpus)
    if not np.array_equal(corpus.document_offsets, index.document_offsets):
        raise InputError(
            "The index was made from other token vectors; index these again. "
            f"Received: vectors of {corpus.num_tokens} tokens, an index of {index.num_tokens}."
        )


def _describe_corpus(records: Sequence[DocumentRecord], num_tokens: int) -> dict[str, Any]:
    """Returns size, languages, and a hash that is equal only for the same documents in the same order."""
    digest = hashlib.sha256()
    languages: dict[str, int] = {}
    for record in records:
        digest.update(f"{record.id}\0{record.content_hash}\n".encode())
        languages[record.language] = languages.get(record.language, 0) + 1
    return {
        "sha256": digest.hexdigest(),
        "documents": len(records),
        "tokens": num_tokens,
        "languages": dict(sorted(languages.items())),
    }


def _without_path(tokenizer: Any) -> dict[str, Any]:
    settings = dataclasses.asdict(tokenizer)
    del settings["model"]
    return settings
