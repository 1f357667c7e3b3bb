"""Training examples per second of one core, read by TensorFlow's ops and by Python.

    make bench-input

Examples have mxtr_base's lengths and 8 negatives each, one of which is used. Both ways draw the same
documents, which is checked; Python runs in a `tf.numpy_function`. They read the same batches in turn. The
processor time of one thread is measured, so that other load on the machine does not matter. Reading and
parsing the file, once per run, is included. The median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from xtr_tf.collections.bad_records import BadRecords
from xtr_tf.config.model import TokenizerConfig
from xtr_tf.config.training import DataConfig, SourceConfig
from xtr_tf.training.data.draws import draw
from xtr_tf.training.data.tfrecords import TFRecordFile
from xtr_tf.training.data.tokenized import TokenizedData

sys.path.append(str(Path(__file__).resolve().parents[1]))  # what the benchmarks share

from engine_process import print_machine

QUERY_LENGTH, DOCUMENT_LENGTH, NEGATIVES, BATCH, SEED = 32, 512, 8, 32, 0


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--batches", type=int, default=80, help="batches per round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    print_machine(cpu_time=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "examples.tfrecord")
        _write(path, arguments.examples)
        config = DataConfig(train=(SourceConfig(str(path), "tokenized"),), hard_negatives=1)
        data = TokenizedData(config, TokenizerConfig("", True, QUERY_LENGTH, DOCUMENT_LENGTH), SEED)
        starts = np.arange(arguments.batches) * BATCH
        ours, theirs = data.batches(starts, BATCH), _read_by_python(path, data, starts)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.document_ids[:BATCH], b[0])
            np.testing.assert_array_equal(a.document_ids[BATCH:], b[1])
        ratios = []
        for _ in range(arguments.rounds):
            seconds = [_processor_seconds(dataset) for dataset in (ours, theirs)]
            speeds = [len(starts) * BATCH / each for each in seconds]
            ratios.append(speeds[0] / speeds[1])
            print(f"tf.data {speeds[0]:,.0f} examples/s, Python {speeds[1]:,.0f} examples/s")
    print(
        f"RESULT bench-input input_ratio={statistics.median(ratios):.2f} examples_per_second={speeds[0]:.0f}"
    )


def _processor_seconds(dataset: tf.data.Dataset) -> float:
    before = time.process_time()
    for _ in dataset:
        pass
    return time.process_time() - before


def _write(path: Path, count: int) -> None:
    random = np.random.default_rng(SEED)

    def numbers(values: np.ndarray) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values.ravel()))

    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(count):
            features = {
                "id": tf.train.Feature(bytes_list=tf.train.BytesList(value=[str(number).encode()])),
                "language": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"en"])),
                "query_tokens": numbers(random.integers(1, 250_000, QUERY_LENGTH)),
            }
            for kind, documents in (("positive", 1), ("negative", NEGATIVES)):
                ids = random.integers(1, 250_000, [documents, DOCUMENT_LENGTH])
                features[f"{kind}_tokens"] = numbers(ids)
                features[f"{kind}_keys"] = numbers(random.integers(1, 2**31, [documents, 6]))
                scores = tf.train.FloatList(value=[0.5] * documents)
                features[f"{kind}_scores"] = tf.train.Feature(float_list=scores)
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def _read_by_python(path: Path, data: TokenizedData, starts: np.ndarray) -> tf.data.Dataset:
    """The earlier input: records parsed by protobuf in Python, documents selected by NumPy."""
    file = TFRecordFile(path, BadRecords(limit=0))

    def rows(start: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for index, visit in zip(*data._sampler(np.arange(start, start + BATCH)), strict=True):
            features = tf.train.Example.FromString(file[int(index)]).features.feature
            positives, negatives = (
                np.array(features[f"{kind}_tokens"].int64_list.value, np.int64)
                .astype(np.int32)
                .reshape(-1, DOCUMENT_LENGTH)
                for kind in ("positive", "negative")
            )
            for name in ("positive_keys", "negative_keys"):
                np.array(features[name].int64_list.value, np.int64)
            np.array(features["query_tokens"].int64_list.value, np.int32)
            draws = draw(SEED, np.int64(index), np.int64(visit), np.arange(1 + len(negatives)))
            yield positives[draws[0] % len(positives)], negatives[np.argsort(draws[1:], kind="stable")[0]]

    def read(start: np.ndarray) -> list[np.ndarray]:
        return [np.stack(part) for part in zip(*rows(int(start)), strict=True)]

    return tf.data.Dataset.from_tensor_slices(starts).map(
        lambda start: tf.numpy_function(read, [start], [tf.int32, tf.int32], stateful=False)
    )


if __name__ == "__main__":
    main()
