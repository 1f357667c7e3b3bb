"""ExampleGen executor for training examples in JSONL, TSV or a BEIR folder.

The examples have the features of `xtr_tf.data.tfrecord_source`, so that the records which a
pipeline writes can be trained on without one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import PurePosixPath

import apache_beam as beam
from tfx.components.example_gen.base_example_gen_executor import BaseExampleGenExecutor

from tfx_pipeline.example_gen.defects import Defects, defect_example
from tfx_pipeline.example_gen.local_files import local_files
from tfx_pipeline.example_gen.split_reader import split_reader
from xtr_tf.config.schema import SourceConfig

_BEIR_FILES = ["corpus.jsonl*", "queries.jsonl*"]


class TrainingExecutor(BaseExampleGenExecutor):
    """Reads judged queries, one worker a file.

    A split's pattern is either a glob of JSONL or TSV files, or `qrels/SPLIT.tsv` of a BEIR
    folder, whose queries and documents are then joined.
    """

    def GetInputSourceToExamplePTransform(self) -> beam.PTransform:  # noqa: N802
        """The transform that TFX applies to each input split."""
        return split_reader(read_file)


def read_file(file: str, base: str) -> Iterator[bytes]:
    """The examples of one file of a split.

    Args:
        file: Path relative to `base`; `qrels/SPLIT.tsv` means a BEIR folder's judgements.
        base: The input's folder.
    """
    from xtr_tf.data.open_source import open_source
    from xtr_tf.data.tfrecord_source import serialize_example

    defects = Defects()
    path = PurePosixPath(file)
    if path.parent.name == "qrels":
        beir, split = path.parent.parent, path.name.partition(".")[0]
        wanted = [file, *(str(beir / pattern) for pattern in _BEIR_FILES)]
        source = SourceConfig(str(beir), "beir", split=split)
    else:
        wanted = [file]
        source = SourceConfig(file)
    with local_files(base, wanted) as folder:
        source = dataclasses.replace(source, path=str(folder / source.path))
        for examples in open_source(source, defects):
            for index in range(len(examples)):
                yield serialize_example(examples[index])
    yield from map(defect_example, defects.sentences)
