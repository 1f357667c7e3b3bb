"""The place of this process among those that train one model, as the environment variable TF_CONFIG says.

What starts the processes (Vertex AI, Kubeflow, a script) sets it. Known before TensorFlow connects them,
and without TensorFlow.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from xtr_tf.errors import InputError


class ClusterPlace(NamedTuple):
    """A process of a cluster.

    Attributes:
        workers: How many processes train by it; 0 if it names none.
        name: This one's, such as `worker-1`; empty if it is the only one.
        is_chief: Whether it is the one that writes what all have made; one of them is.
    """

    workers: int
    name: str
    is_chief: bool


def cluster_place() -> ClusterPlace:
    """Reads TF_CONFIG; without it, or without a cluster in it, this process is the only one.

    Raises:
        InputError: It cannot be read, or this process does not train.
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
