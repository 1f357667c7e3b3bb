"""Encoding in this process, one shard after the other. For one machine and no Beam."""

from __future__ import annotations

from collections.abc import Sequence

from xtr_tf.corpus.encoding_plan import ShardPlan
from xtr_tf.corpus.shard_task import EncodingJob, encode_shard


def run_locally(job: EncodingJob, shards: Sequence[ShardPlan]) -> None:
    """Encodes the shards in order."""
    from xtr_tf.corpus.document_encoder import DocumentEncoder

    encoder = DocumentEncoder.load(job.model, job.config)
    for shard in shards:
        encode_shard(job, shard, encoder)
