"""Several runs as one, by rank alone.

Citation: [Cormack et al., 2009](https://doi.org/10.1145/1571941.1572114).
"""

from __future__ import annotations

from collections.abc import Sequence

from xtr_tf.evaluation.run import Run


def reciprocal_rank_fusion(name: str, runs: Sequence[Run], depth: int, k: int = 60) -> Run:
    """Ranks documents by the sum over runs of 1 / (k + rank).

    Documents with the same sum are ranked as they stand in the first run that found them.

    Args:
        name: Of the fused run.
        runs: What to fuse.
        depth: Documents of each query that stay.
        k: How little the first ranks stand out.
    """
    rankings = {}
    for query in dict.fromkeys(query for run in runs for query in run):
        sums: dict[str, float] = {}
        for run in runs:
            for rank, document in enumerate(run.documents(query), start=1):
                sums[document] = sums.get(document, 0.0) + 1 / (k + rank)
        best = sorted(sums, key=lambda document: -sums[document])[:depth]
        rankings[query] = (best, [sums[document] for document in best])
    return Run(name, rankings)
