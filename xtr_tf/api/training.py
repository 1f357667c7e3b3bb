"""`train`: pairs of queries and documents to a better model.

What a run is made of, `xtr-tf train` configures in a file; here it follows from a few keywords.
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

#: A query with a document that answers it and, if there are, documents that do not.
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

    A run that was interrupted, by Ctrl-C or a lost process, continues from its last checkpoint when `train`
    is called again with the same arguments; a larger `steps` continues a finished run.

    Args:
        model: The model to start from; it stays as it is.
        pairs: `(query, positive)` or `(query, positive, negatives)`, where negatives are one text or a list;
            mappings as a line of `xtr-tf train`'s JSONL; or the path of a set that `xtr-tf train` takes.
        steps: Updates of the weights.
        batch_size: Queries per update; not more than there are pairs.
        learning_rate: After the warm-up.
        warmup_steps: Steps over which the learning rate rises linearly from 0.
        optimizer: `adafactor`, or `adamw`.
        score: `xtr` (in-batch token retrieval) or `colbert` (mean of MaxSim).
        k_train: Document tokens of the batch that each query token retrieves.
        temperature: Divides scores before the softmax.
        hard_negatives: Negatives given with each query; 1 if any pair has one, unless given.
        dev: A folder with a corpus and judgements, searched during training; the best checkpoint is taken.
        evaluate_every: Steps between these searches; a fifth of `steps` if not given.
        seed: Of the order of the data and of dropout.
        out: Folder of the run; by default one in the cache that follows from model, pairs and settings.
        progress: Whether to show progress.

    Returns:
        The trained model, whose directory is in the folder of the run; `Model.save` keeps it elsewhere.

    Raises:
        InputError: A pair cannot be used, or `out` holds another run.
        TrainingInterruptedError: It was interrupted; a checkpoint was written.

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
    """The pairs as lines of training data, each of them checked."""
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
    """Where a run lies that is told apart by all but its length."""
    settings = to_mapping(config)
    for name in FREE_SETTINGS:
        del settings["training"][name]
    key = json.dumps([model.manifest.fingerprint, settings], sort_keys=True).encode() + content
    return cache_folder("training") / hashlib.sha256(key).hexdigest()[:16]


def _write_pairs(folder: Path, content: bytes) -> SourceConfig:
    """Keeps the pairs with the run; other pairs than a run began with are refused."""
    file = folder / _PAIRS_FILE
    if file.is_file() and file.read_bytes() != content:
        raise InputError(
            f"The folder holds a run with other pairs; choose another one, or remove it. "
            f"Received: {str(folder)!r}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, content)
    return SourceConfig(path=str(file.resolve()), format="jsonl")
