"""`train`: fine-tunes a model on pairs of queries and documents.

`xtr-tf train` configures a run in a YAML file. Here a few keywords are enough.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from xtr_tf.api.model import Model, require_model
from xtr_tf.collections.document import UNKNOWN_LANGUAGE, Document
from xtr_tf.config.loading import to_mapping
from xtr_tf.config.training import DataConfig, LossConfig, RunConfig, SourceConfig, TrainingConfig
from xtr_tf.errors import InputError, needs_extra
from xtr_tf.files import cache_folder, write_atomically
from xtr_tf.training.data.examples import TrainingExample
from xtr_tf.training.run_folder import FREE_SETTINGS

#: A query, a document that answers it and, optionally, documents that do not.
Pair = tuple[str, str] | tuple[str, str, str | Sequence[str]] | Mapping[str, Any]

_PAIRS_FILE = "pairs.jsonl"


def train(
    model: Model,
    pairs: str | Path | Iterable[Pair],
    *,
    steps: int = 200,
    batch_size: int = 32,
    learning_rate: float = 1e-3,
    warmup_steps: int = 20,
    optimizer: Literal["adafactor", "adamw"] = "adafactor",
    score: Literal["xtr", "colbert"] = "xtr",
    k_train: int = 128,
    temperature: float = 1.0,
    hard_negatives: int | None = None,
    dev: str | Path | None = None,
    evaluate_every: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Model:
    """Fine-tunes a model. Needs `xtr-tf[train]`.

    If a run is interrupted, by Ctrl-C or because the process ended, call `train` again with the same
    arguments: it continues from the last checkpoint. A larger `steps` continues a finished run.

    Args:
        model: The model to start from. It is not changed.
        pairs: `(query, positive)` or `(query, positive, negatives)`, where negatives are one text or a list;
            mappings like the lines of `xtr-tf train`'s JSONL; or the path of a training set that
            `xtr-tf train` accepts.
        steps: Updates of the weights.
        batch_size: Queries per update, at most the number of pairs.
        learning_rate: Learning rate after the warm-up.
        warmup_steps: Steps over which the learning rate rises linearly from 0.
        optimizer: `adafactor` or `adamw`.
        score: `xtr` (in-batch token retrieval) or `colbert` (mean of MaxSim).
        k_train: Document tokens of the batch that each query token retrieves.
        temperature: Scores are divided by this before the softmax.
        hard_negatives: Hard negatives per query; by default 1 if any pair has one, else 0.
        dev: A folder with a corpus and judgements to evaluate on during training. The best checkpoint is
            returned.
        evaluate_every: Steps between evaluations on `dev`; a fifth of `steps` by default.
        seed: Seed of the data order and of dropout.
        out: Folder of the run; by default one in the cache, chosen by model, pairs and settings.
        progress: Whether to show progress.

    Returns:
        The trained model. Its directory is in the folder of the run; `Model.save` copies it elsewhere.

    Raises:
        InputError: A pair cannot be used, or `out` holds another run.
        TrainingInterruptedError: Training was interrupted. A checkpoint was written.

    Example:
        >>> pairs = [("How deep is Baikal?", "Baikal is 1,642 m deep."), ("Who painted it?", "Vermeer did.")]
        >>> better = xtr_tf.train(model, pairs, steps=2)
        >>> better.save("encoders/mine")
        PosixPath('encoders/mine')
    """
    require_model(model)
    with needs_extra("Training", "train"):
        from xtr_tf.training.train import train as run
    records = None if isinstance(pairs, str | Path) else _records(pairs)
    if records is not None:
        batch_size = min(batch_size, len(records))
        if hard_negatives is None:
            hard_negatives = int(any(record["negatives"] for record in records))
    content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records or ()).encode()
    config = RunConfig(
        encoder=model.manifest.encoder,
        loss=LossConfig(score=score, k_train=k_train, temperature=temperature),
        data=DataConfig(
            train=() if records is not None else (SourceConfig(path=str(Path(str(pairs)).resolve())),),
            dev=(SourceConfig(path=str(Path(dev).resolve()), split="dev"),) if dev else (),
            hard_negatives=hard_negatives or 0,
            max_bad_records=0,
        ),
        training=TrainingConfig(
            seed=seed,
            steps=steps,
            batch_size=batch_size,
            optimizer=optimizer,
            learning_rate=learning_rate,
            warmup_steps=warmup_steps,
            checkpoint_every=max(steps // 10, 1),
            evaluate_every=evaluate_every or max(steps // 5, 1),
            log_every=max(steps // 20, 1),
        ),
    )
    folder = Path(out) if out else _folder(model, config, content)
    if records is not None:
        source = _write_pairs(folder, content)
        config = dataclasses.replace(config, data=dataclasses.replace(config.data, train=(source,)))
    start = dataclasses.replace(
        config.training, output=str(folder), initial_encoder=str(model.directory.resolve())
    )
    trained = run(dataclasses.replace(config, training=start), quiet=not progress)
    return Model(trained, name=f"{model.name}, trained")


def _records(pairs: Iterable[Pair]) -> list[dict[str, Any]]:
    """Checks the pairs and converts them to records of training data."""
    records = []
    for position, pair in enumerate(pairs):
        record = dict(pair) if isinstance(pair, Mapping) else _record(pair)
        try:
            example = TrainingExample.from_json(record, UNKNOWN_LANGUAGE)
        except ValueError as error:
            raise InputError(
                f"A pair cannot be used ({error}); give (query, positive) or (query, positive, negatives). "
                f"Received: {pair!r:.80} at position {position}."
            ) from None
        records.append(
            {
                "query": example.query,
                "positives": [_fields(document) for document in example.positives],
                "negatives": [_fields(document) for document in example.negatives],
                "language": example.language,
            }
        )
    if not records:
        raise InputError("Training needs at least one pair of a query and a document. Received: 0 pairs.")
    return records


def _record(pair: Any) -> dict[str, Any]:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or not 2 <= len(pair) <= 3:
        return {"query": ""}
    negatives = pair[2] if len(pair) == 3 else []
    listed = [negatives] if isinstance(negatives, str) else list(negatives or ())
    return {"query": pair[0], "positives": [pair[1]], "negatives": listed}


def _fields(document: Document) -> dict[str, str]:
    fields = {"id": document.id, "title": document.title, "text": document.text}
    return {name: value for name, value in fields.items() if value}


def _folder(model: Model, config: RunConfig, content: bytes) -> Path:
    """Returns the folder of a run in the cache: one per model, pairs and settings, but not per length."""
    settings = to_mapping(config)
    for name in FREE_SETTINGS:
        del settings["training"][name]
    key = json.dumps([model.manifest.fingerprint, settings], sort_keys=True).encode() + content
    return cache_folder("training") / hashlib.sha256(key).hexdigest()[:16]


def _write_pairs(folder: Path, content: bytes) -> SourceConfig:
    """Writes the pairs into the folder of the run; refuses a folder with other pairs."""
    file = folder / _PAIRS_FILE
    if file.is_file() and file.read_bytes() != content:
        raise InputError(
            f"The folder holds a run with other pairs; choose another folder, or remove this one. "
            f"Received: {str(folder)!r}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, content)
    return SourceConfig(path=str(file.resolve()), format="jsonl")
