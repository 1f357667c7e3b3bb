"""The place of this process among those that train one model, read from the environment variable TF_CONFIG.

The launcher of the processes (Vertex AI, Kubeflow, a script) sets it. Reads it before TensorFlow connects the
processes, and without TensorFlow.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from xtr_tf.errors import InputError


class ClusterPlace(NamedTuple):
    """A process of a cluster.

    Attributes:
        workers: Number of processes that train, according to TF_CONFIG. 0 if it names none.
        name: Name of this process, such as `worker-1`. Empty if it is the only one.
        is_chief: Whether this process writes the common results. Exactly one process does.
    """

    workers: int
    name: str
    is_chief: bool


def cluster_place() -> ClusterPlace:
    """Reads TF_CONFIG. Without it, or without a cluster in it, this process is the only one.

    Returns:
        The place of this process.

    Raises:
        InputError: TF_CONFIG cannot be read, or this process does not train.
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        content = json.loads(text)
        cluster, task = content.get("cluster", {}), content.get("task", {})
        workers = len(cluster.get("worker", [])) + len(cluster.get("chief", []))
        kind, index = str(task.get("type", "worker")), int(task.get("index", 0))
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(
            "TF_CONFIG must be a JSON object with `cluster` and `task`; whatever starts the workers sets it. "
            f"Received: {text!r}."
        ) from error
    if workers <= 1:
        return ClusterPlace(workers, "", True)
    if kind not in ("chief", "worker"):
        raise InputError(
            "Only a chief and workers train; start no parameter servers or evaluators. "
            f"Received: a task of type {kind!r} in TF_CONFIG."
        )
    is_chief = kind == "chief" if "chief" in cluster else index == 0
    return ClusterPlace(workers, f"{kind}-{index}", is_chief)
