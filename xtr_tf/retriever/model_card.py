"""`model_card.json`: describes the parts of a version, for people and for tools that compare versions."""

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
    """The description of a version.

    Attributes:
        encoder: Configuration and fingerprint of the encoder.
        tokenizer: Settings and fingerprint of the tokenizer.
        corpus: Size, languages and hash of the indexed documents.
        index: Kind and parameters of the index.
        defaults: Default parameters of requests.
        metrics: Measured quality, if known.
        warm_up: Whether there are warm-up requests.
        memory: Growth of a process that loads the version, as measured by the gate: `peak_bytes` while it is
            loaded, `resident_bytes` after it has answered.
        versions: Versions of the packages that made it.
        created: Time of creation, as ISO 8601 in UTC.
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
        """Writes the card into the directory of a version.

        Args:
            directory: The directory of the version.
        """
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        (directory / MODEL_CARD_FILE).write_text(f"{text}\n", encoding="utf-8")


def read_card(directory: Path) -> ModelCard:
    """Reads the card of a version.

    Args:
        directory: The directory of the version.

    Returns:
        The card.
    """
    return ModelCard(**json.loads((directory / MODEL_CARD_FILE).read_bytes()))


def card_of_collection(cards: Sequence[ModelCard]) -> ModelCard:
    """Returns the card of partitions that are searched together.

    Args:
        cards: The cards of the partitions, in order.

    Returns:
        The values that all of them share, with the sums of sizes. The memory is that of the largest.
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
