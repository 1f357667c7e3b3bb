"""Records that cannot be used, kept as examples instead of dropped.

A pipeline that skips bad records quietly trains on less every month. Here each one becomes an
example with the single feature `defect`, which no schema declares: ExampleValidator finds it,
and the statistics show the file, the line and the reason.
"""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from xtr_tf.data.bad_records import BadRecords

DEFECT = "defect"


class Defects(BadRecords):
    """Collects bad records instead of counting them against a limit."""

    def __init__(self) -> None:
        super().__init__(limit=0)
        self.sentences: list[str] = []

    def skip(self, path: str | Path, line: int, reason: str) -> None:
        """Notes a bad record; never raises."""
        self.count += 1
        self.sentences.append(f"{Path(path).name}, line {line}: {reason}")


def defect_example(sentence: str) -> bytes:
    """The serialised example that stands for a bad record."""
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[sentence.encode()]))
    return tf.train.Example(features=tf.train.Features(feature={DEFECT: feature})).SerializeToString()
