"""NegativeMiner: adds hard negatives that BM25 or the latest blessed model finds to training examples.

`xtr_tf.evaluation.mining` decides which documents may become negatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfx.dsl.components.base import base_component, base_executor, executor_spec
from tfx.types import Artifact, BaseChannel, Channel, artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.utils import path_utils

from tfx_pipeline.components.executor import Artifacts, SingleArtifacts
from tfx_pipeline.config import MiningConfig, settings_from_json
from tfx_pipeline.data.example_gen import parse_document
from tfx_pipeline.data.splits import read_all, read_split
from tfx_pipeline.storage import local_input, local_output
from xtr_tf.collections.dataset import Query
from xtr_tf.collections.document import UNKNOWN_LANGUAGE, Document
from xtr_tf.evaluation.mining import Rank, mine_negatives
from xtr_tf.evaluation.run import Run
from xtr_tf.lexical.terms import analyser_of
from xtr_tf.training.data.examples import TrainingExample
from xtr_tf.training.data.tfrecords import parse_example, serialize_example

#: The split that gets negatives. The others are copied.
MINED = "train"
# Terms of BM25 as long as there is no blessed model.
_BEFORE_A_MODEL = "ngrams"


class NegativeMinerSpec(ComponentSpec):
    """Inputs, outputs and parameters of `NegativeMiner`."""

    INPUTS = {  # noqa: RUF012
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "corpus": ChannelParameter(type=standard_artifacts.Examples),
        "model": ChannelParameter(type=standard_artifacts.Model, optional=True),
    }
    OUTPUTS = {"mined": ChannelParameter(type=standard_artifacts.Examples)}  # noqa: RUF012
    PARAMETERS = {"settings": ExecutionParameter(type=str)}  # noqa: RUF012


class NegativeMinerExecutor(SingleArtifacts, base_executor.BaseExecutor):
    """Mines the split `train` in this process, with all documents in memory."""

    def run(self, inputs: Artifacts, outputs: Artifacts, properties: dict[str, Any]) -> None:
        """Called by TFX."""
        settings = settings_from_json(MiningConfig, properties["settings"])
        given, mined = inputs["examples"], outputs["mined"]
        splits = artifact_utils.decode_split_names(given.split_names)
        documents = [parse_document(record) for record in read_all(inputs["corpus"])]
        examples = [parse_example(record, UNKNOWN_LANGUAGE) for record in read_split(given, MINED)]
        with ExitStack() as stack:
            model = None
            if "model" in inputs:
                model = stack.enter_context(local_input(path_utils.serving_model_path(inputs["model"].uri)))
            rank = _by_model(model, documents) if model else _by_bm25(settings.ranker, documents)
            found = list(mine_negatives(examples, documents, rank, settings))
            out = stack.enter_context(local_output(mined.uri))
            for split in splits:
                records = map(serialize_example, found) if split == MINED else read_split(given, split)
                _write(out / f"Split-{split}", records)
        mined.split_names = given.split_names
        _record(mined, examples, found)


class NegativeMiner(base_component.BaseComponent):
    """Adds hard negatives to the training examples. Negatives that an example already has come first.

    Outputs `mined`, examples of the same splits.

    Args:
        examples: Judged queries.
        corpus: Documents to take negatives from.
        settings: `MiningConfig` as JSON.
        model: The latest blessed model, if it is to rank the documents. BM25 ranks them if None.
    """

    SPEC_CLASS = NegativeMinerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(NegativeMinerExecutor)

    def __init__(
        self,
        examples: BaseChannel,
        corpus: BaseChannel,
        settings: str,
        model: BaseChannel | None = None,
    ) -> None:
        super().__init__(
            NegativeMinerSpec(
                examples=examples,
                corpus=corpus,
                settings=settings,
                model=model,
                mined=Channel(type=standard_artifacts.Examples),
            )
        )


def _by_bm25(ranker: str, documents: Sequence[Document]) -> Rank:
    from xtr_tf.evaluation.baselines import BM25

    return BM25(documents, analyser_of(_BEFORE_A_MODEL if ranker == "latest" else ranker)).search


def _by_model(directory: Path, documents: Sequence[Document]) -> Rank:
    """Ranks by an exported model. Skips documents of its index that are no longer in the corpus."""
    from xtr_tf.evaluation.exported_model import open_exported

    exported = open_exported(directory)
    present = {document.id for document in documents}

    def rank(queries: Sequence[Query], depth: int) -> Run:
        return exported.search("mine", queries, depth).only(present)

    return rank


def _write(folder: Path, records: Iterable[bytes]) -> None:
    folder.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "data_tfrecord-00000-of-00001.gz"), "GZIP") as writer:
        for record in records:
            writer.write(record)


def _record(mined: Artifact, before: Sequence[TrainingExample], after: Sequence[TrainingExample]) -> None:
    """Records the figures as custom properties, which the metadata store keeps."""
    negatives = [sum(len(example.negatives) for example in examples) for examples in (before, after)]
    mined.set_int_custom_property("negatives_given", negatives[0])
    mined.set_int_custom_property("negatives_found", negatives[1] - negatives[0])
    mined.set_int_custom_property("queries_without", sum(not example.negatives for example in after))
