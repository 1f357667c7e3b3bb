"""ExampleGen executor for documents: whatever `xtr_tf.corpus` reads, as `tf.train.Example`s."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
import tensorflow as tf
from tfx.components.example_gen.base_example_gen_executor import BaseExampleGenExecutor

from tfx_pipeline.example_gen.defects import defect_example
from tfx_pipeline.example_gen.local_files import local_files
from tfx_pipeline.example_gen.split_reader import split_reader
from xtr_tf.corpus.document import Document


class CorpusExecutor(BaseExampleGenExecutor):
    """Reads documents with the features `id`, `title`, `text` and `language`, one worker a file."""

    def GetInputSourceToExamplePTransform(self) -> beam.PTransform:  # noqa: N802
        """The transform that TFX applies to each input split."""
        return split_reader(read_file)


def read_file(file: str, base: str) -> Iterator[bytes]:
    """The documents of one file, `file` being relative to `base`."""
    from xtr_tf.corpus.corpus_reader import CorpusReader

    with local_files(base, [file]) as local:
        reader = CorpusReader(local / file)
        for document in reader:
            yield document_example(document)
        for reason, count in reader.skipped.items():
            place = reader.first_skipped[reason]
            yield from [defect_example(f"{place}: {reason} ({count} in this file)")] * count


def document_example(document: Document) -> bytes:
    """A document as a serialised example; an empty title is a missing feature."""
    values = {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "language": document.language,
    }
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
        for name, value in values.items()
        if value
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(
        deterministic=True
    )


def parse_document(record: bytes) -> Document:
    """The inverse of `document_example`."""
    features = tf.train.Example.FromString(record).features.feature

    def text(name: str) -> str:
        return b"".join(features[name].bytes_list.value).decode()

    return Document(text("id"), text("text"), text("title"), text("language"))
