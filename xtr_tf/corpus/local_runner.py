"""Shards in this process, one after the other. For one machine and no Beam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xtr_tf.corpus.shard_task import ShardTask


def run_locally(task: ShardTask, shards: Sequence[Any]) -> None:
    """Finishes the shards in order."""
    loaded = task.load()
    for shard in shards:
        task.run(shard, loaded)
