"""Exchange between replicas, with shapes kept and nothing done where there is only one."""

from __future__ import annotations

import tensorflow as tf


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
