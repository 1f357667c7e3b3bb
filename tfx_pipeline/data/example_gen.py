"""The inputs of ExampleGen: judged queries and documents, read by the readers of `xtr_tf`.

One Beam worker reads one file. A record that cannot be used becomes an example with the feature `defect`.
Statistics count these examples, and `DataGate` refuses them.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.io.filesystems import FileSystems
from google.protobuf import any_pb2, struct_pb2
from tfx.components.example_gen.base_example_gen_executor import BaseExampleGenExecutor
from tfx.components.example_gen.import_example_gen.executor import Executor as ImportExecutor
from tfx.proto import example_gen_pb2
from tfx.types import Artifact, artifact_utils
from tfx.utils import io_utils, proto_utils

from tfx_pipeline.config import is_remote
from tfx_pipeline.data.sources import companions, is_judgements, missing_documents, source_files
from tfx_pipeline.storage import local_files
from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.collections.document import Document
from xtr_tf.config.training import SourceConfig

FileReader = Callable[..., Iterator[bytes]]


def split_reader(read_file: FileReader) -> beam.PTransform:
    """Makes the transform that TFX applies to each input split.

    Args:
        read_file: Function that yields the serialised examples of a file. Its arguments are the path relative
            to the input's folder, that folder, and the declared fields if there are any.

    Returns:
        The transform.
    """

    @beam.ptransform_fn
    @beam.typehints.with_input_types(beam.Pipeline)
    @beam.typehints.with_output_types(bytes)
    def read_split(
        pipeline: beam.Pipeline, exec_properties: dict[str, Any], split_pattern: str
    ) -> beam.PCollection:
        base = exec_properties["input_base"]
        (match,) = FileSystems.match([os.path.join(base, split_pattern)])  # noqa: PTH118
        files = [os.path.relpath(found.path, base) for found in match.metadata_list]
        fields = declared_fields(exec_properties)
        return (
            pipeline
            | "Files" >> beam.Create(files)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(read_file, base, *([fields] if fields else []))
        )

    return read_split


def declare_fields(fields: Mapping[str, str]) -> example_gen_pb2.CustomConfig:
    """Packs declared fields for the executor, which receives only properties from TFX.

    Args:
        fields: Types of the fields by name.

    Returns:
        The `custom_config` of ExampleGen.
    """
    packed = any_pb2.Any()
    content = struct_pb2.Struct()
    content.update(dict(fields))
    packed.Pack(content)
    return example_gen_pb2.CustomConfig(custom_config=packed)


def declared_fields(exec_properties: Mapping[str, Any]) -> dict[str, str]:
    """Unpacks the fields that `declare_fields` packed.

    Args:
        exec_properties: Execution properties of ExampleGen.

    Returns:
        Types of the fields by name. Empty if none are declared.
    """
    custom = example_gen_pb2.CustomConfig()
    if exec_properties.get("custom_config"):
        proto_utils.json_to_proto(exec_properties["custom_config"], custom)
    content = struct_pb2.Struct()
    custom.custom_config.Unpack(content)
    return dict(content)


DEFECT = "defect"


class Defects(BadRecords):
    """Collects bad records instead of counting them against a limit."""

    def __init__(self) -> None:
        super().__init__(limit=0)
        self.sentences: list[str] = []

    def skip(self, path: str | Path, line: int, reason: str) -> None:
        """Records a bad record. Never raises."""
        self.count += 1
        self.sentences.append(f"{Path(path).name}, line {line}: {reason}")

    def miss_document(self, dataset: str, number: int, query: str, document: str) -> None:
        """Ignores a judgement whose document is gone. `missing_positives` counts it for the gate's limit."""


def defect_example(sentence: str) -> bytes:
    """Returns the serialised example that represents a bad record."""
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[sentence.encode()]))
    return tf.train.Example(features=tf.train.Features(feature={DEFECT: feature})).SerializeToString()


#: Custom properties of `Examples`: files with hashes and sizes, records and missing documents by split.
SOURCES, RECORDS, MISSING = "sources", "records", "missing_positives"


