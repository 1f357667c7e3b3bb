"""Detects runs that would repeat the last one. They are skipped.

Compares hashes of contents: data files, schemas, vocabulary, encoder, settings and code. Remote files are not
read, so a pipeline with remote inputs always runs. Does not import TFX.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from tfx_pipeline.code_version import COMPONENTS, code_of
from tfx_pipeline.config import PipelineConfig, absolute, is_remote
from tfx_pipeline.content import content_hash
from tfx_pipeline.data.sources import fingerprint, source_files
from tfx_pipeline.lineage import Lineage
from tfx_pipeline.withdrawal import newest_present, pushed_versions
from xtr_tf.config.loading import to_mapping
from xtr_tf.files import write_atomically
from xtr_tf.model.folder import MANIFEST_FILE
from xtr_tf.retriever.collection_file import COLLECTION_FILE

_FILE = "last_run.json"
_TRAINS = ("TrainingGen", "Transform", "Trainer")

Dag = Literal["full", "refresh"]


@dataclasses.dataclass(frozen=True)
class LastRun:
    """Inputs and result of the last run that finished.

    Attributes:
        content: Key of everything that a refresh depends on.
        full: Key of everything that a full run depends on. Empty after a refresh.
        version: Number of the version that was pushed or has the same content, or 0.
        blessed_model: Id of the latest blessed model after the run, or 0.
        report: The evaluation's page.
        reasons: Reasons of the blessing.
        ended: Time when the run ended, as ISO 8601.
    """

    content: str
    full: str
    version: int
    blessed_model: int
    report: str
    reasons: tuple[str, ...]
    ended: str = dataclasses.field(
        default_factory=lambda: dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
    )

    def write(self, root: Path) -> None:
        """Writes the record into the pipeline's root."""
        write_atomically(root / _FILE, json.dumps(dataclasses.asdict(self), indent=1).encode())

    @classmethod
    def read(cls, root: Path) -> LastRun | None:
        """Reads the last run of a root. Returns None if there is none, or if it cannot be read."""
        try:
            fields = json.loads((root / _FILE).read_text(encoding="utf-8"))
            return cls(**fields | {"reasons": tuple(fields["reasons"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None


@dataclasses.dataclass(frozen=True)
class Unchanged:
    """The reason why nothing has to run.

    Attributes:
        sentence: Explanation for the user.
        pushed: Directory of the version in production if it is what the run would make, or "".
        report: Report of the run that made it.
        refused: Whether the last run pushed nothing because its model was not blessed.
    """

    sentence: str
    pushed: str
    report: str
    refused: bool = False


def find_unchanged(config: PipelineConfig, dag: Dag, database: Path) -> Unchanged | None:
    """Compares the inputs of a run with those of the last one.

    Args:
        config: The configuration.
        dag: `full` or `refresh`.
        database: File of the metadata store.

    Returns:
        Why nothing has to run, or None if the pipeline has to run.
    """
    last = LastRun.read(Path(absolute(config.root)))
    if last is None or not database.is_file():
        return None
    lineage = Lineage(database)
    mine = last.full if dag == "full" else last.content
    if not mine or mine != run_key(config, dag, lineage):
        return None
    return _unchanged(config, lineage, last)


def _unchanged(config: PipelineConfig, lineage: Lineage, last: LastRun) -> Unchanged | None:
    when = last.ended.replace("T", " ")[:16]
    folder = Path(config.serving_folder)
    newest = newest_present(folder)
    if last.version and last.version == newest and _is_whole(folder / str(newest)):
        sentence = f"Nothing changed since version {newest} was made ({when} UTC); nothing was run."
        return Unchanged(sentence, str(folder / str(newest)), last.report)
    if last.version:
        for version in pushed_versions(lineage):
            if version.number == last.version and version.withdrawn:
                held = f"version {newest} stays in production" if newest else "nothing is in production"
                because = version.withdrawn.rstrip(".")
                sentence = (
                    f"Nothing changed since version {version.number} was made, which was withdrawn "
                    f"({because}); {held}, and nothing was run."
                )
                return Unchanged(sentence, "", last.report)
        return None
    if last.blessed_model == _latest_blessed_id(lineage):
        sentence = f"Nothing changed since the last run ({when} UTC), which pushed nothing; nothing was run."
        return Unchanged(" ".join((sentence, *last.reasons)), "", last.report, refused=True)
    return None


def _is_whole(version: Path) -> bool:
    return any((version / name).is_file() for name in ("saved_model.pb", COLLECTION_FILE))


def remember(config: PipelineConfig, dag: Dag, database: Path, version: int, outcome: Any) -> None:
    """Records the inputs and the result of a run that finished.

    Args:
        config: The configuration.
        dag: `full` or `refresh`.
        database: File of the metadata store.
        version: Number of the version that the run pushed or found in production, or 0.
        outcome: Result of the run, with its report and reasons.
    """
    lineage = Lineage(database)
    content = run_key(config, "refresh", lineage)
    full = run_key(config, "full", lineage) if dag == "full" else ""
    blessed = _latest_blessed_id(lineage)
    run = LastRun(content, full, version, blessed, outcome.report, tuple(outcome.reasons))
    run.write(Path(absolute(config.root)))


def run_key(config: PipelineConfig, dag: Dag, lineage: Lineage) -> str:
    """Hashes everything that a run depends on.

    Args:
        config: The configuration.
        dag: `full` or `refresh`.
        lineage: The metadata store.

    Returns:
        The hash in hexadecimal, or "" if an input is remote.
    """
    folders = (config.training_data.folder, config.corpus.folder)
    if any(map(is_remote, (*folders, config.vocabulary, config.run.training.initial_encoder))):
        return ""
    settings = to_mapping(config)
    for name in ("vertex", "beam_args", "root", "name", "push_directory"):
        del settings[name]
    judged, documents = config.training_data, config.corpus
    patterns = [judged.eval]
    components = set(COMPONENTS)
    depends: dict[str, Any] = {"dag": dag}
    if dag == "full":
        patterns.append(judged.train)
        initial = config.run.training.initial_encoder
        depends["vocabulary"] = content_hash(config.vocabulary)
        depends["initial"] = content_hash(f"{absolute(initial)}/{MANIFEST_FILE}") if initial else ""
        depends["warm_start"] = _encoder_of(lineage) if config.warm_start == "latest" else ""
    else:
        components -= set(_TRAINS)
        for name in ("run", "warm_start"):
            del settings[name]
        del settings["training_data"]["train"]
        depends["encoder"] = _encoder_of(lineage)
    depends |= {
        "settings": settings,
        "judged": fingerprint(source_files(absolute(judged.folder), patterns)),
        "documents": fingerprint(source_files(absolute(documents.folder), [documents.files])),
        "schemas": [
            content_hash(f"{config.schema_folder(kind)}/schema.pbtxt") for kind in ("training", "corpus")
        ],
        "code": {component: code_of(component) for component in sorted(components)},
    }
    return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()


def _encoder_of(lineage: Lineage) -> str:
    blessed = lineage.latest_blessed_model()
    return str(blessed.properties.get("encoder_fingerprint", "")) if blessed else ""


def _latest_blessed_id(lineage: Lineage) -> int:
    blessed = lineage.latest_blessed_model()
    return blessed.id if blessed else 0
