"""`model_card.json`: what a version was made of, for people and for tools that compare versions."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import importlib.metadata
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xtr_tf.version import __version__

MODEL_CARD_FILE = "model_card.json"
_PACKAGES = ("tensorflow", "tensorflow-text", "keras", "scann", "numpy")


@dataclasses.dataclass(frozen=True)
class ModelCard:
    """What is known of a version.

    Attributes:
        encoder: Its configuration and fingerprint.
        tokenizer: Its settings and fingerprint.
        corpus: Size, languages and hash of what is indexed.
        index: Kind and parameters of the searcher.
        defaults: Parameters of requests that name none.
        metrics: Measured quality, if known.
        warm_up: Whether there are warm-up requests.
        memory: What a process grows by when it loads the version, measured by the gate: `peak_bytes` while
            it is loaded, `resident_bytes` after it has answered.
        versions: Of the packages that made it.
        created: When, as ISO 8601 in UTC.
    """

    encoder: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    corpus: Mapping[str, Any]
    index: Mapping[str, Any]
    defaults: Mapping[str, Any]
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    warm_up: bool = False
    memory: Mapping[str, int] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=lambda: installed_versions())
    created: str = dataclasses.field(default_factory=lambda: _now())

    def write(self, directory: Path) -> None:
        """Writes the card into a version's directory."""
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        (directory / MODEL_CARD_FILE).write_text(f"{text}\n", encoding="utf-8")


def read_card(directory: Path) -> ModelCard:
    """Reads the card of a version."""
    return ModelCard(**json.loads((directory / MODEL_CARD_FILE).read_bytes()))


def card_of_collection(cards: Sequence[ModelCard]) -> ModelCard:
    """The card of partitions that answer together.

    Args:
        cards: Of the partitions, in their order.

    Returns:
        What is the same in all of them, with sizes added up; the memory is that of the largest.
    """
    first = cards[0]
    corpora = [card.corpus for card in cards]
    languages: Counter[str] = Counter()
    for corpus in corpora:
        languages.update(corpus["languages"])
    hashes = "".join(corpus["sha256"] for corpus in corpora)
    return dataclasses.replace(
        first,
        corpus={
            **first.corpus,
            "sha256": hashlib.sha256(hashes.encode()).hexdigest(),
            "documents": sum(corpus["documents"] for corpus in corpora),
            "tokens": sum(corpus["tokens"] for corpus in corpora),
            "languages": dict(sorted(languages.items())),
        },
        index={
            **first.index,
            "num_tokens": sum(card.index["num_tokens"] for card in cards),
            "bytes": sum(card.index["bytes"] for card in cards),
            "partitions": len(cards),
        },
        memory={name: max(card.memory[name] for card in cards) for name in first.memory},
    )


def installed_versions() -> dict[str, str]:
    """Returns the versions of xtr-tf and of the packages that a model depends on."""
    versions = {"xtr-tf": __version__}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _now() -> str:
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
