"""Runs shards as elements of an Apache Beam pipeline, on any Beam runner.

A shard is the unit of work, of retry and of storage. So a runner may repeat an element, or run it twice at
the same time, without changing the result (see `ShardTask`). What a task loads, such as the model, is loaded
once per process.
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

from xtr_tf.errors import InputError
from xtr_tf.vectors.beam_processes import run_in_processes
from xtr_tf.vectors.runners import ShardTask

NAMESPACE = "xtr_tf"


class RunShard(beam.DoFn):
    """Runs a task. All threads of a process share what the task loads.

    Args:
        task: The task.
        shared: Holds what is loaded. It is created where the pipeline is built.
        threads: Threads that a worker may use; 0 for the defaults of the libraries.
    """

    def __init__(self, task: ShardTask, shared: Shared, threads: int) -> None:
        self._task = task
        self._shared = shared
        self._threads = threads
        self._loaded: _Loaded | None = None

    def setup(self) -> None:
        """Loads what the task needs, unless this process has loaded it already."""
        self._loaded = self._shared.acquire(self._load, tag=repr(self._task))

    def process(self, shard: Any) -> Iterator[int]:
        """Finishes a shard and updates the counters.

        Args:
            shard: The shard.

        Yields:
            1, for the finished shard.
        """
        assert self._loaded is not None
        for name, count in self._task.run(shard, self._loaded.content).items():
            Metrics.counter(NAMESPACE, name).inc(count)
        yield 1

    def _load(self) -> _Loaded:
        if self._threads:
            # Libraries read these when they are first used. In a worker, that is now.
            for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
                os.environ[name] = str(self._threads)
        return _Loaded(self._task.load())


@dataclasses.dataclass
class _Loaded:
    """A wrapper, because `Shared` can only hold objects that support weak references."""

    content: Any


@dataclasses.dataclass(frozen=True)
class BeamRunner:
    """Runs a task on a Beam runner.

    Attributes:
        flags: Pipeline options as on a command line (`--runner=DataflowRunner`, ...), passed to Beam
            unchanged. Without any, Beam's direct runner works in this process.

    Example:
        >>> runner = BeamRunner(["--direct_running_mode=multi_processing", "--direct_num_workers=4"])
        >>> encode_corpus("corpus.jsonl", "model", "out/vectors", runner=runner)
    """

    flags: Sequence[str] = ()

    def __call__(self, task: ShardTask, shards: Sequence[Any]) -> None:
        """Runs the pipeline and waits until it has finished.

        Args:
            task: The task.
            shards: The shards to run it for.

        Raises:
            InputError: If the pipeline failed. Finished shards are kept.
        """
        # Never None: Beam would then read the command line of this process.
        options = PipelineOptions(list(self.flags))
        if options.view_as(DirectOptions).direct_running_mode == "multi_processing":
            run_in_processes(task, shards, self.flags)
            return
        try:
            run_pipeline(task, shards, self.flags)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise InputError(
                f"The Beam pipeline failed ({reason}); finished shards are kept, run it again. "
                f"Received: options {list(self.flags)}."
            ) from error


def run_pipeline(task: ShardTask, shards: Sequence[Any], flags: Sequence[str]) -> None:
    """Runs a pipeline in this process, as far as Beam does.

    Args:
        task: The task to run for each shard.
        shards: The shards.
        flags: Beam options, as on a command line.

    Raises:
        RuntimeError: If anything failed; Beam raises it.
    """
    options = PipelineOptions(list(flags))
    pipeline = beam.Pipeline(options=options)
    _ = (
        pipeline
        | "Shards" >> beam.Create(list(shards), reshuffle=False)
        | "Spread over workers" >> beam.Reshuffle()
        | "Run" >> beam.ParDo(RunShard(task, Shared(), _threads(options)))
    )
    pipeline.run().wait_until_finish()


def _threads(options: PipelineOptions) -> int:
    """Returns a fair share of this machine's cores if several workers run on it, and 0 otherwise."""
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return 0
    cores = os.cpu_count() or 1
    return max(cores // (direct.direct_num_workers or cores), 1)
