"""Batches: requests for `serving_default` that come at the same time are run as one call of the model.

First the bounds of a batch, which may come from TensorFlow Serving's own file format; then the batcher. One
bad request never fails the others. Knows nothing of wires, nor of what the arrays mean.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, text_format, wrappers_pb2

from serving.client.messages import message_class
from serving.server.requests.worker_pool import WorkerPool
from serving.server.status import Code, RequestError
from xtr_tf.errors import InputError

Arrays = Mapping[str, np.ndarray]
Outcome = dict[str, np.ndarray] | Exception

# Fields of `BatchingParameters` that are wrapped integers, by their number from 1.
_WRAPPED = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")


@dataclasses.dataclass(frozen=True)
class BatchingOptions:
    """Bounds of the batches of `serving_default`.

    The defaults never make a request wait for others: a batch is whatever has arrived while the
    workers were busy.

    Attributes:
        max_batch_size: Rows of one batch; 1 turns batching off.
        batch_timeout_micros: How long the first request of a batch waits for others.
        max_enqueued_batches: Batches' worth of rows that may wait; more are refused at once.
        num_batch_threads: Batches that may run at the same time; 0 for half as many as there are
            workers: a batch keeps more than one core busy by itself, and fewer at a time are larger.
    """

    max_batch_size: int = 32
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 8
    num_batch_threads: int = 0

    def __post_init__(self) -> None:
        for name, least in (("max_batch_size", 1), ("max_enqueued_batches", 1)):
            self._check(name, least)
        for name in ("batch_timeout_micros", "num_batch_threads"):
            self._check(name, 0)

    def _check(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if value < least:
            raise InputError(f"`{name}` must be at least {least}. Received: {value}.")


def read_batching_options(file: Path) -> BatchingOptions:
    """Reads a `tensorflow.serving.BatchingParameters` message in text format.

    Raises:
        InputError: The file is not such a message, or asks for what this server does not do.
    """
    message = batching_parameters_class()()
    try:
        text_format.Parse(file.read_text(), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise InputError(
            f"The batching file is not BatchingParameters in text format ({error}). Received: {file}."
        ) from None
    if message.pad_variable_length_inputs or message.allowed_batch_sizes:
        raise InputError(
            "This server neither pads inputs nor rounds batch sizes; leave out "
            f"`pad_variable_length_inputs` and `allowed_batch_sizes`. Received: {file}."
        )
    given = {name: getattr(message, name).value for name in _WRAPPED if message.HasField(name)}
    return BatchingOptions(**given)


def batching_parameters_class() -> type:
    """Returns the class of `tensorflow.serving.BatchingParameters`, which no pip package carries."""
    file = descriptor_pb2.FileDescriptorProto(
        name="tensorflow_serving/servables/tensorflow/session_bundle_config.proto",
        package="tensorflow.serving",
        dependency=["google/protobuf/wrappers.proto"],
        syntax="proto3",
    )
    fields = file.message_type.add(name="BatchingParameters").field
    kind = descriptor_pb2.FieldDescriptorProto
    for number, name in enumerate(_WRAPPED, start=1):
        fields.add(
            name=name, number=number, type=kind.TYPE_MESSAGE, label=kind.LABEL_OPTIONAL
        ).type_name = ".google.protobuf.Int64Value"
    fields.add(
        name="thread_pool_name", number=5, type=kind.TYPE_MESSAGE, label=kind.LABEL_OPTIONAL
    ).type_name = ".google.protobuf.StringValue"
    fields.add(name="allowed_batch_sizes", number=6, type=kind.TYPE_INT64, label=kind.LABEL_REPEATED)
    fields.add(name="pad_variable_length_inputs", number=7, type=kind.TYPE_BOOL, label=kind.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    wrappers = descriptor_pb2.FileDescriptorProto()
    wrappers_pb2.DESCRIPTOR.CopyToProto(wrappers)
    pool.Add(wrappers)
    pool.Add(file)
    found: type = message_class(pool.FindMessageTypeByName("tensorflow.serving.BatchingParameters"))
    return found


@dataclasses.dataclass
class _Task:
    inputs: Arrays
    rows: int
    future: asyncio.Future[dict[str, np.ndarray]]

    def joins(self, other: _Task) -> bool:
        """Whether both can be rows of the same arrays."""
        return all(array.shape[1:] == other.inputs[name].shape[1:] for name, array in self.inputs.items())


class Batcher:
    """Batches the calls of one signature of one loaded version. Used only from the event loop.

    Args:
        pool: Threads to run on.
        run: The model call: arrays to arrays that share their first dimension.
        options: Bounds.
        observe: Called with the rows of every batch that is run.
    """

    def __init__(
        self,
        pool: WorkerPool,
        run: Callable[[Arrays], dict[str, np.ndarray]],
        options: BatchingOptions,
        observe: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self._pool = pool
        self._run = run
        self._options = options
        self._observe = observe
        self._tasks: deque[_Task] = deque()
        self._rows = 0
        self._jobs = 0
        self._max_jobs = options.num_batch_threads or max(1, pool.workers // 2)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def depth(self) -> int:
        """Rows that wait."""
        return self._rows

    async def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Runs one request's rows, together with others'.

        Args:
            inputs: Arrays already checked, `[rows, ...]` each with the same number of rows.

        Raises:
            RequestError: RESOURCE_EXHAUSTED when the queue is full.
        """
        rows = len(next(iter(inputs.values())))
        capacity = self._options.max_batch_size * self._options.max_enqueued_batches
        if self._tasks and self._rows + rows > capacity:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                "The batch scheduling queue to which this task was submitted is full",
            )
        task = _Task(inputs, rows, asyncio.get_running_loop().create_future())
        self._tasks.append(task)
        self._rows += rows
        self._schedule()
        return await task.future

    def _schedule(self) -> None:
        if not self._tasks or self._jobs >= self._max_jobs:
            return
        if not self._options.batch_timeout_micros or self._rows >= self._options.max_batch_size:
            self._submit()
        elif self._timer is None:
            delay = self._options.batch_timeout_micros / 1e6
            self._timer = asyncio.get_running_loop().call_later(delay, self._waited_enough)

    def _waited_enough(self) -> None:
        self._timer = None
        if self._tasks and self._jobs < self._max_jobs:
            self._submit()

    def _submit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._jobs += 1
        self._pool.submit(_BatchJob(self))

    def take(self) -> list[_Task]:
        """Takes the next batch from the queue; callers that have gone are passed over."""
        batch: list[_Task] = []
        rows = 0
        while self._tasks:
            task = self._tasks[0]
            gone = task.future.done()
            if (
                not gone
                and batch
                and (rows + task.rows > self._options.max_batch_size or not task.joins(batch[0]))
            ):
                break
            self._tasks.popleft()
            self._rows -= task.rows
            if not gone:
                batch.append(task)
                rows += task.rows
        return batch

    def call(self, batch: list[_Task]) -> Callable[[], list[Outcome]]:
        """Returns the call that a thread has to make for a batch."""
        self._observe(sum(task.rows for task in batch))
        return partial(_run_batch, self._run, [task.inputs for task in batch], [task.rows for task in batch])

    def job_ended(self) -> None:
        """Lets the next batch go."""
        self._jobs -= 1
        self._schedule()


