"""`model_card.json`: what a version was made of, for people and for tools that compare versions."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib.metadata
import json
from collections.abc import Mapping
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
