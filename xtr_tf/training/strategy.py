"""The devices to train on, and what their replicas exchange.

Knows `tf.distribute`; nothing of models, losses or data.
"""

from __future__ import annotations

import os

import tensorflow as tf

from xtr_tf.config.training import TrainingConfig
from xtr_tf.errors import InputError
from xtr_tf.training.cluster import cluster_place


def make_strategy(config: TrainingConfig) -> tf.distribute.Strategy:
    """Makes the strategy that `config.distribution` names; must run before other TensorFlow work.

    `auto` takes TPUs if there are any, else the cluster of `TF_CONFIG`, else all GPUs, else one device.
    """
    kind = config.distribution if config.distribution != "auto" else _detect()
    if kind == "tpu":
        return _tpu_strategy(config.tpu)
    if kind == "multi_worker":
        if not cluster_place().workers:
            raise InputError(
                "Training on several workers needs the environment variable TF_CONFIG with a cluster. "
                f"Received: {os.environ.get('TF_CONFIG')!r}."
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    if kind == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    return tf.distribute.get_strategy()


def _detect() -> str:
    if tf.config.list_physical_devices("TPU") or "TPU_NAME" in os.environ:
        return "tpu"
    if cluster_place().workers > 1:
        return "multi_worker"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "single"


def _tpu_strategy(name: str) -> tf.distribute.Strategy:
    """Connects to a TPU, one replica a core."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        topology = tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"No TPU answers ({reason}); set `training.tpu` to its name, or to `local` on a TPU machine. "
            f"Received: {name!r}."
        ) from error
    cores = topology.num_tasks * topology.num_tpus_per_task
    assignment = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=cores)
    return tf.distribute.TPUStrategy(resolver, experimental_device_assignment=assignment)


def gather_over_replicas(tensor: tf.Tensor) -> tf.Tensor:
    """Concatenates a tensor of all replicas along its first axis, in their order; differentiable.

    Called in a replica context. All replicas' tensors must have the same shape.
    """
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    if replicas == 1:
        return tensor
    # What comes straight from the input has no device yet, and gathering asks for one; between
    # processes it also forgets the shape.
    gathered = context.all_gather(tf.identity(tensor), axis=0)
    rows = tensor.shape[0]
    return tf.ensure_shape(gathered, [None if rows is None else rows * replicas, *tensor.shape[1:]])
