"""The Beam side that every ExampleGen here shares: the files of a split, each read by one worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

FileReader = Callable[[str, str], Iterator[bytes]]


def split_reader(read_file: FileReader) -> beam.PTransform:
    """Makes the transform that TFX applies to each input split.

    Args:
        read_file: Gives the serialised examples of a file from its path relative to the input's
            folder, and that folder.
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
        return (
            pipeline
            | "Files" >> beam.Create(files)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(read_file, base)
        )

    return read_split
