"""Encoding as an Apache Beam pipeline: any runner, one shard an element.

A shard is the unit of work, of retry and of storage, so a runner that repeats an element, or
runs it twice at once, changes nothing (`shard_task.py`). The model is loaded once a process.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.utils.shared import Shared

from xtr_tf.corpus.encoding_plan import ShardPlan
from xtr_tf.corpus.shard_task import EncodingJob, encode_shard
from xtr_tf.errors import InputError

NAMESPACE = "xtr_tf.corpus"


class EncodeShard(beam.DoFn):
    """Encodes shards with an encoder that all threads of a process share.

    Args:
        job: What to encode with, and where to.
        shared: Holds the encoder; made where the pipeline is built.
        threads: TensorFlow threads of a worker; 0 leaves them to TensorFlow.
    """

    def __init__(self, job: EncodingJob, shared: Shared, threads: int) -> None:
        self._job = job
        self._shared = shared
        self._threads = threads
        self._encoder: Any = None

    def setup(self) -> None:
        """Loads the encoder, or takes the one this process has."""
        self._encoder = self._shared.acquire(self._load, tag=f"{self._job.model} {self._job.config}")

    def process(self, shard: ShardPlan) -> Iterator[str]:
        """Encodes a shard and yields its name; counts what was done."""
        entry = encode_shard(self._job, shard, self._encoder)
        counts = {
            "documents": entry.documents,
            "passages": entry.passages,
            "tokens": entry.tokens,
            **entry.counters,
        }
        for name, count in counts.items():
            Metrics.counter(NAMESPACE, name).inc(count)
        yield entry.name

    def _load(self) -> Any:
        import tensorflow as tf

        from xtr_tf.corpus.document_encoder import DocumentEncoder

        if self._threads:
            tf.config.threading.set_intra_op_parallelism_threads(self._threads)
        return DocumentEncoder.load(self._job.model, self._job.config)


@dataclasses.dataclass(frozen=True)
class BeamRunner:
    """Runs a job on a Beam runner.

    Attributes:
        flags: Pipeline options as on a command line (`--runner=DataflowRunner`, ...), given to
            Beam as they are. Without any, Beam's direct runner works in this process.
    """

    flags: Sequence[str] = ()

    def __call__(self, job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
        """Encodes the shards and waits for the end of the pipeline."""
        # Never None: Beam would then read this process's own command line.
        options = PipelineOptions(list(self.flags))
        pipeline = beam.Pipeline(options=options)
        _ = (
            pipeline
            | "Shards" >> beam.Create(list(shards), reshuffle=False)
            | "Spread over workers" >> beam.Reshuffle()
            | "Encode" >> beam.ParDo(EncodeShard(job, Shared(), _threads(options)))
        )
        try:
            pipeline.run().wait_until_finish()
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise InputError(
                f"The Beam pipeline failed ({reason}); finished shards are kept, run it again. "
                f"Received: options {list(self.flags)}."
            ) from error


def _threads(options: PipelineOptions) -> int:
    """A fair share of this machine's cores where several workers run on it."""
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return 0
    cores = os.cpu_count() or 1
    return max(cores // (direct.direct_num_workers or cores), 1)