class _BatchJob:
    """A place in the pool's queue; which requests it serves is decided when it begins."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self._batch: list[_Task] = []

    def begin(self) -> Callable[[], list[Outcome]] | None:
        self._batch = self._batcher.take()
        if not self._batch:
            self._batcher.job_ended()
            return None
        return self._batcher.call(self._batch)

    def finish(self, result: Any, error: BaseException | None) -> None:
        self._batcher.job_ended()
        outcomes: list[Any] = [error] * len(self._batch) if error is not None else result
        for task, outcome in zip(self._batch, outcomes, strict=True):
            if task.future.done():
                continue
            if isinstance(outcome, BaseException):
                task.future.set_exception(outcome)
            else:
                task.future.set_result(outcome)


def _run_batch(
    run: Callable[[Arrays], dict[str, np.ndarray]], inputs: list[Arrays], rows: list[int]
) -> list[Outcome]:
    """Runs on a thread: one call for all, or, if that fails, one call each."""
    if len(inputs) == 1:
        return [_outcome(run, inputs[0])]
    joined = {name: np.concatenate([arrays[name] for arrays in inputs]) for name in inputs[0]}
    outputs = _outcome(run, joined)
    if isinstance(outputs, Exception) or any(len(array) != sum(rows) for array in outputs.values()):
        return [_outcome(run, arrays) for arrays in inputs]
    bounds = np.cumsum(rows)[:-1]
    pieces = {name: np.split(array, bounds) for name, array in outputs.items()}
    return [{name: pieces[name][index] for name in pieces} for index in range(len(inputs))]


def _outcome(run: Callable[[Arrays], dict[str, np.ndarray]], inputs: Arrays) -> Outcome:
    try:
        return run(inputs)
    except Exception as error:
        return error
