"""The devices to train on, and the exchange between their replicas.

Knows `tf.distribute`, but nothing about models, losses or data.
"""

from __future__ import annotations

import importlib.util
import math
import os
from pathlib import Path

import tensorflow as tf

from xtr_tf.config.training import TrainingConfig
from xtr_tf.errors import InputError
from xtr_tf.training.cluster import cluster_place


def make_strategy(config: TrainingConfig) -> tf.distribute.Strategy:
    """Makes the strategy of `config.distribution`. Must run before other TensorFlow work.

    `auto` uses TPUs if there are any, otherwise the cluster of `TF_CONFIG`, otherwise all GPUs, otherwise one
    device.

    Args:
        config: Settings with `distribution` and `tpu`.

    Returns:
        The strategy.

    Raises:
        InputError: The TPU or the cluster cannot be found, or this process must not train on the TPU.
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
    check_topology(topology, name)
    cores = topology.num_tasks * topology.num_tpus_per_task
    assignment = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=cores)
    return tf.distribute.TPUStrategy(resolver, experimental_device_assignment=assignment)


def find_libtpu() -> Path | None:
    """Finds the library of TensorFlow's TPU build in the places where TensorFlow looks for it.

    Returns:
        The file, or None if there is none.
    """
    package = importlib.util.find_spec("libtpu")
    folders = [*(package.submodule_search_locations or [] if package else []), "/lib", "/usr/lib"]
    folders += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    named = os.environ.get("TPU_LIBRARY_PATH")
    places = [Path(named)] if named else [Path(folder, "libtpu.so") for folder in folders]
    return next((place for place in places if place.is_file()), None)


def check_tpu_host(name: str) -> None:
    """Refuses processes that would each train their own model on a TPU with several hosts.

    TensorFlow trains on such a TPU from one process, which connects to it by name and drives all hosts. Cloud
    TPU tells each host its place through environment variables.

    Args:
        name: The TPU to connect to, or `local`.

    Raises:
        InputError: The TPU has several hosts, and this process is not on host 0 or would use only its own.
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


def check_topology(topology: tf.tpu.experimental.Topology, name: str) -> None:
    """Refuses a TPU of which this process reaches only a part, whatever the environment says.

    Args:
        topology: The cores that were found, and the mesh that they belong to.
        name: The TPU that was connected to, or `local`.

    Raises:
        InputError: The mesh has cores that this process does not reach.
    """
    missing = len(topology.missing_devices)
    if missing:
        cores = math.prod(topology.mesh_shape)
        mesh = "x".join(map(str, topology.mesh_shape))
        raise InputError(
            "This process reaches only a part of the TPU; train from host 0 only, with `training.tpu` set to "
            f"the TPU's name. Received: {name!r} with {cores - missing} of {cores} cores, topology {mesh}."
        )


def hosts_run_python(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether the hosts that feed the devices run our Python code. Those of a remote TPU do not."""
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        return True
    return all("/job:localhost/" in device for device in strategy.extended.worker_devices)


def gather_over_replicas(tensor: tf.Tensor) -> tf.Tensor:
    """Concatenates the tensors of all replicas along the first axis, in their order. Differentiable.

    Must be called in a replica context. The tensors of all replicas must have the same shape.

    Args:
        tensor: This replica's tensor, `[rows, ...]`.

    Returns:
        `[rows * replicas, ...]`.
    """
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    if replicas == 1:
        return tensor
    # A tensor directly from the input has no device yet, which gathering requires. Gathering between
    # processes also loses the shape.
    gathered = context.all_gather(tf.identity(tensor), axis=0)
    rows = tensor.shape[0]
    return tf.ensure_shape(gathered, [None if rows is None else rows * replicas, *tensor.shape[1:]])