class RecordingExecutor(BaseExampleGenExecutor):
    """An ExampleGen that records in its artifact what it was made from."""

    def Do(  # noqa: N802
        self,
        input_dict: dict[str, list[Artifact]],
        output_dict: dict[str, list[Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Called by TFX."""
        super().Do(input_dict, output_dict, exec_properties)
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        base = exec_properties["input_base"]
        examples.set_string_custom_property("folder", base)
        examples.set_string_custom_property(RECORDS, json.dumps(_count_records(examples)))
        if is_remote(base):
            return
        given = proto_utils.json_to_proto(exec_properties["input_config"], example_gen_pb2.Input())
        patterns = {split.name: split.pattern for split in given.splits}
        sources = source_files(base, patterns.values())
        examples.set_string_custom_property(SOURCES, json.dumps([dataclasses.asdict(own) for own in sources]))
        missing = {
            split: dataclasses.asdict(missing_documents(base, pattern))
            for split, pattern in patterns.items()
            if is_judgements(pattern)
        }
        if missing:
            examples.set_string_custom_property(MISSING, json.dumps(missing))


def _count_records(examples: Artifact) -> dict[str, int]:
    counts = {}
    for split in artifact_utils.decode_split_names(examples.split_names):
        pattern = io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], split))
        files = sorted(tf.io.gfile.glob(pattern))
        records = tf.data.TFRecordDataset(files, compression_type="GZIP")
        counts[split] = int(records.reduce(np.int64(0), lambda count, _: count + 1))
    return counts


class RecordExecutor(RecordingExecutor, ImportExecutor):
    """Imports examples that an earlier pipeline wrote."""


class CorpusExecutor(RecordingExecutor):
    """Reads documents with the features `id`, `title`, `text` and `language`, one worker per file."""

    def GetInputSourceToExamplePTransform(self) -> beam.PTransform:  # noqa: N802
        """Returns the transform that TFX applies to each input split."""
        return split_reader(read_corpus_file)


def read_corpus_file(file: str, base: str, fields: Mapping[str, str] | None = None) -> Iterator[bytes]:
    """Reads the documents of one file, with the declared fields.

    Args:
        file: Path relative to `base`.
        base: Folder of the input, local or remote.
        fields: Types of additional fields by name.

    Yields:
        Serialised `tf.train.Example`s.
    """
    from xtr_tf.collections.corpus import CorpusReader

    with local_files(base, [file]) as local:
        reader = CorpusReader(local / file, fields=fields)
        for document in reader:
            yield document_example(document)
        for reason, count in reader.skipped.items():
            place = reader.first_skipped[reason]
            yield from [defect_example(f"{place}: {reason} ({count} in this file)")] * count


def document_example(document: Document) -> bytes:
    """Serialises a document as an example. Features with empty values, such as a title, are missing."""
    values = {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "language": document.language,
    }
    features = {name: _feature(value) for name, value in values.items() if value}
    features |= {name: _feature(value) for name, value in document.fields.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(
        deterministic=True
    )


def _feature(value: Any) -> tf.train.Feature:
    """Returns the feature of one text, several texts or a number. True and false become 1 and 0."""
    if isinstance(value, float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    texts = [value] if isinstance(value, str) else value
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode() for text in texts]))


def parse_document(record: bytes) -> Document:
    """Parses an example of `document_example`. Additional fields are not read."""
    features = tf.train.Example.FromString(record).features.feature

    def text(name: str) -> str:
        return b"".join(features[name].bytes_list.value).decode()

    return Document(text("id"), text("text"), text("title"), text("language"))


class TrainingExecutor(RecordingExecutor):
    """Reads judged queries, one worker per file.

    The pattern of a split is either a glob of JSONL or TSV files, or `qrels/SPLIT.tsv` of a BEIR
    folder, whose queries and documents are then joined.
    """

    def GetInputSourceToExamplePTransform(self) -> beam.PTransform:  # noqa: N802
        """Returns the transform that TFX applies to each input split."""
        return split_reader(read_training_file)


def read_training_file(file: str, base: str) -> Iterator[bytes]:
    """Reads the examples of one file of a split.

    Args:
        file: Path relative to `base`. `qrels/SPLIT.tsv` means the judgements of a BEIR folder.
        base: Folder of the input, local or remote.

    Yields:
        Serialised `tf.train.Example`s.
    """
    from xtr_tf.training.data.sources import open_source
    from xtr_tf.training.data.tfrecords import serialize_example

    defects = Defects()
    path = PurePosixPath(file)
    if is_judgements(file):
        beir, split = path.parent.parent, path.name.partition(".")[0]
        source = SourceConfig(str(beir), "beir", split=split)
    else:
        source = SourceConfig(file)
    with local_files(base, [file, *companions(file)]) as folder:
        source = dataclasses.replace(source, path=str(folder / source.path))
        for examples in open_source(source, defects):
            for index in range(len(examples)):
                yield serialize_example(examples[index])
    yield from map(defect_example, defects.sentences)
