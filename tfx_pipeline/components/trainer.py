"""The module file of Trainer: runs `xtr_tf.training` on the token ids that Transform wrote.

Checkpoints are in the pipeline's work area, under a key of data, settings and base model, so that a run that
was killed continues. The trained encoder becomes the `Model`. Curves, checkpoints and configuration become
the `ModelRun`.
"""

from __future__ import annotations

import dataclasses
import posixpath
import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfx_pipeline.artifacts import local_encoder
from tfx_pipeline.components.transform import tokenizer_config
from tfx_pipeline.storage import WorkArea, key_of, local_output
from xtr_tf.config.loading import from_mapping
from xtr_tf.config.model import TokenizerSettings
from xtr_tf.config.training import RunConfig, SourceConfig
from xtr_tf.errors import InputError
from xtr_tf.files import sha256_of
from xtr_tf.model.folder import TOKENIZER_FILE
from xtr_tf.training.cluster import cluster_place
from xtr_tf.training.run_folder import FREE_SETTINGS
from xtr_tf.training.train import train


def run_fn(fn_args: Any) -> None:
    """Trains an encoder. Called by TFX's Trainer.

    Args:
        fn_args: Arguments of Trainer. `custom_config` has `run` (the mapping of a `RunConfig`), `vocabulary`
            (the SentencePiece file), `vocabulary_hash`, `initial_encoder` (a directory or "") and `work` (the
            work area).

    Raises:
        InputError: The encoder that training starts from has another vocabulary than the examples.
    """
    settings = fn_args.custom_config
    base = posixpath.dirname(fn_args.base_model) if fn_args.base_model else settings["initial_encoder"]
    key = key_of(_what_is_trained(settings["run"]), settings["vocabulary_hash"], fn_args.train_files, base)
    place = cluster_place()
    reader = "" if place.is_chief else place.name
    with WorkArea(settings["work"]).unfinished("training", key, reader) as work:
        output = work / "run"
        # The dot excludes inputs, which are fetched again each time, from uploads to a remote work area. The
        # name separates the workers that share the area.
        inputs = work / f".inputs{place.name and '-'}{place.name}"
        config = _configure(settings, fn_args, base, inputs, output)

        def publish(encoder: Path) -> None:
            _publish(output, encoder, fn_args.serving_model_dir, fn_args.model_run_dir)

        # TFX looks for the model in every worker, and the chief removes files that they all read. So no
        # worker returns from training before the model is published.
        train(config, publish=publish)


def _what_is_trained(run: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a run without those that may change when it is continued."""
    training = {name: value for name, value in run["training"].items() if name not in FREE_SETTINGS}
    return {**run, "training": training}


def _configure(settings: dict[str, Any], fn_args: Any, base: str, inputs: Path, output: Path) -> RunConfig:
    """Returns the run's configuration, with inputs at paths that stay the same when it is continued.

    The checkpoint that is best on the split `eval` becomes the model. Its figures are in the `ModelRun`.
    """
    config = from_mapping(RunConfig, settings["run"])
    shutil.rmtree(inputs, ignore_errors=True)
    inputs.mkdir(parents=True)
    train_sets = _copy_sets(fn_args.train_files, inputs, "train")
    dev_sets = _copy_sets(fn_args.eval_files, inputs, "eval")
    vocabulary = inputs / TOKENIZER_FILE
    tf.io.gfile.copy(settings["vocabulary"], str(vocabulary))
    if base:
        with local_encoder(base) as encoder:
            _copy_base(encoder, inputs / "initial_encoder", vocabulary)
    tokenized = tokenizer_config({**settings, "tokenizer": settings["run"]["tokenizer"]})
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, train=train_sets, dev=dev_sets),
        tokenizer=TokenizerSettings(**dataclasses.asdict(tokenized) | {"model": str(vocabulary)}),
        training=dataclasses.replace(
            config.training,
            initial_encoder=str(inputs / "initial_encoder") if base else "",
            output=str(output),
        ),
    )


def _copy_base(encoder: Path, target: Path, vocabulary: Path) -> None:
    if sha256_of(encoder / TOKENIZER_FILE) != sha256_of(vocabulary):
        raise InputError(
            "Training starts from an encoder with another vocabulary than the examples were tokenized with; "
            f"set `run.tokenizer.model` to {encoder / TOKENIZER_FILE}. Received: {vocabulary}."
        )
    shutil.copytree(encoder, target)


def _copy_sets(patterns: list[str], inputs: Path, name: str) -> tuple[SourceConfig, ...]:
    """Copies tokenized sets to where they are read. Patterns that match no file are left out."""
    sets = []
    for number, pattern in enumerate(patterns):
        if files := tf.io.gfile.glob(pattern):
            folder = inputs / (f"{name}-{number}" if number else name)
            folder.mkdir()
            for file in files:
                tf.io.gfile.copy(file, str(folder / posixpath.basename(file)))
            sets.append(SourceConfig(str(folder / "*"), "tokenized"))
    return tuple(sets)


def _publish(output: Path, encoder: Path, model_uri: str, run_uri: str) -> None:
    with local_output(model_uri) as folder:
        shutil.copytree(encoder, folder, dirs_exist_ok=True)
    with local_output(run_uri) as folder:
        for path in output.iterdir():
            if path == encoder:
                continue
            if path.is_dir():
                shutil.copytree(path, folder / path.name, dirs_exist_ok=True)
            else:
                shutil.copy2(path, folder)
