"""The devices to train on, and what their replicas exchange.

Knows `tf.distribute`; nothing of models, losses or data.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

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
    """Connects to a TPU, one replica per core."""
    if name == "local":
        name = os.environ.get("TPU_NAME", name)
    check_tpu_host(name)
    if name == "local" and not find_libtpu():
        raise InputError(
            "No TPU was found: TensorFlow reaches one through libtpu.so, which is not here; use the image "
            f"for TPUs that docs/how-to/vertex.md describes, or set TPU_LIBRARY_PATH. Received: {name!r}."
        )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        topology = tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"No TPU was found ({reason}); set `training.tpu` to its name, or to `local` on a TPU machine. "
            f"Received: {name!r}."
        ) from error
    cores = topology.num_tasks * topology.num_tpus_per_task
    assignment = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=cores)
    return tf.distribute.TPUStrategy(resolver, experimental_device_assignment=assignment)


def find_libtpu() -> Path | None:
    """The library that TensorFlow's TPU build loads, in the places where it looks for it."""
    package = importlib.util.find_spec("libtpu")
    folders = [*(package.submodule_search_locations or [] if package else []), "/lib", "/usr/lib"]
    folders += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    named = os.environ.get("TPU_LIBRARY_PATH")
    places = [Path(named)] if named else [Path(folder, "libtpu.so") for folder in folders]
    return next((place for place in places if place.is_file()), None)


def check_tpu_host(name: str) -> None:
    """Refuses processes that would each train a model of their own on a TPU of several hosts.

    TensorFlow trains on such a TPU from one process, which connects to it by name and drives all hosts;
    Cloud TPU tells each host its place in the environment.

    Args:
        name: The TPU to connect to, or `local`.
    """
    hosts = [host for host in os.environ.get("TPU_WORKER_HOSTNAMES", "").split(",") if host]
    index = os.environ.get("TPU_WORKER_ID") or os.environ.get("CLOUD_TPU_TASK_ID") or "0"
    if len(hosts) <= 1 or (name != "local" and index == "0"):
        return
    topology = os.environ.get("TPU_TOPOLOGY", "unknown")
    raise InputError(
        "A TPU of several hosts is trained on by one process that drives all of them; start it on host 0 "
        "only, with `training.tpu` set to the TPU's name. "
        f"Received: {name!r} on host {index} of {len(hosts)}, topology {topology}."
    )


def hosts_run_python(strategy: tf.distribute.Strategy) -> bool:
    """Whether the machines that feed the devices run Python of ours; those of a TPU elsewhere do not."""
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        return True
    return all("/job:localhost/" in device for device in strategy.extended.worker_devices)


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
