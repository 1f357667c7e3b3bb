"""Batching: concurrent requests for `serving_default` run as one call of the model.

First the limits of batches, which can be read from TensorFlow Serving's file format, then the batcher. A bad
request never fails the others in its batch. Knows nothing about protocols or what the arrays mean.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
#: The model call: takes inputs and names of outputs, returns these outputs with one row per input row.
Run = Callable[[Arrays, Sequence[str]], dict[str, np.ndarray]]

# Fields of `BatchingParameters` that are wrapped integers, in order of their numbers, which start at 1.
_WRAPPED = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")


@dataclasses.dataclass(frozen=True)
class BatchingOptions:
    """Limits of the batches of `serving_default`.

    With the defaults, no request waits for others to fill its batch. A batch has the requests that arrived
    while the workers were busy.

    Attributes:
        max_batch_size: Largest number of rows per batch. 1 turns batching off.
        batch_timeout_micros: How long the first request of a batch waits for others.
        max_enqueued_batches: How many full batches of rows may wait. Further requests are refused.
        num_batch_threads: Batches that may run at the same time. 0 allows half the number of workers,
            because a batch uses more than one core, and fewer batches at a time are larger.

    Raises:
        InputError: A value is too small.
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

    Args:
        file: The file to read.

    Returns:
        The options.

    Raises:
        InputError: The file has another format, or sets a field that this server does not support.
    """
    message = batching_parameters_class()()
    try:
        text_format.Parse(file.read_text(), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise InputError(
            f"The batching file is not a BatchingParameters in text format ({error}). Received: {file}."
        ) from None
    if message.pad_variable_length_inputs or message.allowed_batch_sizes:
        raise InputError(
            "This server neither pads inputs nor rounds batch sizes; leave out "
            f"`pad_variable_length_inputs` and `allowed_batch_sizes`. Received: {file}."
        )
    given = {name: getattr(message, name).value for name in _WRAPPED if message.HasField(name)}
    return BatchingOptions(**given)


def batching_parameters_class() -> type:
    """Returns the class of `tensorflow.serving.BatchingParameters`, which no pip package contains."""
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
    outputs: Sequence[str]
    rows: int
    future: asyncio.Future[dict[str, np.ndarray]]
    alone: bool = False

    def joins(self, other: _Task) -> bool:
        """Whether the rows of both fit into the same arrays."""
        if self.alone or other.alone:
            return False
        return all(array.shape[1:] == other.inputs[name].shape[1:] for name, array in self.inputs.items())


class Batcher:
    """Batches the calls of one signature of one loaded version. Use it only from the event loop.

    Args:
        pool: Threads that run the batches.
        run: The model call.
        options: Limits of batches.
        observe: Called with the number of rows of every batch.
    """

    def __init__(
        self,
        pool: WorkerPool,
        run: Run,
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
        """Rows that wait for a batch."""
        return self._rows

    async def run(self, inputs: Arrays, outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Runs the rows of a request, in a batch with others.

        Args:
            inputs: Checked arrays, `[rows, ...]`, all with the same number of rows.
            outputs: Names of the outputs to return.

        Returns:
            The outputs by name.

        Raises:
            RequestError: RESOURCE_EXHAUSTED, if the queue is full.
        """
        rows = len(next(iter(inputs.values())))
        capacity = self._options.max_batch_size * self._options.max_enqueued_batches
        if self._tasks and self._rows + rows > capacity:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED,
                "The batch scheduling queue to which this task was submitted is full",
            )
        task = _Task(inputs, outputs, rows, asyncio.get_running_loop().create_future())
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
        """Takes the next batch from the queue and skips requests whose callers have left."""
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

    def call(self, batch: list[_Task]) -> Callable[[], list[Outcome | None]]:
        """Returns the call that runs a batch on a thread."""
        self._observe(sum(task.rows for task in batch))
        return partial(_run_batch, self._run, batch)

    def put_back(self, task: _Task) -> None:
        """Puts a request back into the queue, to run in a batch of its own."""
        task.alone = True
        self._tasks.append(task)
        self._rows += task.rows
        self._schedule()

    def job_ended(self) -> None:
        """Starts the next batch after one has ended."""
        self._jobs -= 1
        self._schedule()


class _BatchJob:
    """A place in the queue of the pool. Its requests are chosen only when it begins."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self._batch: list[_Task] = []

    def begin(self) -> Callable[[], list[Outcome | None]] | None:
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
            if outcome is None:
                self._batcher.put_back(task)
            elif isinstance(outcome, BaseException):
                task.future.set_exception(outcome)
            else:
                task.future.set_result(outcome)


def _run_batch(run: Run, batch: list[_Task]) -> list[Outcome | None]:
    """Runs a batch on a thread, as one call. If that fails, finds the requests that make it fail.

    Failing parts are halved until every bad request is found. One bad request costs two calls per halving.
    With many of them most calls would fail, so the number of calls is limited. Requests that are then still
    undecided have no outcome.
    """
    outcomes: list[Outcome | None] = [None] * len(batch)
    calls_left = 1 + 4 * len(batch).bit_length()
    undecided = deque([range(len(batch))])
    while undecided and calls_left:
        part = undecided.popleft()
        calls_left -= 1
        found = _run_together(run, [batch[index] for index in part])
        if found is None:
            middle = len(part) // 2
            undecided.extend((part[:middle], part[middle:]))
            continue
        for index, outcome in zip(part, found, strict=True):
            outcomes[index] = outcome
    return outcomes


def _run_together(run: Run, tasks: list[_Task]) -> Sequence[Outcome] | None:
    """Runs requests as one call. Returns None if it failed, but may succeed for some of them."""
    if len(tasks) == 1:
        return [_outcome(run, tasks[0].inputs, tasks[0].outputs)]
    names = tuple(sorted({name for task in tasks for name in task.outputs}))
    joined = {name: np.concatenate([task.inputs[name] for task in tasks]) for name in tasks[0].inputs}
    rows = [task.rows for task in tasks]
    outputs = _outcome(run, joined, names)
    if isinstance(outputs, Exception) or any(len(array) != sum(rows) for array in outputs.values()):
        return None
    pieces = {name: np.split(array, np.cumsum(rows)[:-1]) for name, array in outputs.items()}
    return [{name: pieces[name][index] for name in task.outputs} for index, task in enumerate(tasks)]


def _outcome(run: Run, inputs: Arrays, outputs: Sequence[str]) -> Outcome:
    try:
        return run(inputs, outputs)
    except Exception as error:
        return error
