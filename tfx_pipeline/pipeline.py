"""The pipeline: from data to a blessed, pushed version of a retriever.

    judged queries                                       documents
    TrainingGen → Statistics → Validator ─┐    ┌─ Validator ← Statistics ← CorpusGen
                                          DataGate                             │
    Transform → Trainer ──────────────► CorpusEncoder ◄────────────────────────┘
                                             │ token vectors
                                        IndexBuilder
                                             │ token index
                                     RetrieverExporter          one SavedModel, or a collection of them
                                             │
         ServingValidator, RetrievalEvaluator (against LatestBlessedModel)
                                             │ both bless
                                           Pusher

`full` is the whole DAG. With `mining`, NegativeMiner adds hard negatives to the input of Transform. `refresh`
is for a changed corpus with an unchanged model: the latest blessed encoder replaces Transform and Trainer,
and the last index is updated.

This file does not know where the pipeline runs. See `runners/`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from tfx.components import (
    ExampleValidator,
    FileBasedExampleGen,
    Pusher,
    StatisticsGen,
    Trainer,
    Transform,
)
from tfx.dsl.components.base import base_component, executor_spec
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.components.common.resolver import Resolver
from tfx.dsl.input_resolution.strategies.latest_artifact_strategy import LatestArtifactStrategy
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import LatestBlessedModelStrategy
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2, pusher_pb2, trainer_pb2
from tfx.types import BaseChannel, Channel, standard_artifacts

from tfx_pipeline.artifacts import DataGateArtifact
from tfx_pipeline.code_version import COMPONENTS, code_of
from tfx_pipeline.components.corpus_encoder import CorpusEncoder
from tfx_pipeline.components.data_gate import DataGate
from tfx_pipeline.components.index_builder import IndexBuilder
from tfx_pipeline.components.negative_miner import NegativeMiner
from tfx_pipeline.components.pusher import PushOnceExecutor
from tfx_pipeline.components.retrieval_evaluator import RetrievalEvaluator
from tfx_pipeline.components.retriever_exporter import RetrieverExporter
from tfx_pipeline.components.serving_validator import ServingValidator
from tfx_pipeline.config import PipelineConfig, absolute, is_remote, settings_to_json
from tfx_pipeline.content import content_hash
from tfx_pipeline.data.example_gen import (
    CorpusExecutor,
    RecordExecutor,
    TrainingExecutor,
    declare_fields,
)
from tfx_pipeline.data.sources import fingerprint, source_files
from tfx_pipeline.data.splits import SPLIT
from xtr_tf.config.loading import to_mapping
from xtr_tf.model.folder import MANIFEST_FILE

Dag = Literal["full", "refresh"]
TrainerClass = Callable[..., base_component.BaseComponent]
Node = Any


def create_pipeline(
    config: PipelineConfig,
    dag: Dag = "full",
    metadata: Any = None,
    trainer_class: TrainerClass = Trainer,
    withdrawn: Mapping[str, str] | None = None,
) -> Pipeline:
    """Makes the DAG.

    Args:
        config: The configuration.
        dag: `full` (data, model, index) or `refresh` (corpus, index).
        metadata: Connection to the metadata store. None if the runner has its own.
        trainer_class: Replacement of TFX's Trainer where training is a separate job.
        withdrawn: Why versions were withdrawn, by the identity of their content. See `withdrawal`.

    Returns:
        TFX's pipeline, for any runner.
    """
    data = _data(config, dag)
    blessed = _latest_blessed_model()
    nodes: list[Node] = [*data.nodes, blessed]
    refreshes = dag == "refresh"
    if refreshes:
        encoder = blessed.outputs["model"]
    else:
        miners = _miner(config, data, blessed)
        examples = miners[0].outputs["mined"] if miners else data.training
        transform = _transform(config, data, examples)
        base_model, importers = _base_model(config, blessed)
        trainer = _trainer(config, transform, base_model, trainer_class)
        encoder = trainer.outputs["model"]
        nodes += [*miners, transform, *importers, trainer]

    vectors = CorpusEncoder(
        model=encoder,
        corpus=data.corpus,
        settings=settings_to_json(config.corpus.encoding),
        shard_characters=config.corpus.shard_characters,
        work=config.work_folder,
        beam_args=config.beam_args,
        keep_order=refreshes,
        index_settings="" if config.corpus.keep_vectors else settings_to_json(config.index.of_index),
    )
    vectors.add_upstream_node(data.gate)
    index = IndexBuilder(
        vectors=vectors.outputs["vectors"],
        settings=settings_to_json(config.index.of_index),
        work=config.work_folder,
        beam_args=config.beam_args,
        update=refreshes,
    )
    exporter = RetrieverExporter(
        encoder=encoder,
        vectors=vectors.outputs["vectors"],
        index=index.outputs["index"],
        defaults=settings_to_json(config.search),
        model_name=config.model_name,
        store_text=config.store_text,
        tokens_per_partition=config.index.tokens_per_partition,
        beam_args=config.beam_args,
        examples=data.training if config.choose_alpha else None,
        corpus=data.corpus if config.choose_alpha else None,
    )
    validator = ServingValidator(
        model=exporter.outputs["model"], parameters=settings_to_json(config.serving_check)
    )
    evaluator = RetrievalEvaluator(
        model=exporter.outputs["model"],
        examples=data.training,
        corpus=data.corpus,
        baseline_model=blessed.outputs["model"],
        infra_blessing=validator.outputs["blessing"],
        thresholds=settings_to_json(config.quality),
        withdrawn=withdrawn,
        part="judging" if config.choose_alpha else "all",
    )
    pusher = Pusher(
        model=exporter.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        infra_blessing=validator.outputs["blessing"],
        push_destination=pusher_pb2.PushDestination(
            filesystem=pusher_pb2.PushDestination.Filesystem(base_directory=config.serving_folder)
        ),
        custom_executor_spec=executor_spec.ExecutorClassSpec(PushOnceExecutor),
    )
    components = [*nodes, vectors, index, exporter, validator, evaluator, pusher]
    _show_changes_to_the_cache(config, components)
    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=absolute(config.root),
        components=components,
        enable_cache=True,
        metadata_connection_config=metadata,
        beam_pipeline_args=list(config.beam_args),
    )


def _show_changes_to_the_cache(config: PipelineConfig, nodes: Iterable[Node]) -> None:
    """Adds our code and the content of input files to what TFX's cache compares.

    TFX compares the inputs and properties of a component. Code and content become additional properties. Of
    input files, TFX looks only at size and time, and it ignores the queries and documents that judgements are
    joined with.
    """
    judged, documents = config.training_data, config.corpus
    inputs = {
        "TrainingGen": (judged.folder, [judged.train, judged.eval]),
        "CorpusGen": (documents.folder, [documents.files]),
    }
    for node in nodes:
        if node.id in COMPONENTS:
            node.spec.exec_properties["code"] = code_of(node.id)
        if node.id in inputs and not is_remote(inputs[node.id][0]):
            folder, patterns = inputs[node.id]
            node.spec.exec_properties["content"] = fingerprint(source_files(absolute(folder), patterns))


@dataclasses.dataclass(frozen=True)
class _Data:
    """The part of the DAG that reads and checks data, with the channels that the rest needs."""

    training: BaseChannel
    training_schema: BaseChannel
    corpus: BaseChannel
    gate: Node
    nodes: list[Node]


def _data(config: PipelineConfig, dag: Dag) -> _Data:
    training_gen, corpus_gen = _training_gen(config), _corpus_gen(config)
    training, corpus = training_gen.outputs["examples"], corpus_gen.outputs["examples"]
    checks = {
        "training": _checks(config, "training", training),
        "corpus": _checks(config, "corpus", corpus),
    }
    passed = Resolver(strategy_class=LatestArtifactStrategy, gate=Channel(type=DataGateArtifact)).with_id(
        "LatestDataGate"
    )
    gate = DataGate(
        training_examples=training,
        corpus_examples=corpus,
        previous=passed.outputs["gate"],
        thresholds=settings_to_json(config.gate),
        # A refresh does not train, so only the queries that it is judged by matter.
        splits=(SPLIT,) if dag == "refresh" else (),
        **{
            f"{kind}_{name}": channel
            for kind, (_, channels) in checks.items()
            for name, channel in channels.items()
        },
    )
    nodes = [training_gen, corpus_gen, *checks["training"][0], *checks["corpus"][0], passed, gate]
    return _Data(training, checks["training"][1]["schema"], corpus, gate, nodes)


def _training_gen(config: PipelineConfig) -> Node:
    source = config.training_data
    splits = [
        example_gen_pb2.Input.Split(name=name, pattern=getattr(source, name)) for name in ("train", "eval")
    ]
    given = {"input_base": absolute(source.folder), "input_config": example_gen_pb2.Input(splits=splits)}
    executor = RecordExecutor if source.format == "tfrecord" else TrainingExecutor
    return _example_gen(given, executor, "TrainingGen")


def _corpus_gen(config: PipelineConfig) -> Node:
    source = config.corpus
    split = example_gen_pb2.Input.Split(name="corpus", pattern=source.files)
    whole = example_gen_pb2.SplitConfig.Split(name="corpus", hash_buckets=1)
    given = {
        "input_base": absolute(source.folder),
        "input_config": example_gen_pb2.Input(splits=[split]),
        "output_config": example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=[whole])),
    }
    if source.encoding.fields:
        given["custom_config"] = declare_fields(source.encoding.fields)
    executor = RecordExecutor if source.format == "tfrecord" else CorpusExecutor
    return _example_gen(given, executor, "CorpusGen")


def _example_gen(given: dict[str, Any], executor: type, name: str) -> Node:
    return FileBasedExampleGen(
        **given, custom_executor_spec=executor_spec.BeamExecutorSpec(executor)
    ).with_id(name)


def _checks(
    config: PipelineConfig, kind: Literal["training", "corpus"], examples: BaseChannel
) -> tuple[list[Node], dict[str, BaseChannel]]:
    """Adds the statistics of examples, their curated schema, and the comparison of both."""
    name, folder = kind.capitalize(), config.schema_folder(kind)
    schema = Importer(
        source_uri=folder,
        artifact_type=standard_artifacts.Schema,
        custom_properties={"sha256": content_hash(f"{folder}/schema.pbtxt")},
    ).with_id(f"{name}Schema")
    statistics = StatisticsGen(examples=examples).with_id(f"{name}Statistics")
    validator = ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["result"]
    ).with_id(f"{name}Validator")
    channels = {
        "statistics": statistics.outputs["statistics"],
        "schema": schema.outputs["result"],
        "anomalies": validator.outputs["anomalies"],
    }
    return [statistics, schema, validator], channels


def _latest_blessed_model() -> Node:
    return Resolver(
        strategy_class=LatestBlessedModelStrategy,
        model=Channel(type=standard_artifacts.Model),
        model_blessing=Channel(type=standard_artifacts.ModelBlessing),
    ).with_id("LatestBlessedModel")


def _miner(config: PipelineConfig, data: _Data, blessed: Node) -> list[Node]:
    if config.mining.ranker == "none":
        return []
    miner = NegativeMiner(
        examples=data.training,
        corpus=data.corpus,
        settings=settings_to_json(config.mining),
        model=blessed.outputs["model"] if config.mining.ranker == "latest" else None,
    )
    miner.add_upstream_node(data.gate)
    return [miner]


def _transform(config: PipelineConfig, data: _Data, examples: BaseChannel) -> Node:
    tokenizer = {**to_mapping(config.run.tokenizer), "model": config.vocabulary}
    initial = config.run.training.initial_encoder
    transform = Transform(
        examples=examples,
        schema=data.training_schema,
        preprocessing_fn="tfx_pipeline.components.transform.preprocessing_fn",
        custom_config={
            "tokenizer": tokenizer,
            "initial_encoder": absolute(initial) if initial else "",
            "vocabulary_hash": content_hash(config.vocabulary),
        },
        disable_analyzer_cache=True,  # tokenization has no analyzers
        disable_statistics=True,
    )
    transform.add_upstream_node(data.gate)
    return transform


def _base_model(config: PipelineConfig, blessed: Node) -> tuple[BaseChannel | None, list[Node]]:
    """Returns the model that training starts from, as an artifact that lineage shows."""
    if config.warm_start == "latest":
        return blessed.outputs["model"], []
    if not config.run.training.initial_encoder:
        return None, []
    folder = absolute(config.run.training.initial_encoder)
    importer = Importer(
        source_uri=folder,
        artifact_type=standard_artifacts.Model,
        custom_properties={"sha256": content_hash(f"{folder}/{MANIFEST_FILE}")},
    ).with_id("InitialEncoder")
    return importer.outputs["result"], [importer]


def _trainer(
    config: PipelineConfig, transform: Node, base_model: BaseChannel | None, trainer_class: TrainerClass
) -> Node:
    initial = config.run.training.initial_encoder
    # Paths are passed separately: the result of training does not depend on where files are.
    run = dataclasses.replace(
        config.run,
        tokenizer=dataclasses.replace(config.run.tokenizer, model=""),
        training=dataclasses.replace(config.run.training, initial_encoder="", output=""),
    )
    return trainer_class(
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        base_model=base_model,
        run_fn="tfx_pipeline.components.trainer.run_fn",
        train_args=trainer_pb2.TrainArgs(num_steps=config.run.training.steps),
        eval_args=trainer_pb2.EvalArgs(num_steps=1),
        custom_config={
            "run": to_mapping(run),
            "vocabulary": config.vocabulary,
            "vocabulary_hash": content_hash(config.vocabulary),
            "initial_encoder": absolute(initial) if initial else "",
            "work": config.work_folder,
        },
    ).with_id("Trainer")
