"""How requests are joined into batches, read from TensorFlow Serving's own file format."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, text_format, wrappers_pb2

from serving.client.messages import message_class
from xtr_tf.errors import InputError

_WRAPPED = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")


@dataclasses.dataclass(frozen=True)
class BatchingOptions:
    """Bounds of the batches of `serving_default`.

    The defaults never make a request wait for company: a batch is whatever has arrived while the
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
